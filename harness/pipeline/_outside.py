"""What a library's functions reach besides their arguments: files, state of the process, state of the library."""

from __future__ import annotations

import random
import sys
from decimal import getcontext
from hashlib import sha256
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

_MODULES = (
    frozenset({"sqlite3", "_sqlite3", "configparser", "pkgutil", "shelve", "dbm", "glob", "fileinput", "linecache"})
    | frozenset({"shutil", "subprocess", "_posixsubprocess", "tempfile", "mmap", "ctypes", "_ctypes", "genericpath"})
    | frozenset({"jinja2.loaders", "dotenv.main", "runpy", "multiprocessing", "zipfile", "tarfile", "netrc"})
)
"""Modules whose functions and classes read files or other processes."""
_HARMLESS = frozenset({"fspath", "cpu_count", "urandom", "getpid", "strerror", "fsencode", "fsdecode", "PathLike"})
_SOME = {
    "_io": frozenset({"open", "FileIO", "open_code"}),
    "io": frozenset({"open", "FileIO", "open_code", "OpenWrapper"}),
    "posixpath": frozenset({"lexists", "ismount", "realpath", "abspath", "expanduser", "expandvars"}),
    "ntpath": frozenset({"lexists", "ismount", "realpath", "abspath", "expanduser", "expandvars"}),
    "os": frozenset({"walk", "fwalk", "makedirs", "removedirs", "renames", "popen", "get_exec_path"}),
    "logging.config": frozenset({"fileConfig", "dictConfig"}),
}
"""Functions of other modules that do."""
_CONSTANT = (bool, int, float, complex, str, bytes)


def outside(value: Any) -> str:
    """Why a library's function or class makes what is read untold; empty when it does not."""
    module = str(getattr(value, "__module__", None) or "")
    name = str(getattr(value, "__qualname__", ""))
    if (
        module in _MODULES
        or module.partition(".")[0] in _MODULES
        or name in _SOME.get(module, ())
        or (module in {"posix", "nt"} and name not in _HARMLESS and not isinstance(value, type))
    ):
        return f"it calls {module}.{name}(), which reads files or what else is outside"
    return ""


def drawn_from(value: Any) -> random.Random | None:
    """The generator of random numbers that a function belongs to: ``random.choice``, ``rng.random``."""
    owner = getattr(value, "__self__", None) if isinstance(value, MethodType | BuiltinFunctionType) else None
    return owner if isinstance(owner, random.Random) else None


def random_state(generator: random.Random) -> str:
    """Digest of where a generator stands."""
    try:
        return sha256(repr(generator.getstate()).encode()).hexdigest()
    except NotImplementedError:
        # The system's own generator has no state.
        return ""


def arithmetic() -> str:
    """How decimals are calculated here."""
    context = getcontext()
    traps = sorted(signal.__name__ for signal, set_ in context.traps.items() if set_)
    return repr((context.prec, context.rounding, context.Emin, context.Emax, context.clamp, traps))


def module_state(module: ModuleType) -> str | None:
    """State that a library's module keeps inside; ``None`` for one that keeps none, or none that is known."""
    if module.__name__ == "locale":
        return str(module.setlocale(module.LC_ALL))
    return None


def is_constant(value: Any) -> bool:
    """Whether a library's module or class holds it as a setting."""
    return type(value) in _CONSTANT


def patches(kind: type) -> list[tuple[str, Any]]:
    """Functions and settings that a library's class holds now: an application may have put others there."""
    return [
        (name, value)
        for name, value in vars(kind).items()
        if isinstance(value, FunctionType) or (type(value) in _CONSTANT and not name.startswith("_"))
    ]


def registered(kind: type) -> list[str]:
    """Classes that were registered with an abstract one."""
    dump = getattr(sys.modules.get("abc"), "_get_dump", None)
    if dump is None or "_abc_impl" not in vars(kind):
        return []
    found = [reference() for reference in dump(kind)[0]]
    return sorted(f"{each.__module__}.{each.__qualname__}" for each in found if each is not None)
