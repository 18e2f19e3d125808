"""What a node's metadata says about how it may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from harness.errors import UsageError
from harness.record import Determinism


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A node that is a tool."""

    determinism: Determinism
    ttl: float | None
    """Seconds for which a time-bound result counts as fresh."""
    version: str | None
    options: Mapping[str, Any]
    """``stand_in``, where there is one: a value, or a function of the node's inputs."""


def declaration_of(name: str, metadata: Mapping[str, Any] | None, *, stands_for: str = "inputs") -> Declaration | None:
    """Read ``{"determinism": "time-bound", "ttl": 300}``, or the same as ``{"tags": ["determinism:time-bound", …]}``.

    Args:
        name: Name of the node or tool.
        metadata: Its metadata.
        stands_for: What a stand-in that is a function is called with: a node's ``inputs``, a tool's ``arguments``.

    Raises:
        UsageError: A value means nothing.
    """
    said = {**_tagged((metadata or {}).get("tags")), **(metadata or {})}
    determinism = said.get("determinism")
    if determinism is None:
        return None
    if determinism not in get_args(Determinism):
        known = ", ".join(get_args(Determinism))
        raise UsageError(f"{name!r} declares determinism {determinism!r}; write one of {known}")
    ttl = said.get("ttl")
    try:
        seconds = None if ttl is None else float(ttl)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name!r} declares ttl {ttl!r}; write seconds, as in ttl:300") from error
    return Declaration(
        determinism=determinism,
        ttl=seconds,
        version=None if said.get("version") is None else str(said["version"]),
        options={"stand_in": _stand_in(said["stand_in"], stands_for)} if "stand_in" in said else {},
    )


def _stand_in(declared: Any, stands_for: str) -> Any:
    """A stand-in; one that is a function is given the inputs as one object."""
    if not callable(declared) or stands_for != "inputs":
        return declared
    function: Callable[[dict[str, Any]], Any] = declared
    return lambda **inputs: function(inputs)


def _tagged(tags: Any) -> dict[str, str]:
    if not isinstance(tags, Iterable) or isinstance(tags, str):
        return {}
    pairs = (tag.partition(":") for tag in tags if isinstance(tag, str))
    return {name: value for name, colon, value in pairs if colon}
