"""What goes wrong, on request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal[
    "down",
    "500",
    "hang",
    "cut-before",
    "cut-after",
    "302",
    "413",
    "429",
    "401",
    "207",
    "lose",
    "lose-score",
    "twice",
    "slow",
]
"""See ``LangfuseServer.fault``."""

TRANSPORT: frozenset[str] = frozenset({"down", "500", "hang", "cut-before", "cut-after", "302", "413", "429", "401"})
"""Kinds that decide about a whole request; the others decide about single spans or scores."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One planned fault. ``hits`` tells how often it struck."""

    kind: Kind
    times: int | None = None
    """Strikes left; ``None`` for no end."""
    share: float | None = None
    """Part of the candidates that it strikes, spread evenly and the same in every run."""
    every: int | None = None
    """Strikes every n-th candidate."""
    when: Callable[[Any], bool] | None = None
    """Chooses among the candidates."""
    seconds: float = 0.0
    limit: int = 0
    """Bytes of body (413)."""
    retry_after: float | str | None = None
    """Seconds, or an HTTP date (429)."""
    seen: int = 0
    """Candidates so far."""
    hits: int = 0
    """Strikes so far."""
    over: bool = False

    def clear(self) -> None:
        """Let it strike no more."""
        self.over = True

    def strikes(self, candidate: Any) -> bool:
        """Whether it strikes this request, row or score."""
        if self.over or (self.when is not None and not self.when(candidate)):
            return False
        self.seen += 1
        if self.every is not None and self.seen % self.every:
            return False
        # The golden ratio's multiples fill the unit interval evenly: a share without a random generator.
        if self.share is not None and (self.seen * 0.6180339887498949) % 1.0 >= self.share:
            return False
        self.hits += 1
        self.over = self.hits == self.times
        return True


class Faults:
    """The planned faults of a server."""

    def __init__(self) -> None:
        self._planned: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> Fault:
        """Plan a fault.

        Raises:
            ValueError: There is no such kind.
        """
        if fault.kind not in get_args(Kind):
            raise ValueError(f"there is no fault {fault.kind!r}; choose one of {', '.join(get_args(Kind))}")
        with self._lock:
            self._planned.append(fault)
        return fault

    def clear(self) -> None:
        """Forget every fault."""
        with self._lock:
            for fault in self._planned:
                fault.clear()
            self._planned = []

    def on_request(self, request: Any, size: int) -> Fault | None:
        """The first fault that strikes a request of so many bytes."""
        with self._lock:
            for fault in self._planned:
                fits = fault.kind in TRANSPORT and not (fault.kind == "413" and size <= fault.limit)
                if fits and fault.strikes(request):
                    return fault
        return None

    def on_part(self, kind: Kind, part: Any) -> Fault | None:
        """The first fault of a kind that strikes a row or a score."""
        with self._lock:
            return next((fault for fault in self._planned if fault.kind == kind and fault.strikes(part)), None)

    def planned(self, *kinds: Kind) -> bool:
        """Whether any of these kinds may strike."""
        return any(fault.kind in kinds and not fault.over for fault in self._planned)
