"""What functions read by name: their code, globals, closures, imports, and what a library's functions reach."""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import resolve_name
from types import FunctionType, ModuleType
from typing import Any

from harness.errors import TargetError
from harness.pipeline._class_parts import named_in
from harness.pipeline._code import code_version
from harness.pipeline._outside import drawn_from, is_constant, module_state, outside
from harness.pipeline._ownership import located
from harness.pipeline._reads import Import, Reads, reads
from harness.pipeline._source import code_digest
from harness.pipeline._walk import Untold, Walk

_PROVIDERS = "OPENAI|AZURE_OPENAI|ANTHROPIC|MISTRAL|GROQ|GEMINI|GOOGLE|COHERE|OPENROUTER|DEEPSEEK|TOGETHER|FIREWORKS"
_PROVIDERS += "|XAI|PERPLEXITY|OLLAMA|VLLM|LITELLM|LLM|LANGFUSE|LANGSMITH|GOLDFORK"
_ELSEWHERE = re.compile(rf"([A-Z0-9_]*_API_KEY|({_PROVIDERS})_(API_BASE|BASE_URL|ORG_ID|ORGANIZATION|PROJECT_ID))\Z")
"""Where to call and with which key is no input: it is left out of request keys for the same reason."""
_OWN_PACKAGES = frozenset({"harness.pipeline", "harness.gateway", "harness.session"})
_ABSENT: Any = object()


@dataclass(slots=True, eq=False)
class CodeWalk(Walk):
    """The part of a walk that goes over functions and modules."""

    def _function(self, function: FunctionType) -> None:
        self._say("function", function.__module__ or "", function.__qualname__)
        if function.__dict__:
            self._later.append(function)
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
        self._inside(outside(function))
        contents = [cell.cell_contents for cell in function.__closure__ or ()]
        for content in contents:
            # A tool's declaration: its version stands for what the tool does.
            self._say(str(getattr(content, "version", "")), str(getattr(content, "determinism", "")))
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            self.visit(contents)
        else:
            self.visit(inner)
            if function.__globals__.get("__package__") not in _OWN_PACKAGES:
                self._decorated(inner, contents)
        # What functools.singledispatch chooses from.
        self.visit(dict(getattr(function, "registry", None) or {}))

    def _decorated(self, inner: Any, contents: Iterable[Any]) -> None:
        """What a library's decorator holds (when to try again, say), and what it may read: the annotations."""
        for content in contents:
            try:
                self.visit(content)
            except Untold:
                # How a library keeps its own books is no matter as long as the function is the same.
                if self._is_ours(content):
                    raise
                self._say("decorator", type(content).__qualname__)
        for named in named_in(getattr(inner, "__annotations__", {}), getattr(inner, "__globals__", {})):
            self.visit(named)

    def _reads(self, function: FunctionType) -> None:
        """What the code reads and sets by name."""
        found = reads(function.__code__)
        where = f"{function.__module__}.{function.__qualname__}"
        if found.untold:
            raise Untold(f"{where}: {found.untold}")
        self._names |= found.attributes
        self._changes = self._changes or found.changes
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
                self._named(value, found.attributes, where)
        for name, *attributes in found.chains:
            self._handed_on(function.__globals__.get(name), attributes, where)
        for each in found.imports:
            self._imported(function, each, found, where)
        self._data_files(function, found, where)

    def _handed_on(self, value: Any, attributes: Iterable[str], where: str) -> None:
        """Refuse a module that is more than a place to take attributes from: it may be asked for any name."""
        for name in attributes:
            if not isinstance(value, ModuleType):
                return
            value = value.__dict__.get(name)
        if isinstance(value, ModuleType) and self._ours(value.__name__):
            raise Untold(f"{where}: it hands module {value.__name__!r} on, of which any name may be asked")

    def _data_files(self, function: FunctionType, found: Reads, where: str) -> None:
        """Data files of packages, which count with their package."""
        if not found.packages:
            return
        globals_ = function.__globals__
        modules = [_module_of(globals_.get(name)) for name in found.globals] + [each.module for each in found.imports]
        if not any(str(module).startswith("importlib") for module in modules):
            raise Untold(f"{where}: it reads files")
        for package in found.packages:
            named = globals_.get(package) if package in {"__package__", "__name__"} else package
            try:
                self._say("files", str(named), code_version(str(named)))
            except TargetError as error:
                raise Untold(f"{where}: {error}") from error

    @staticmethod
    def _environment_named(name: str, where: str) -> None:
        if name not in {"environ", "getenv"}:
            raise Untold(f"{where}: it reads environment variables under the name of {name!r}")

    def _named(self, value: Any, attributes: Iterable[str], where: str) -> None:
        """A global: of a module only the attributes that the code names."""
        if not isinstance(value, ModuleType):
            self.visit(value)
            return
        self._say("module", value.__name__)
        names = frozenset(attributes)
        if (value.__name__, names) in self._modules:
            return
        self._modules.add((value.__name__, names))
        if not self._ours(value.__name__):
            self._library(value, names)
            return
        if {"__dict__", "__getattribute__"} & names:
            raise Untold(f"{where}: it looks names up in module {value.__name__!r} that its code does not show")
        for name in sorted(names):
            found = value.__dict__.get(name, _ABSENT)
            if found is not _ABSENT:
                self._say("attribute", name)
                self._named(found, names, where)
            elif "__getattr__" in value.__dict__:
                self.visit(value.__dict__["__getattr__"])

    def _library(self, module: ModuleType, names: frozenset[str], *, settings: bool = True) -> None:
        """What of a library's module the code may use: functions that read what is outside, patches, settings."""
        if module.__name__.startswith("numpy.random"):
            raise Untold("it draws from numpy's own generator")
        state = module_state(module)
        if state is not None:
            self._say("state", state)
        for name in sorted(names & vars(module).keys()):
            found = vars(module)[name]
            if callable(found):
                self._of_library_module(found, settings=settings)
            elif settings and isinstance(found, ModuleType):
                self._named(found, names, module.__name__)
            elif settings and (is_constant(found) or (module is sys and name in {"argv", "path"})):
                self._say("setting", name)
                self.visit(found)

    def _of_library_module(self, found: Any, *, settings: bool) -> None:
        """A function or class of a library: what it reads outside, the state that it draws from, what was put there."""
        self._inside(outside(found))
        ours = isinstance(found, FunctionType) and self._is_ours(found)
        if ours or drawn_from(found) is not None or (settings and isinstance(found, type)):
            self.visit(found)

    def _imported(self, function: FunctionType, wanted: Import, found: Reads, where: str) -> None:
        package = function.__globals__.get("__package__") or ""
        try:
            full = resolve_name("." * wanted.level + wanted.module, package) if wanted.level else wanted.module
        except ImportError as error:
            raise Untold(f"{where} imports {wanted.module!r}, which is not there: {error}") from error
        self._say("import", full)
        module = sys.modules.get(full)
        names = frozenset({*wanted.taken, *found.attributes})
        if module is None:
            # To load it would run its code, which the body alone may do.
            if located(full) is None:
                self._say("absent")
            elif self._ours(full):
                raise Untold(f"{where} imports {full!r}, which is not loaded yet")
            return
        if not self._ours(full):
            # Whether a library is loaded already is no difference.
            self._library(module, names, settings=False)
            return
        self._named(module, names, where)
        top = sys.modules.get(full.partition(".")[0])
        if not wanted.taken and top is not None:
            self._named(top, names, where)
        for each, name, attributes in found.imported:
            if each == wanted:
                first = top if name == "." else vars(module).get(name) if name else module
                self._handed_on(first, attributes, where)


def _module_of(value: Any) -> str | None:
    return value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
