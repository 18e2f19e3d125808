"""Importing the pipeline that a dataset or a command names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from harness.errors import TargetError


def load_target(ref: str) -> Callable[..., Any]:
    """Import the pipeline that ``package.module:name`` names; the current folder is searched as well.

    ``burr:package.module:builder`` and ``langgraph:package.module:graph`` name an application of another framework,
    whose adapter (entry point group ``goldfork.target_adapters``) makes a pipeline of it.

    Raises:
        TargetError: The reference has another shape, the import fails, or the name is not callable.
    """
    module_name, colon, name = ref.partition(":")
    if ":" in name:
        return _adapted(module_name, name, ref)
    if not colon or not module_name or not name:
        raise TargetError(f"target {ref!r} is not of the form package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        # The console script leaves it out; a user's own package usually stands there.
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # a module may raise anything when it is imported
        raise TargetError(
            f"target {ref!r} cannot be imported: {type(error).__name__}: {error}; "
            "run the command where the package is importable, or install it"
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise TargetError(f"target {ref!r}: module {module_name!r} has no function {name!r}")
    return found  # type: ignore[no-any-return]  # checked to be callable just above


def _adapted(adapter: str, rest: str, ref: str) -> Callable[..., Any]:
    found = {point.name: point for point in entry_points(group="goldfork.target_adapters")}
    if adapter not in found:
        known = ", ".join(sorted(found)) or "none"
        raise TargetError(f"target {ref!r}: there is no adapter {adapter!r}; there are: {known}")
    try:
        adapt: Callable[[str], Callable[..., Any]] = found[adapter].load()
    except ImportError as error:
        raise TargetError(f"target {ref!r} needs `pip install goldfork[{adapter}]`: {error}") from error
    return adapt(rest)
