"""Garbage collection: results of tools past their time go, and content that nothing refers to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.record import layout_parts
from harness.store._codec import CHAIN, decode
from harness.store._content import SPARED_SECONDS
from harness.store._database import Database
from harness.store._driver import Driver
from harness.store._group import Job
from harness.store._outbox_sources import moment
from harness.store._values import GcReport
from harness.store._writer import Writer

Progress = Callable[[str, int, int], None]

_AT_ONCE = 500
_ROOTS = (
    ("messages", "request_hash"),
    ("exchanges", "body_hash"),
    ("runs", "input_hash"),
    ("runs", "input_order"),
    ("runs", "output_hash"),
    ("steps", "input_hash"),
    ("steps", "output_order"),
    ("steps", "output_hash"),
    ("step_edges", "content_hash"),
    ("tool_cache", "output_hash"),
    ("labels", "output_hash"),
    ("trials", "output_hash"),
)
"""Columns that keep content alive."""


def collect(database: Database, writer: Writer, progress: Progress) -> GcReport:
    """Remove what nothing refers to; see ``Store.gc``.

    Candidates are found without a lock. A writer that relies on old content touches it in the same transaction,
    so a deletion that asks for the untouched removes nothing that has come into use since.
    """
    cutoff = int(time.time()) - SPARED_SECONDS
    # First, so that the content of what has expired goes with it.
    expired = _drop_expired(database, writer)
    progress("references", 0, 1)
    found = _Reachable(database, cutoff)
    links, blobs = found.lost_links(), found.lost_blobs()
    progress("references", 1, 1)
    total = len(links) + len(blobs)
    removed: dict[str, int] = {"chains": 0, "blobs": 0}
    freed = done = 0
    for table, numbers in (("chains", links), ("blobs", blobs)):
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            count, size = _delete(writer, table, some, cutoff)
            removed[table] += count
            freed += size
            done += len(some)
            progress("removal", done, total)
    return GcReport(
        blobs=removed["blobs"],
        chains=removed["chains"],
        bytes=freed,
        kept_recent=found.recent,
        expired_tool_results=expired,
    )


def _drop_expired(database: Database, writer: Writer) -> int:
    """Drop shared results of tools that are past their ttl; how many there were. The deterministic hold for ever."""
    now, mark = datetime.now(UTC), database.mark
    timed = "SELECT key, stored_at, ttl FROM tool_cache WHERE ttl IS NOT NULL AND determinism <> 'deterministic'"
    past = [
        (key, stored)
        for key, stored, ttl in database.rows(timed)
        if (now - (moment(stored) or now)).total_seconds() >= ttl
    ]
    # One that was stored anew meanwhile stays, and so does a lease that somebody holds.
    result = f"DELETE FROM tool_cache WHERE key = {mark} AND stored_at = {mark}"  # noqa: S608 - marks only
    lease = f"DELETE FROM leases WHERE name = {mark} AND owner IS NULL AND extra IS NULL"  # noqa: S608 - marks only
    dropped = 0
    for start in range(0, len(past), _AT_ONCE):
        some = past[start : start + _AT_ONCE]

        def action(driver: Driver, some: Sequence[tuple[Any, Any]] = some) -> int:
            driver.many(lease, [(f"tool:{key}",) for key, _ in some])
            return driver.many(result, some)

        job = Job(action=action)
        writer.submit(job)
        dropped += job.future.result()
    return dropped


def _delete(writer: Writer, table: str, numbers: Sequence[int], cutoff: int) -> tuple[int, int]:
    """How many rows went, and how many bytes of content with them."""

    def action(driver: Driver) -> tuple[int, int]:
        marks = ", ".join([driver.mark] * len(numbers))
        size = 0
        if table == "blobs":
            measured = f"SELECT coalesce(sum(length(data)), 0) FROM blobs WHERE id IN ({marks})"  # noqa: S608 - marks only
            size = int(driver.query(measured, numbers)[0][0])
        rows = [(number, cutoff) for number in numbers]
        statement = f"DELETE FROM {table} WHERE id = {driver.mark} AND touched < {driver.mark}"  # noqa: S608 - names are constants
        return driver.many(statement, rows), size

    job = Job(action=action)
    writer.submit(job)
    count, size = job.future.result()
    return count, size


class _Reachable:
    """What rows, and content touched lately, refer to."""

    def __init__(self, database: Database, cutoff: int) -> None:
        self._database = database
        self._links: dict[int, tuple[int, int, int]] = {
            number: (prev, blob, touched)
            for number, prev, blob, touched in database.rows("SELECT id, prev, blob, touched FROM chains")
        }
        self._by_hash: dict[bytes, int] = {}
        self._joined: dict[int, tuple[int, int | None]] = {}
        self._bases: dict[int, int] = {}
        self._kept_blobs: set[int] = set()
        self._kept_links: set[int] = set()
        self._read_layouts: set[int] = set()
        self.recent = 0
        recent = []
        for number, digest, codec, base, chain, touched in database.rows(
            "SELECT id, hash, codec, base, chain, touched FROM blobs"
        ):
            self._by_hash[bytes(digest)] = number
            if codec == CHAIN:
                self._joined[number] = (base, chain)
            elif base is not None:
                self._bases[number] = base
            if touched >= cutoff:
                recent.append(number)
        self._keep(self._roots())
        before = len(self._kept_blobs) + len(self._kept_links)
        self._keep(recent)
        for number, (_, _, touched) in self._links.items():
            if touched >= cutoff:
                self._keep_chain(number)
        self.recent = len(self._kept_blobs) + len(self._kept_links) - before

    def lost_links(self) -> list[int]:
        """Chain links that nothing needs."""
        return sorted(set(self._links) - self._kept_links)

    def lost_blobs(self) -> list[int]:
        """Blobs that nothing needs."""
        return sorted(set(self._by_hash.values()) - self._kept_blobs)

    def _roots(self) -> Iterable[int]:
        for table, column in _ROOTS:
            query = f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608 - names are constants
            for (digest,) in self._database.rows(query):
                number = self._by_hash.get(bytes(digest))
                if number is not None:
                    yield number

    def _keep(self, numbers: Iterable[int]) -> None:
        """Keep blobs and all that they are made of."""
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number in self._kept_blobs:
                continue
            self._kept_blobs.add(number)
            if number in self._bases:
                waiting.append(self._bases[number])
            if number in self._joined:
                layout, chain = self._joined[number]
                waiting.append(layout)
                waiting.extend(self._parts(layout))
                waiting.extend(self._pieces(chain))

    def _keep_chain(self, link: int) -> None:
        self._keep(self._pieces(link))

    def _parts(self, layout: int) -> Iterable[int]:
        """The blobs that a layout refers to."""
        if layout in self._read_layouts:
            return
        self._read_layouts.add(layout)
        rows = self._database.rows(
            "SELECT b.codec, b.data, b.size, base.codec, base.data, base.size "
            "FROM blobs b LEFT JOIN blobs base ON base.id = b.base WHERE b.id = ?",
            (layout,),
        )
        for codec, data, size, *base in rows:
            content = decode(codec, data, size, None if base[0] is None else decode(*base))
            for part in layout_parts(content):
                number = self._by_hash.get(bytes.fromhex(part))
                if number is not None:
                    yield number

    def _pieces(self, link: int | None) -> Iterable[int]:
        """The blobs of a chain, whose links are kept."""
        while link and link not in self._kept_links and link in self._links:
            self._kept_links.add(link)
            prev, blob, _ = self._links[link]
            yield blob
            link = prev
