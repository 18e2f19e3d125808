"""Going through the outbox a page at a time, each entry once, while the lane is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from harness.mirror._lane import Lane
    from harness.store import Outbox, OutboxEntry

AT_ONCE: Final = 200
"""Most entries in hand at once."""

FAR: Final = timedelta(days=36_500)
"""Later than anything is due."""


def accepted(outbox: Outbox, kind: str, *, lane: Lane, clock: Callable[[], datetime]) -> Iterator[list[OutboxEntry]]:
    """Everything accepted, due or not. What the caller leaves as it is is not seen twice."""
    known: set[str] = set()
    while lane.open and lane.hold():
        found = outbox.due((kind,), ("accepted",), now=clock() + FAR, limit=AT_ONCE + len(known))
        fresh = [entry for entry in found if entry.id not in known]
        if not fresh:
            return
        known.update(entry.id for entry in fresh)
        yield fresh


def verified(outbox: Outbox, kind: str, *, lane: Lane, before: datetime) -> Iterator[list[OutboxEntry]]:
    """Everything verified whose due time, of no other use by now, is before a moment; the caller moves it there."""
    while lane.open and lane.hold():
        some = outbox.due((kind,), ("verified",), now=before - timedelta(microseconds=1), limit=AT_ONCE)
        if not some:
            return
        yield some
