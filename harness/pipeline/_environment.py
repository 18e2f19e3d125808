"""What a step's result may hang on besides its arguments, as it stands now: one digest.

A fork skips a body only where this digest is the recorded one. It goes over the code of the function and of every
helper that it names, the globals, closure cells and defaults these read, and the environment variables they ask for.
What cannot be told (a generator, an open file, ``eval``) makes the step one that is never skipped: a body that runs
needlessly costs time, a false reuse costs the truth.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import inspect
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
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
from harness.pipeline._objects import fields_of, is_opaque
from harness.pipeline._ownership import is_application
from harness.pipeline._prompt import Prompt
from harness.pipeline._reads import reads
from harness.pipeline._snapshot import guarded
from harness.pipeline._source import code_digest

_MOST = 20_000
"""Values visited before a step's surroundings count as too large to compare."""
_ELSEWHERE = re.compile(r"[A-Z0-9_]*_(API_KEY|BASE_URL|ORG_ID|ORGANIZATION|PROJECT_ID)\Z")
"""Where to call and with which key is no input: it is left out of request keys for the same reason."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_HEAP_TYPE = 1 << 9
"""Flag of classes that are written in Python (``Py_TPFLAGS_HEAPTYPE``)."""
_VALUES = (str, bytes, int, float, complex, tuple)
_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Event, threading.Condition, threading.Semaphore)


class Untold(NotReusable):
    """It cannot be told what a function hangs on; the message says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a function hangs on besides its arguments."""

    digest: str | None
    """32 hex digits, ``None`` when it cannot be told."""
    untold: str = ""
    """What stands in the way; empty when nothing does."""


def environment_of(function: Callable[..., Any], arguments: Iterable[Any] = ()) -> Environment:
    """The surroundings of a function at this moment.

    Args:
        function: The function, its decorators and all.
        arguments: Values that it is called with: the code of their classes counts, their content does not.
    """
    try:
        # Fields and properties of the application's classes are read, which may raise anything.
        return Environment(guarded(lambda: _digest(function, arguments)))
    except NotReusable as reason:
        return Environment(None, str(reason))


def _digest(function: Callable[..., Any], arguments: Iterable[Any]) -> str:
    walk = _Walk(_home_of(function))
    walk.visit(function)
    for value in arguments:
        walk.visit_classes(value)
    return walk.digest()


@dataclass(slots=True, eq=False)
class _Walk:
    """One pass over everything reachable by name; cycles are cut at the second visit."""

    _home: str = ""
    """Top-level package of the function, wherever it is installed."""
    _sum: Any = field(default_factory=sha256)
    _seen: dict[int, int] = field(default_factory=dict)
    _modules: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    _held: list[Any] = field(default_factory=list)
    """Keeps visited objects alive, so that no id is given to another one during the walk."""

    def digest(self) -> str:
        return str(self._sum.hexdigest()[:32])

    def _say(self, *words: str) -> None:
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self._sum.update(b"%d:" % len(data) + data)

    def _ours(self, module: str) -> bool:
        """Whether a module is the application's: not installed, or of the same package as the function itself."""
        return is_application(module) or (bool(self._home) and module.partition(".")[0] == self._home)

    def _first(self, value: Any) -> bool:
        """Whether this object is met for the first time; a repeated one is named by its number."""
        number = self._seen.get(id(value))
        if number is not None:
            self._say("again", str(number))
            return False
        if len(self._seen) >= _MOST:
            raise Untold(f"it reaches more than {_MOST:,} values")
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)
        return True

    def visit(self, value: Any) -> None:
        """Take a value in."""
        if type(value) in _PLAIN:
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
        if type(value) in _PLAIN or id(value) in self._seen:
            return
        if isinstance(value, dict | list | tuple | set | frozenset):
            self._first(value)
            for item in value.values() if isinstance(value, dict) else value:
                self.visit_classes(item)
        if self._ours(type(value).__module__):
            self.visit(type(value))
            if self._first(value):
                for item in fields_of(value).values():
                    self.visit_classes(item)

    def _function(self, function: FunctionType) -> None:
        self._say("function", function.__module__ or "", function.__qualname__)
        # A decorator copies the module's name on what it makes; its globals tell where it was written.
        if not self._ours(str(function.__globals__.get("__name__", ""))):
            self._foreign(function)
            return
        self._say(code_digest(function.__code__))
        self.visit(function.__defaults__)
        self.visit(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                self.visit(cell.cell_contents)
            except ValueError:
                self._say("empty cell")
        self._reads(function)

    def _foreign(self, function: FunctionType) -> None:
        """A library's function, or what a library's decorator made of the application's."""
        contents = [cell.cell_contents for cell in function.__closure__ or ()]
        for content in contents:
            # A tool's declaration: its version stands for what the tool does.
            self._say(str(getattr(content, "version", "")), str(getattr(content, "determinism", "")))
        inner = getattr(function, "__wrapped__", None)
        for value in contents if inner is None else (inner,):
            self.visit(value)
        # What functools.singledispatch chooses from.
        self.visit(dict(getattr(function, "registry", None) or {}))

    def _reads(self, function: FunctionType) -> None:
        """What the code reads by name."""
        found = reads(function.__code__)
        where = f"{function.__module__}.{function.__qualname__}"
        if found.untold:
            raise Untold(f"{where}: {found.untold}")
        for name in found.variables:
            if not _ELSEWHERE.match(name):
                self._say("variable", name, repr(os.environ.get(name)))
        for name in found.globals:
            value = function.__globals__.get(name, _ABSENT)
            self._say("global", name)
            if value is _ABSENT:
                self._say("" if hasattr(builtins, name) else "absent")
            elif value is os.environ or value is os.getenv:
                self._environment_named(name, where)
            else:
                self._not_dynamic(value, where, dynamic=found.dynamic)
                self._named(value, found.attributes, where)
        for module, level, taken in found.imports:
            self._imported(function, module, level, {*taken, *found.attributes})

    @staticmethod
    def _environment_named(name: str, where: str) -> None:
        if name not in {"environ", "getenv"}:
            raise Untold(f"{where}: it reads environment variables under the name of {name!r}")

    def _not_dynamic(self, value: Any, where: str, *, dynamic: bool) -> None:
        if dynamic and isinstance(value, ModuleType) and self._ours(value.__name__):
            raise Untold(f"{where}: it looks up names in module {value.__name__!r} that its code does not show")

    def _named(self, value: Any, attributes: Iterable[str], where: str) -> None:
        """A global: of a module only the attributes that the code names."""
        if not isinstance(value, ModuleType):
            self.visit(value)
            return
        self._say("module", value.__name__)
        names = frozenset(attributes)
        if not self._ours(value.__name__) or (value.__name__, names) in self._modules:
            return
        self._modules.add((value.__name__, names))
        if {"__dict__", "__getattribute__"} & names:
            raise Untold(f"{where}: it looks names up in module {value.__name__!r} that its code does not show")
        for name in sorted(names):
            found = value.__dict__.get(name, _ABSENT)
            if found is not _ABSENT:
                self._say("attribute", name)
                self._named(found, names, where)
            elif "__getattr__" in value.__dict__:
                self.visit(value.__dict__["__getattr__"])

    def _imported(self, function: FunctionType, name: str, level: int, attributes: Iterable[str]) -> None:
        package = function.__globals__.get("__package__") or ""
        try:
            full = importlib.util.resolve_name("." * level + name, package) if level else name
            if not self._ours(full):
                self._say("import", full)
                return
            module: Any = importlib.import_module(full)
        except ImportError as error:
            raise Untold(f"{function.__qualname__} imports {name!r}, which is not there: {error}") from error
        self._say("import", full)
        self._named(module, attributes, function.__qualname__)

    def _class(self, kind: type) -> None:
        self._say("class", kind.__module__, kind.__qualname__)
        if not self._ours(kind.__module__):
            return
        if any(base.__module__.partition(".")[0] == "pydantic_settings" for base in kind.__mro__):
            raise Untold(f"it makes settings of class {kind.__qualname__!r}, which read the environment")
        for base in (*kind.__bases__, type(kind)):
            self.visit(base)
        self._say(class_source(kind))
        for named in classes_named(kind):
            self.visit(named)
        for name, value in class_parts(kind):
            self._say("member", name)
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
        elif isinstance(value, functools._lru_cache_wrapper):  # noqa: SLF001 - the type has no public name
            self._say("cached")
            self.visit(value.__wrapped__)
        elif isinstance(value, BuiltinFunctionType):
            self._say("builtin", value.__module__ or "", value.__qualname__)
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
        elif type(value) in {list, tuple}:
            self._say(type(value).__name__, str(len(value)))
            for item in value:
                self.visit(item)
        elif type(value) in {set, frozenset}:
            self._say(type(value).__name__, *sorted(_alone(item, self._home) for item in value))
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
        elif isinstance(value, (logging.Logger, *_LOCKS)) or is_opaque(kind):
            self._opaque(kind)
        elif isinstance(value, GenericAlias | UnionType | re.Pattern) or kind.__module__ == "typing":
            # The repr of a long pattern is cut.
            self._say("annotation", repr(value), str(getattr(value, "pattern", "")))
        elif isinstance(value, ContextVar):
            self._say("variable", value.name)
            self.visit(value.get(None))
        elif isinstance(value, ModuleType):
            raise Untold(f"it holds module {value.__name__!r}")
        elif self._ours(kind.__module__):
            self._instance(value)
        else:
            self._encoded(value)

    def _opaque(self, kind: type) -> None:
        """The code of an application's own client counts; what it holds does not."""
        self._say("opaque", kind.__qualname__)
        for base in () if getattr(kind, "__goldfork_opaque__", False) else kind.__mro__:
            if self._ours(base.__module__):
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
            elif base is not object and not issubclass(base, BaseException) and not base.__flags__ & _HEAP_TYPE:
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


_ABSENT: Any = object()


def _home_of(function: Callable[..., Any]) -> str:
    module = getattr(inspect.unwrap(function), "__module__", None) or ""
    home = module.partition(".")[0]
    return "" if home in {"harness", "builtins"} else home


def _alone(value: Any, home: str) -> str:
    """Digest of one member of a set, whose order means nothing."""
    walk = _Walk(home)
    walk.visit(value)
    return walk.digest()
