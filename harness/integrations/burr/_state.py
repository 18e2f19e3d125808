"""The state of a Burr application as one action sees it, and what the action makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from burr.core.state import AppendFields, DeleteField, ExtendFields, IncrementFields, SetFields, State, StateDelta

from harness.integrations.burr._reads import Reads, public, values_of

_ATOMS = (str, bytes, int, float, complex, bool, type(None), type(Ellipsis))


class Watched(State):  # type: ignore[type-arg]  # as Burr's own code names it
    """A state that notes which of its values are read; what it makes of itself is watched as well."""

    def __init__(self, base: Any, reads: Reads, changed: Mapping[str, Any] | None = None) -> None:
        super().__init__({**values_of(base), **(changed or {})}, base.typing_system)
        self._reads = reads
        self._origin: Mapping[str, Any] = self._state
        """What the body started from; what it has added since follows from that."""
        self._base = base if isinstance(base, Watched) else None
        """The state of a sub-application is part of that of the action which runs it."""
        self._own: frozenset[str] = frozenset(changed or ())
        """Keys that were set in the body, so that reading them reads nothing from outside."""

    def note_read(self, name: str) -> None:
        """Take down that a value was asked for, here and in the state that this one is part of."""
        if name in self._own:
            return
        self._reads.note(name, self._state)
        if self._base is not None:
            self._base.note_read(name)

    def note_names(self) -> None:
        """Take down that the names were asked for."""
        self._reads.note_keys(self._origin)
        if self._base is not None:
            self._base.note_names()

    def _note_everything(self) -> None:
        self.note_names()
        for name in tuple(self._state):
            self.note_read(name)

    def _made(self, values: dict[str, Any], own: Iterable[str], typing_system: Any = None) -> Watched:
        plain: State[Any] = State(values, typing_system or self._typing_system)
        made = Watched(plain, self._reads)
        made._base, made._origin, made._own = self._base, self._origin, self._own.union(own)
        return made

    def __getitem__(self, name: str) -> Any:
        self.note_read(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[Any]:
        self.note_names()
        return super().__iter__()

    def __len__(self) -> int:
        self.note_names()
        return super().__len__()

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies leave the watch, so they count as reading it all.
        self._note_everything()
        return State, (dict(self._state), self._typing_system)

    def keys(self) -> list[str]:  # type: ignore[override]  # as Burr has it
        """The names of the values."""
        self.note_names()
        return list(self._state)

    def with_typing_system(self, typing_system: Any) -> Any:
        """The same values under other types: the start of a sub-application."""
        return self._made(dict(self._state), (), typing_system)

    def apply_operation(self, operation: StateDelta) -> Any:
        """A new state; appending and counting read what was there, setting does not."""
        if isinstance(operation, AppendFields | ExtendFields | IncrementFields):
            for name in operation.reads():
                self.note_read(name)
        elif not isinstance(operation, SetFields | DeleteField):
            self._note_everything()
        made = super().apply_operation(operation)
        return self._made(values_of(made), operation.reads())

    def wipe(self, delete: list[str] | None = None, keep: list[str] | None = None) -> Any:
        """A new state with less in it; what is not kept hangs on what there is."""
        if delete is None:
            self.note_names()
        return super().wipe(delete=delete, keep=keep)

    def merge(self, other: Any) -> Any:
        """A new state with another's values over this one's."""
        theirs = values_of(other)
        new = {name for name, value in theirs.items() if name not in self._state or self._state[name] is not value}
        return self._made({**self._state, **theirs}, new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an action did: its result, and how it altered the state."""

    result: Any = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    items: tuple[Any, ...] = ()
    """What a streaming action yielded before its result."""

    @classmethod
    def between(cls, before: Any, after: Any, writes: Iterable[str], result: Any, items: tuple[Any, ...]) -> Outcome:
        """Of a body that turned one state into another: what it declares to write, and whatever else it replaced."""
        old, new, declared = public(before), public(after), frozenset(writes)
        values = {
            name: value for name, value in new.items() if name in declared or name not in old or old[name] is not value
        }
        return cls(result=result, values=values, deleted=tuple(sorted(old.keys() - new.keys())), items=items)

    @classmethod
    def read(cls, output: Any) -> Outcome:
        """Of a recorded output, or of one that a change or a stand-in dictates: an object of state values will do."""
        if not isinstance(output, Mapping):
            output = {}
        if "state" not in output or output.keys() - {"state", "result", "deleted", "items"}:
            return cls(values=output)
        return cls(
            result=output.get("result", {}),
            values=output["state"],
            deleted=tuple(output.get("deleted", ())),
            items=tuple(output.get("items", ())),
        )

    def written(self) -> dict[str, Any]:
        """What is recorded as the step's output."""
        parts: dict[str, Any] = {"state": dict(self.values)}
        if self.result:
            parts["result"] = self.result
        if self.deleted:
            parts["deleted"] = list(self.deleted)
        if self.items:
            parts["items"] = list(self.items)
        return parts

    def applied(self, state: Any) -> Any:
        """The state after it."""
        values = {**values_of(state), **self.values}
        left = {name: value for name, value in values.items() if name not in self.deleted}
        return State(left, state.typing_system)

    def aliased(self, after: Any) -> bool:
        """Whether a value shares a part that can be changed with another value of the state.

        Given back from a recording they are two, and a later change in place would reach only one.
        """
        owners: dict[int, str] = {}
        for name, value in public(after).items():
            for part in _parts(value):
                if owners.setdefault(part, name) != name and {name, owners[part]} & self.values.keys():
                    return True
        return False


def _parts(value: Any) -> Iterator[int]:
    """Ids of what can be changed in a value."""
    todo, seen = [value], set[int]()
    while todo:
        part = todo.pop()
        if isinstance(part, _ATOMS) or id(part) in seen:
            continue
        seen.add(id(part))
        if not isinstance(part, tuple | frozenset):
            yield id(part)
        if isinstance(part, Mapping):
            todo.extend(part.values())
        elif isinstance(part, list | tuple | set | frozenset):
            todo.extend(part)
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            todo.extend(vars(part).values())
