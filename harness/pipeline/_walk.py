"""A walk over what a function hangs on: what has been said, and what counts only as far as the code names it."""

from __future__ import annotations

import functools
import logging
import types
from dataclasses import dataclass, field
from hashlib import sha256
from types import FunctionType
from typing import Any

from harness.pipeline._cached import results
from harness.pipeline._codec import NotReusable
from harness.pipeline._outside import arithmetic
from harness.pipeline._ownership import is_application
from harness.pipeline._primitives import is_primitive, state_of

_MOST = 20_000
"""Values visited before a step's surroundings count as too large to compare."""
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
CACHED = functools._lru_cache_wrapper  # noqa: SLF001 - the type has no public name
_ADDRESSES = frozenset({"api_key", "base_url", "organization", "project", "auth_token", "timeout", "max_retries"})
"""Fields of a client that say where to call and with which key."""
_LEVELS = frozenset({"level", "isEnabledFor", "getEffectiveLevel", "handlers", "hasHandlers", "disabled"})


class Untold(NotReusable):
    """It cannot be told what a function hangs on; the message says what stands in the way."""


@dataclass(slots=True, eq=False)
class Walk:
    """One pass over everything reachable by name; cycles are cut at the second visit."""

    _home: str = ""
    """Top-level package of the function, wherever it is installed."""
    held: list[Any] = field(default_factory=list)
    """Keeps visited objects alive, so that no id is given to another one during the walk."""
    _alone: dict[int, str | None] = field(default_factory=dict)
    """Digests of objects that are taken each for itself; ``None`` for one that is under way."""
    _sum: Any = field(default_factory=sha256)
    _seen: dict[int, int] = field(default_factory=dict)
    _modules: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    """Attributes that the code names, met so far."""
    _changes: bool = False
    """The code may change containers or objects."""
    _later: list[Any] = field(default_factory=list)
    """What counts as far as the code names it: attributes of functions, locks, caches, levels of loggers."""

    def digest(self) -> str:
        """32 hex digits over everything visited."""
        said: set[tuple[int, str]] = set()
        place = 0
        while True:
            before = (-1, -1)
            while before != (len(self._names), len(self._later)):
                before = (len(self._names), len(self._later))
                for value in tuple(self._later):
                    self._named_fields(value, said)
            if place == len(self._later):
                break
            self._state(self._later[place])
            place += 1
        self._say(arithmetic())
        return str(self._sum.hexdigest()[:32])

    def _named_fields(self, value: Any, said: set[tuple[int, str]]) -> None:
        """Attributes that an application put on a function or a client, as far as its code names them."""
        if not hasattr(value, "__dict__") or isinstance(value, CACHED) or is_primitive(value):
            return
        client = not isinstance(value, FunctionType)
        for name in sorted(vars(value).keys() & self._names):
            if (id(value), name) in said or name == "__wrapped__":
                continue
            said.add((id(value), name))
            held = vars(value)[name]
            if not client or (type(held) in PLAIN and name not in _ADDRESSES):
                self._say("field", name)
                self.visit(held)

    def _state(self, value: Any) -> None:
        if isinstance(value, CACHED):
            self._say("results", *sorted(results(value, changes=self._changes, size=self._by_itself)))
        elif isinstance(value, logging.Logger):
            if _LEVELS & self._names:
                self._say("level", str(value.getEffectiveLevel()), str(value.disabled))
        elif is_primitive(value):
            state = state_of(value, self._names)
            if state is None:
                raise Untold(f"it waits for others or wakes them by a {type(value).__qualname__}")
            self.visit(state)

    def _by_itself(self, value: Any) -> str:
        """Digest of one object: a member of a set, whose order means nothing, or a result in a cache."""
        if type(value) in PLAIN:
            return f"{type(value).__name__} {value!r}"
        if id(value) not in self._alone:
            self._alone[id(value)] = None
            walk = type(self)(self._home, self.held, self._alone)
            walk.visit(value)
            self._alone[id(value)] = walk.digest()
        known = self._alone[id(value)]
        if known is None:
            raise Untold(f"it reaches a set that holds itself, in an object of {type(value).__qualname__!r}")
        return known

    def _say(self, *words: str) -> None:
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self._sum.update(b"%d:" % len(data) + data)

    def _ours(self, module: str) -> bool:
        """Whether a module is the application's: not installed, or of the same package as the function itself."""
        return is_application(module) or (bool(self._home) and module.partition(".")[0] == self._home)

    def _is_ours(self, value: Any) -> bool:
        module = value.__globals__.get("__name__") if isinstance(value, FunctionType) else None
        return self._ours(str(module or getattr(value, "__module__", None) or type(value).__module__))

    def _ours_class(self, kind: type) -> bool:
        """Whether a class is the application's; one that ``make_dataclass`` made says that it is of ``types``."""
        made = kind.__module__ == "types" and not hasattr(types, kind.__name__)
        return made or self._ours(kind.__module__)

    def _first(self, value: Any) -> bool:
        """Whether this object is met for the first time; a repeated one is named by its number."""
        number = self._seen.get(id(value))
        if number is not None:
            self._say("again", str(number))
            return False
        if len(self.held) >= _MOST:
            raise Untold(f"it reaches more than {_MOST:,} values")
        self._seen[id(value)] = len(self._seen)
        self.held.append(value)
        return True

    @staticmethod
    def _inside(reason: str) -> None:
        if reason:
            raise Untold(reason)

    def visit(self, value: Any) -> None:
        """Take a value in."""
        raise NotImplementedError
