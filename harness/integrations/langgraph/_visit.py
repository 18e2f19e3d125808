"""Where the current code stands among graphs: the invocation, and the visit of a node around it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from harness.integrations.langgraph._seam import sends, sent_place
from harness.pipeline import snapshot


@dataclass(slots=True, eq=False)
class Invocation:
    """One execution of a graph."""

    watched: bool
    """Someone reads what the nodes stream, so that a skipped body would be missed."""
    cached: bool
    """LangGraph's own node cache may answer."""
    _labels: dict[int, list[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def label(self, config: Mapping[str, Any]) -> str | None:
        """What tells a node that ``Send`` started from the others of its super-step; ``None`` without ``Send``.

        It is made of what was sent, so that it stays the same when others are added or dropped; equal ones are
        numbered in LangGraph's order.
        """
        place = sent_place(config)
        if place is None:
            return None
        step, index = place
        with self._lock:
            if step not in self._labels:
                self._labels[step] = _labels(sends(config))
            labels = self._labels[step]
        return labels[index] if index < len(labels) else str(index)


def _labels(packets: Any) -> list[str]:
    labels: list[str] = []
    seen: dict[tuple[str, str], int] = {}
    for index, packet in enumerate(packets):
        taken = snapshot(packet.arg, ordered=False)
        if taken is None:
            labels.append(str(index))
            continue
        number = seen.get((packet.node, taken.hash), 0)
        seen[packet.node, taken.hash] = number + 1
        labels.append(f"{taken.hash[:8]}.{number}" if number else taken.hash[:8])
    return labels


@dataclass(slots=True, eq=False)
class Visit:
    """One execution of a node's body."""

    watched: bool
    outer: Visit | None
    declared: bool = False
    """It is a tool, or inside one: what it calls is covered by its declaration."""
    reusable: bool = True

    def hangs_on_more(self) -> None:
        """Note that the body reads what its inputs do not show, for this visit and all around it."""
        visit: Visit | None = self
        while visit is not None:
            visit.reusable = False
            visit = visit.outer


_visit: ContextVar[Visit | None] = ContextVar("goldfork_langgraph_visit", default=None)


def visiting() -> Visit | None:
    """The visit that the calling code belongs to."""
    return _visit.get()


@contextlib.contextmanager
def visited(visit: Visit) -> Iterator[Visit]:
    """Make a visit current for a block."""
    token = _visit.set(visit)
    try:
        yield visit
    finally:
        _visit.reset(token)
