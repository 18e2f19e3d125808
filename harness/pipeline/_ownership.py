"""Whose code a module is: the application's, or Python's, a library's, this package's."""

from __future__ import annotations

import functools
import importlib.util
import os
import site
import sys
import sysconfig
from pathlib import Path


def is_application(name: str | None) -> bool:
    """Whether a module belongs to the application, whose code may change between two runs."""
    if not name or name == "builtins":
        return False
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.find_spec(name)
        return _by_file(name, spec.origin if spec else None)
    return _by_file(name, getattr(module, "__file__", None))


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
