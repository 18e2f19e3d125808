"""A digest of the code that a run is made with; a fork skips a body only where it is unchanged."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.canonical import content_hash
from harness.errors import TargetError

_LEFT_OUT = {"__pycache__"}
_COMPILED = {".pyc", ".pyo"}
_AT_ONCE = 1024 * 1024


def code_version(package: str) -> str:
    """Digest of a package's source tree, data files included: 64 hex digits.

    A module outside any package counts together with the Python files beside it. Two checkouts of the same text
    have the same version; the line endings of files up to 1 MiB do not count.

    Raises:
        TargetError: There is no such package.
    """
    roots = _roots(package)
    return _digest(roots, _stamp(roots))


def code_of(function: Callable[..., Any]) -> str | None:
    """The code version of the package a function is defined in; ``None`` where it has no files."""
    module = sys.modules.get(function.__module__)
    package = getattr(module, "__package__", None)
    if package:
        name = package.partition(".")[0]
    elif getattr(module, "__file__", None):
        roots = (Path(str(module.__file__)),)  # type: ignore[union-attr]  # None has no __file__
        return _digest(roots, _stamp(roots))
    else:
        return None
    try:
        return code_version(name)
    except TargetError:
        return None


def _roots(package: str) -> tuple[Path, ...]:
    """The folders of a package, more than one for a namespace package, or the file of a module."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError) as error:
        raise TargetError(f"code package {package!r} cannot be found: {error}") from error
    if spec is None or (not spec.origin and not spec.submodule_search_locations):
        raise TargetError(f"code package {package!r} cannot be found; name an importable package or module")
    places = list(spec.submodule_search_locations or ())
    return tuple(map(Path, places)) or (Path(str(spec.origin)),)


def _files(root: Path) -> list[Path]:
    if root.is_file():
        beside = root.parent.glob("*.py") if root.parent.name != "site-packages" else ()
        return sorted({root, *beside})
    return sorted(path for path in _below(root) if path.suffix not in _COMPILED and path.is_file())


def _below(root: Path) -> Iterator[Path]:
    """Every file, those of linked folders included; a link back to a folder above is not followed."""
    seen: set[str] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        yield from (Path(folder, name) for name in names)


def _stamp(roots: tuple[Path, ...]) -> tuple[tuple[tuple[str, int, int], ...], ...]:
    """Cheap sign of any edit, so that a thousand forks hash the tree once."""
    return tuple(tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in _files(root)) for root in roots)


@lru_cache(maxsize=16)
def _digest(roots: tuple[Path, ...], stamps: tuple[tuple[tuple[str, int, int], ...], ...]) -> str:
    lines = []
    for root, stamp in zip(roots, stamps, strict=True):
        base = root.parent if root.is_file() else root
        lines += [f"{Path(path).relative_to(base).as_posix()} {_content(Path(path), size)}" for path, _, size in stamp]
    return content_hash("\n".join(lines).encode())


def _content(path: Path, size: int) -> str:
    if size <= _AT_ONCE:
        return content_hash(path.read_bytes().replace(b"\r\n", b"\n"))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
