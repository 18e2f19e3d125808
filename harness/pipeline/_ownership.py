"""Whose code a module is: the application's, or Python's, a library's, this package's."""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path


def is_application(name: str | None) -> bool:
    """Whether a module belongs to the application, whose code may change between two runs."""
    if not name or name == "builtins":
        return False
    module = sys.modules.get(name)
    if module is None:
        spec = located(name)
        return _by_file(name, spec.origin if spec else None)
    return _by_file(name, getattr(module, "__file__", None))


def located(name: str) -> ModuleSpec | None:
    """Where a module would be loaded from; unlike ``importlib.util.find_spec`` this imports no package above it."""
    path = None
    full = ""
    spec: ModuleSpec | None = None
    for part in name.split("."):
        full = f"{full}.{part}" if full else part
        spec = _found(full, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def _found(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


@functools.lru_cache(maxsize=4096)
def _by_file(name: str, file: str | None) -> bool:
    if name.partition(".")[0] == "harness":
        return name.startswith("harness.demo")
    if file is None:
        return name == "__main__" or name not in sys.builtin_module_names
    return not str(Path(file).resolve()).startswith(_library_folders())


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages()}
    return tuple(str(Path(folder).resolve()) + os.sep for folder in folders)
