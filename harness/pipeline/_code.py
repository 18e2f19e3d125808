"""A digest of the code that a run is made with; a fork skips a body only where it is unchanged."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.canonical import content_hash
from harness.errors import TargetError

_LEFT_OUT = {"__pycache__"}
_COMPILED = {".pyc", ".pyo", ".so", ".pyd"}
_LARGE = 32 * 1024 * 1024


def code_version(package: str) -> str:
    """Digest of a package's source tree, data files included: 64 hex digits.

    A module outside any package counts together with the Python files beside it. Two checkouts of the same text
    have the same version; line endings do not count. Of files above 32 MiB only name and size count.

    Raises:
        TargetError: There is no such package.
    """
    root = _root(package)
    return _digest(root, _stamp(root))


def code_of(function: Callable[..., Any]) -> str | None:
    """The code version of the package a function is defined in; ``None`` where it has no files."""
    module = sys.modules.get(function.__module__)
    package = getattr(module, "__package__", None)
    if package:
        name = package.partition(".")[0]
    elif getattr(module, "__file__", None):
        root = Path(str(module.__file__))  # type: ignore[union-attr]  # None has no __file__
        return _digest(root, _stamp(root))
    else:
        return None
    try:
        return code_version(name)
    except TargetError:
        return None


def _root(package: str) -> Path:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError) as error:
        raise TargetError(f"code package {package!r} cannot be found: {error}") from error
    if spec is None or (not spec.origin and not spec.submodule_search_locations):
        raise TargetError(f"code package {package!r} cannot be found; name an importable package or module")
    places = list(spec.submodule_search_locations or ())
    return Path(places[0]) if places else Path(str(spec.origin))


def _files(root: Path) -> list[Path]:
    if root.is_file():
        beside = root.parent.glob("*.py") if root.parent.name != "site-packages" else ()
        return sorted({root, *beside})
    return sorted(
        path
        for path in root.rglob("*")
        if path.suffix not in _COMPILED and not _LEFT_OUT & set(path.parts) and path.is_file()
    )


def _stamp(root: Path) -> tuple[tuple[str, int, int], ...]:
    """Cheap sign of any edit, so that a thousand forks hash the tree once."""
    return tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in _files(root))


@lru_cache(maxsize=16)
def _digest(root: Path, stamp: tuple[tuple[str, int, int], ...]) -> str:
    base = root.parent if root.is_file() else root
    lines = [f"{Path(path).relative_to(base).as_posix()} {_content(Path(path), size)}" for path, _, size in stamp]
    return content_hash("\n".join(lines).encode())


def _content(path: Path, size: int) -> str:
    if size > _LARGE:
        return f"size {size}"
    return content_hash(path.read_bytes().replace(b"\r\n", b"\n"))
