"""Everything the double remembers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from harness.testing.langfuse_server._datasets import Datasets
from harness.testing.langfuse_server._faults import Faults
from harness.testing.langfuse_server._media import Media
from harness.testing.langfuse_server._prompts import Prompts
from harness.testing.langfuse_server._rows import Row
from harness.testing.langfuse_server._scores import LISTS_SINCE, Scores
from harness.testing.langfuse_server._table import Later, Table
from harness.testing.langfuse_server._wire import Request

LEGACY_LAG = 600.0
"""Seconds after which rows show that were sent without the ingestion version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request and what it is about."""

    state: State
    request: Request


class State:
    """The stored things and the work that is still to be applied; guarded by ``lock``.

    Args:
        version: Server version, which decides about the shape of scores and about what exists at all.
        lag: Seconds between an answer and its effect.
        clock: Unix seconds.
        base_url: Where the server listens, for the addresses it hands out.
    """

    def __init__(self, *, version: str, lag: float, clock: Callable[[], float], base_url: str) -> None:
        self.version = version
        self.lag = lag
        self.clock = clock
        self.base_url = base_url
        self.numbers: tuple[int, ...] = tuple(int(part) for part in version.split(".")[:2])
        self.lock = threading.RLock()
        self.faults = Faults()
        self.clear()

    def clear(self) -> None:
        """Forget everything that was stored, planned faults kept."""
        self.table = Table()
        self.scores = Scores(dated=self.takes_lists)
        self.later = Later()
        self.prompts = Prompts()
        self.media = Media()
        self.datasets = Datasets()
        self.comments: list[dict[str, Any]] = []

    @property
    def takes_lists(self) -> bool:
        """Whether scores are created by a list."""
        return self.numbers >= LISTS_SINCE

    @property
    def has_observations(self) -> bool:
        """Whether the lists of the fourth version exist."""
        return self.numbers >= (4, 0)

    @property
    def now(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)

    def apply(self, work: Callable[[], None], *, after: float = 0.0) -> None:
        """Do it once the lag has passed; at once if there is none."""
        wait = self.lag + after
        if wait <= 0:
            work()
        else:
            self.later.add(self.clock() + wait, work)

    def catch_up(self) -> None:
        """Apply what is due."""
        self.later.advance(self.clock())

    def accept(self, rows: Sequence[Row], *, direct: bool) -> None:
        """Take rows in: some may be lost, doubled or slow by a planned fault."""
        groups: dict[float, list[Row]] = {}
        wait = 0.0 if direct else LEGACY_LAG
        if not self.faults.planned("lose", "twice", "slow"):
            groups[wait] = list(rows)
        else:
            for row in rows:
                if self.faults.on_part("lose", row):
                    continue
                slow = self.faults.on_part("slow", row)
                group = groups.setdefault(wait + (slow.seconds if slow else 0.0), [])
                group.append(row)
                if self.faults.on_part("twice", row):
                    group.append(row.copy())
        for after, group in groups.items():
            self.apply(lambda group=group: self.table.add(group), after=after)  # type: ignore[misc]  # bound by default

    def job(self, name: str, data: Any) -> dict[str, Any]:
        """What the server answers to work it has only queued."""
        return {"name": name, "data": data, "opts": {"attempts": 6}, "id": str(uuid4()), "timestamp": self.now}
