"""A state as named inputs, and back."""

from __future__ import annotations

import dataclasses
import inspect
import keyword
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

WHOLE = "state"
"""Name of the one input that a state is which has no named parts."""
RUNTIME = "runtime"
"""Name of the input that holds what may be read besides the state."""


class Given:
    """What a node or graph is given: its state, part by part, and what it may read besides."""

    def __init__(self, state: Any, runtime: Mapping[str, Any]) -> None:
        self._state = state
        self._parts = _parts(state)
        self.inputs: dict[str, Any] = {WHOLE: state} if self._parts is None else dict(self._parts)
        if runtime:
            self.inputs[RUNTIME] = dict(runtime)

    def without_thread(self) -> Given:
        """The same for a tool, whose result hangs on what it is asked and not on the thread that asks."""
        runtime = dict(self.inputs.get(RUNTIME, {}))
        configurable = {k: v for k, v in runtime.pop("configurable", {}).items() if k != "thread_id"}
        return Given(self._state, {**runtime, **({"configurable": configurable} if configurable else {})})

    @property
    def signature(self) -> inspect.Signature:
        """One parameter per input."""
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.inputs])

    def state(self, inputs: Mapping[str, Any]) -> Any:
        """The state again, with the inputs that a fork changed; the very object where none is."""
        if self._parts is None:
            return inputs[WHOLE]
        changed = {name: inputs[name] for name, value in self._parts.items() if inputs[name] is not value}
        if not changed:
            return self._state
        if isinstance(self._state, BaseModel):
            return self._state.model_copy(update=changed)
        if isinstance(self._state, dict):
            return {**self._state, **changed}
        return dataclasses.replace(self._state, **changed)

    def replaced(self) -> bool:
        """Whether the body put other values into the state object itself."""
        now = _parts(self._state)
        if self._parts is None or now is None:
            return self._parts is not now
        return now.keys() != self._parts.keys() or any(now[name] is not value for name, value in self._parts.items())


def _parts(state: Any) -> dict[str, Any] | None:
    """The named values of a state; ``None`` when it has none that stand for all of it."""
    parts: dict[str, Any]
    if type(state) is dict:
        parts = state if all(type(name) is str for name in state) else {"": None}
    elif isinstance(state, BaseModel):
        whole = bool(state.model_extra) or bool(state.__pydantic_private__)
        parts = {"": None} if whole else {name: vars(state)[name] for name in type(state).model_fields}
    elif dataclasses.is_dataclass(state) and not isinstance(state, type):
        fields = dataclasses.fields(state)
        whole = not all(field.init for field in fields) or len(fields) != len(getattr(state, "__dict__", fields))
        parts = {"": None} if whole else {field.name: getattr(state, field.name) for field in fields}
    else:
        return None
    return dict(parts) if parts and all(map(_can_be_named, parts)) else None


def _can_be_named(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name not in {WHOLE, RUNTIME}
