"""A span before it is written down: its place, its times and what it says, not yet redacted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from harness.mirror._dictionary import utc

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_LATEST: Final = 9_000_000_000_000
"""Unix milliseconds in the year 2255: a wrong clock must not leave what the wire can hold."""


@dataclass(kw_only=True, slots=True)
class Span:
    """One span of a run."""

    id: str
    parent: str | None
    seq: int
    type: str
    """Observation type, lower case."""
    name: str
    start: int
    """Unix milliseconds, like ``end``."""
    end: int
    open: bool
    """Nobody was there to take the time when it ended."""
    level: str
    status: str | None
    """What went wrong."""
    input: Any = None
    output: Any = None
    """JSON values; ``None`` for none."""
    meta: dict[str, Any] = field(default_factory=dict)
    """The span's own part of the ``goldfork`` object."""
    request: dict[str, Any] | None = None
    """Of a message: what it asked for besides its input and scalars."""
    texts: dict[str, str] = field(default_factory=dict)
    """Further attributes of foreign text."""
    params: dict[str, Any] | None = None
    fixed: dict[str, str] = field(default_factory=dict)
    """Further attributes of our own: counts, money, times."""
    first_chunk_ms: float | None = None


def milliseconds(when: datetime) -> int:
    """A time as whole unix milliseconds, floored as the server does it."""
    return max(0, min((utc(when) - _EPOCH) // _MILLISECOND, _LATEST))


def ended(started: datetime, lasted_ms: float) -> int:
    """When something ended by the monotonic clock, in unix milliseconds; never before it began.

    Args:
        started: By the wall clock.
        lasted_ms: Duration in milliseconds; what is no duration counts as none.
    """
    if not 0 < lasted_ms < _LATEST:
        return milliseconds(started)
    microseconds = (utc(started) - _EPOCH) // _MICROSECOND + round(lasted_ms * 1000)
    return max(milliseconds(started), min(microseconds // 1000, _LATEST))


def settle(spans: Sequence[Span]) -> None:
    """Give spans that share a millisecond one each, in order of ``seq``, and open ones an end after all inside them.

    Args:
        spans: In order of ``seq``, parents before their children.
    """
    free: dict[int, int] = {}
    for span in spans:
        span.start = _claim(free, span.start)
        span.end = max(span.end, span.start)
    by_id = {span.id: span for span in spans}
    for span in reversed(spans):
        above = by_id.get(span.parent or "")
        if above is not None and above.open:
            above.end = max(above.end, span.end)


def _claim(free: dict[int, int], start: int) -> int:
    """The first free millisecond from ``start`` on; ``free`` leads from a taken one towards it."""
    path = []
    while start in free:
        path.append(start)
        start = free[start]
    for taken in [*path, start]:
        free[taken] = start + 1
    return start
