"""Reading back: whether what was accepted is really there, once, and at its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import orjson

from harness.mirror._freeze import thaw
from harness.mirror._wire import Sent

if TYPE_CHECKING:
    from harness.mirror._project import Project

CHECKS: Final = (60.0, 300.0, 3600.0)
"""Seconds from an acceptance, and from one look to the next; the last holds for all further looks."""

SOON: Final = 10.0
"""Seconds until the first look at what may or may not have arrived."""

_OBSERVATIONS = "/api/public/v2/observations"
_PAGE = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the server shows of one trace, against what was frozen."""

    missing: frozenset[str]
    """Spans that are not there."""
    doubled: bool
    """A span has several equal-timed rows that the server has not merged yet."""
    moved: bool
    """A span has a row with another start time, which no merge will ever remove."""

    @property
    def whole(self) -> bool:
        """Every span is there exactly once, at its time."""
        return not (self.missing or self.doubled or self.moved)


def expected(frozen: bytes, *, without: Iterable[str] = ()) -> dict[str, int]:
    """Span id → start in unix milliseconds, of a frozen run."""
    left_out = frozenset(without)
    spans = (orjson.loads(span) for span in thaw(frozen))
    return {
        span["spanId"]: int(span["startTimeUnixNano"]) // 1_000_000 for span in spans if span["spanId"] not in left_out
    }


def compare(starts: Mapping[str, int], rows: Iterable[tuple[str, int]]) -> Seen:
    """Judge the rows of a trace. Rows of other ids are somebody else's and are left alone.

    Args:
        starts: Span id → start in unix milliseconds, as frozen.
        rows: Span id and start of each physical row that the server shows.
    """
    found: dict[str, list[int]] = defaultdict(list)
    for span, start in rows:
        if span in starts:
            found[span].append(start)
    return Seen(
        missing=frozenset(starts.keys() - found.keys()),
        doubled=any(len(times) > 1 for times in found.values()),
        moved=any(time != starts[span] for span, times in found.items() for time in times),
    )


def rows_of(project: Project, trace: str) -> list[tuple[str, int]] | Sent:
    """Every row of a trace as span id and start in unix milliseconds, or the answer that kept them from us.

    Source of the protocol: Langfuse's observations API v2, which does not de-duplicate.
    """
    rows: list[tuple[str, int]] = []
    asked = {"traceId": trace, "fields": "core", "limit": str(_PAGE)}
    while True:
        answer = project.get(_OBSERVATIONS, asked)
        if isinstance(answer, Sent):
            return answer
        try:
            rows += [(row["id"], _milliseconds(row["startTime"])) for row in answer["data"]]
            cursor = answer["meta"].get("cursor")
        except (KeyError, TypeError, ValueError, AttributeError):
            return Sent(outcome="retry", words="the list of observations has an unknown shape")
        if not cursor:
            return rows
        asked["cursor"] = cursor


def _milliseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


def next_look(looks: int) -> timedelta:
    """How long to wait after so many looks before the next one."""
    return timedelta(seconds=CHECKS[min(looks, len(CHECKS) - 1)])
