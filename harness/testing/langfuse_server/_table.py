"""The table of observations: what was accepted, what has become visible, what a merge leaves."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from harness.testing.langfuse_server._rows import Row


class Table:
    """Rows in order of arrival, found by trace."""

    def __init__(self) -> None:
        self._traces: dict[str, list[Row]] = {}
        self._numbers = 0
        self._newest: list[Row] | None = None

    def add(self, rows: Iterable[Row]) -> None:
        """Store rows as they are: nothing is merged, nothing is recognised as known."""
        for row in rows:
            self._numbers += 1
            row.number = self._numbers
            self._traces.setdefault(row.trace_id, []).append(row)
        self._newest = None

    def remove(self, trace_ids: Iterable[str]) -> None:
        """Drop every row of some traces."""
        for trace_id in trace_ids:
            self._traces.pop(trace_id, None)
        self._newest = None

    def merge(self) -> None:
        """Of the rows with one key, keep the one that came last."""
        self._traces = {trace_id: _merged(rows) for trace_id, rows in self._traces.items()}
        self._newest = None

    def trace(self, trace_id: str) -> list[Row]:
        """The physical rows of a trace, newest start first."""
        return sorted(self._traces.get(trace_id, ()), key=position, reverse=True)

    def newest(self) -> Sequence[Row]:
        """All physical rows, newest start first."""
        if self._newest is None:
            self._newest = sorted(self.rows(), key=position, reverse=True)
        return self._newest

    def rows(self) -> list[Row]:
        """All physical rows, by trace."""
        return [row for rows in self._traces.values() for row in rows]

    def merged(self) -> list[Row]:
        """What a merge would leave, without doing it."""
        return [row for rows in self._traces.values() for row in _merged(rows)]


class Later:
    """Work that becomes visible at its time."""

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0

    def add(self, due: float, work: Callable[[], None]) -> None:
        """Do ``work`` once the clock has reached ``due``; same time, same order."""
        self._numbers += 1
        heapq.heappush(self._queue, (due, self._numbers, work))

    def advance(self, now: float) -> None:
        """Do what is due."""
        while self._queue and self._queue[0][0] <= now:
            heapq.heappop(self._queue)[2]()

    def __len__(self) -> int:
        return len(self._queue)


def position(row: Row) -> tuple[int, str, str, int]:
    """What the list is ordered by."""
    return (row.start, row.trace_id, row.span_id, row.number)


def _merged(rows: Iterable[Row]) -> list[Row]:
    return list({row.key: row for row in rows}.values())
