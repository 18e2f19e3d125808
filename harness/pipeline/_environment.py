"""What a step's result may hang on besides its arguments, as it stands now: one digest.

A fork skips a body only where this digest is the recorded one. It goes over the code of the function and of every
helper that it names, the globals, closure cells and defaults these read, and the environment variables they ask for.
What cannot be told (a generator, an open file, ``eval``) makes the step one that is never skipped: a body that runs
needlessly costs time, a false reuse costs the truth.
"""

from __future__ import annotations

import functools
import inspect
import logging
import random
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from types import (
    BuiltinFunctionType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MethodType,
    ModuleType,
    UnionType,
)
from typing import Any

from harness.canonical import canonical_json
from harness.pipeline._class_parts import class_parts, class_source, classes_named
from harness.pipeline._codec import Encoder, NotReusable
from harness.pipeline._objects import fields_of, hides_state, is_opaque
from harness.pipeline._outside import (
    outside,
    patches,
    random_state,
    registered,
)
from harness.pipeline._primitives import is_primitive
from harness.pipeline._prompt import Prompt
from harness.pipeline._snapshot import guarded
from harness.pipeline._walk import CACHED, PLAIN, Untold
from harness.pipeline._walk_code import CodeWalk

_VALUES = (str, bytes, int, float, complex, tuple)
_BY_FIELDS = ("annotated_types", "pydantic", "tenacity")
"""Libraries whose objects are all in their fields: limits, validators, rules when to try again."""
_TYPING = frozenset({"typing", "typing_extensions"})
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_HEAP_TYPE = 1 << 9
"""Flag of classes that may be changed (``Py_TPFLAGS_HEAPTYPE``)."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a function hangs on besides its arguments."""

    digest: str | None
    """32 hex digits, ``None`` when it cannot be told."""
    untold: str = ""
    """What stands in the way; empty when nothing does."""
    reached: Sequence[Any] = ()
    """The objects that the digest was taken of."""


def environment_of(function: Callable[..., Any], arguments: Iterable[Any] = ()) -> Environment:
    """The surroundings of a function at this moment.

    Args:
        function: The function, its decorators and all.
        arguments: Values that it is called with: the code of their classes counts, their content does not.
    """
    walk = _Walk(_home_of(function))
    try:
        # Fields and properties of the application's classes are read, which may raise anything.
        return Environment(guarded(lambda: _digest(walk, function, arguments)), reached=walk.held)
    except NotReusable as reason:
        return Environment(None, str(reason))


def _digest(walk: _Walk, function: Callable[..., Any], arguments: Iterable[Any]) -> str:
    walk.visit(function)
    for value in arguments:
        walk.visit_classes(value)
    return walk.digest()


@dataclass(slots=True, eq=False)
class _Walk(CodeWalk):
    """One pass over everything reachable by name; cycles are cut at the second visit."""

    def visit(self, value: Any) -> None:
        """Take a value in."""
        if type(value) in PLAIN:
            self._say(type(value).__name__, repr(value))
            return
        if not self._first(value):
            return
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif not self._callable(value) and not self._container(value):
            self._object(value)

    def visit_classes(self, value: Any) -> None:
        """Take in the code that a value brings along as methods."""
        if type(value) in PLAIN or id(value) in self._seen:
            return
        if isinstance(value, dict | list | tuple | set | frozenset):
            self._first(value)
            for item in (*value.keys(), *value.values()) if isinstance(value, dict) else value:
                self.visit_classes(item)
        if self._ours_class(type(value)):
            self.visit(type(value))
            if self._first(value):
                for item in fields_of(value).values():
                    self.visit_classes(item)

    def _class(self, kind: type) -> None:
        self._say("class", kind.__module__, kind.__qualname__)
        if not self._ours_class(kind):
            self._foreign_class(kind)
            return
        if any(base.__module__.partition(".")[0] == "pydantic_settings" for base in kind.__mro__):
            raise Untold(f"it makes settings of class {kind.__qualname__!r}, which read the environment")
        for base in (*kind.__bases__, type(kind)):
            self.visit(base)
        self._say(class_source(kind), *registered(kind))
        for named in classes_named(kind):
            self.visit(named)
        for name, value in class_parts(kind):
            self._say("member", name)
            self.visit(value)

    def _foreign_class(self, kind: type) -> None:
        """A library's class: what it does is the library's, but for methods and settings that were put there."""
        self._inside(outside(kind))
        for name, value in patches(kind) if kind.__flags__ & _HEAP_TYPE else ():
            if not isinstance(value, FunctionType):
                self._say(name, repr(value))
            elif self._is_ours(value):
                self._say(name)
                self.visit(value)

    def _callable(self, value: Any) -> bool:
        if isinstance(value, MethodType):
            self._say("method")
            self.visit(value.__func__)
            self.visit(value.__self__)
        elif isinstance(value, functools.partial):
            self._say("partial")
            self.visit(value.func)
            self.visit(value.args)
            self.visit(value.keywords)
        elif isinstance(value, staticmethod | classmethod):
            self._say(type(value).__name__)
            self.visit(value.__func__)
        elif isinstance(value, property):
            self._say("property")
            for part in (value.fget, value.fset, value.fdel):
                self.visit(part)
        elif isinstance(value, CACHED):
            self._say("cached")
            self.visit(value.__wrapped__)
            self._later.append(value)
        elif isinstance(value, BuiltinFunctionType):
            self._say("builtin", value.__module__ or "", value.__qualname__)
            self._inside(outside(value))
            self._bound_to(value)
        else:
            return False
        return True

    def _bound_to(self, value: BuiltinFunctionType) -> None:
        owner = value.__self__
        if owner is not None and not isinstance(owner, ModuleType | type):
            self.visit(owner)

    def _container(self, value: Any) -> bool:
        if isinstance(value, dict | MappingProxyType) and type(value).__module__ in {"builtins", "collections"}:
            self._say(type(value).__name__, str(len(value)))
            self.visit(getattr(value, "default_factory", None))
            for key, item in value.items():
                self.visit(key)
                self.visit(item)
        elif type(value) in {list, tuple, deque}:
            self._say(type(value).__name__, str(len(value)), str(getattr(value, "maxlen", None)))
            for item in value:
                self.visit(item)
        elif type(value) in {set, frozenset}:
            self._say(type(value).__name__, *sorted(map(self._by_itself, value)))
        else:
            return False
        return True

    def _object(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, Prompt):
            self._say("prompt", value.name, value.declared)
        elif isinstance(value, Enum):
            self._say("member", value.name)
            self.visit(kind)
        elif isinstance(value, logging.Logger) or is_opaque(kind):
            self._opaque(kind)
            self._later.append(value)
        elif is_primitive(value):
            self._say("primitive", kind.__qualname__)
            self._later.append(value)
        elif isinstance(value, GenericAlias | UnionType | re.Pattern) or kind.__module__ in _TYPING:
            self._annotation(value)
        elif isinstance(value, ModuleType):
            raise Untold(f"it holds module {value.__name__!r}")
        elif self._ours_class(kind):
            self._instance(value)
        else:
            self._of_library(value)

    def _of_library(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, ContextVar):
            self._say("variable", value.name)
            try:
                self.visit(value.get())
            except LookupError:
                self._say("unset")
        elif kind is random.Random or kind is random.SystemRandom:
            self._say("random", random_state(value))
        elif kind.__module__.partition(".")[0] in _BY_FIELDS:
            self._held_by_library(value)
        else:
            self._encoded(value)

    def _annotation(self, value: Any) -> None:
        # The repr of a long pattern is cut, and that of a function says where it is in memory.
        self._say("annotation", _ADDRESS.sub("", repr(value)), str(getattr(value, "pattern", "")))
        if isinstance(value, re.Pattern):
            self._say(str(value.flags))
            return
        for part in ("__origin__", "__args__", "__metadata__", "__value__", "__bound__", "__constraints__"):
            inner = getattr(value, part, None)
            if inner is not None and inner != ():
                self.visit(inner)

    def _held_by_library(self, value: Any) -> None:
        """An object of a library that is known to keep all in fields; what it notes for each thread is its own."""
        kind = type(value)
        if any(map(hides_state, kind.__mro__)):
            self._encoded(value)
            return
        self._say("object", kind.__module__, kind.__qualname__)
        for name, item in sorted(fields_of(value).items()):
            if type(item) is not threading.local and not is_primitive(item):
                self._say("field", name)
                self.visit(item)

    def _opaque(self, kind: type) -> None:
        """The code of an application's own client counts; what it holds does not."""
        self._say("opaque", kind.__qualname__)
        for base in () if getattr(kind, "__goldfork_opaque__", False) else kind.__mro__:
            if self._ours_class(base):
                self._say(class_source(base))
                self.visit([member for _, member in class_parts(base)])

    def _instance(self, value: Any) -> None:
        """An object of the application: its class and its fields."""
        kind = type(value)
        self._say("object", kind.__qualname__)
        if not any(base.__module__.partition(".")[0] == "pydantic_settings" for base in kind.__mro__):
            self.visit(kind)
        for base in kind.__mro__:
            if base in _VALUES:
                # A subclass of a plain value is that value too.
                self.visit(base(value))
            elif base is random.Random:
                self._say("random", random_state(value))
            elif issubclass(base, BaseException):
                self.visit(value.args)
            elif hides_state(base) and not issubclass(random.Random, base):
                raise Untold(
                    f"it reaches an object of {kind.__qualname__!r}, which is a {base.__qualname__} of its own kind"
                )
        for name, item in sorted(fields_of(value).items()):
            self._say("field", name)
            self.visit(item)

    def _encoded(self, value: Any) -> None:
        kind = type(value)
        try:
            self._say(kind.__module__, kind.__qualname__, canonical_json(Encoder().encode(value)).decode())
        except NotReusable as error:
            raise Untold(f"it reaches an object of {kind.__module__}.{kind.__qualname__}") from error


def _home_of(function: Callable[..., Any]) -> str:
    module = getattr(inspect.unwrap(function), "__module__", None) or ""
    home = module.partition(".")[0]
    return "" if home in {"harness", "builtins"} else home
