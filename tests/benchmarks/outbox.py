"""The outbox with a million rows: how long its questions take, and how much memory they need.

    python tests/benchmarks/outbox.py [--rows 1000000]

Prints the table of docs/benchmarks.md. The rows are made in the database itself, not through the writer.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.store import Store, open_store

FILL = """
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
INSERT INTO outbox (kind, id, state, attempts, created_at, due_at, round)
SELECT 'run', printf('%08x-0000-7000-8000-000000000000', i), CASE WHEN i % 10 THEN 'verified' ELSE 'pending' END, 0,
       strftime('%Y-%m-%dT%H:%M:%S', 1790000000 + i, 'unixepoch') || '.000000Z',
       strftime('%Y-%m-%dT%H:%M:%S', 1790000000 + i, 'unixepoch') || '.000000Z', 0
FROM n
"""


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outbox.db"
        open_store(f"sqlite:///{path}").close()
        database = sqlite3.connect(path)
        database.execute(FILL, (rows,))
        database.commit()
        database.close()
        with open_store(f"sqlite:///{path}") as store:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(f"| {rows:,} outbox rows, SQLite | ms, median of 5 | worst |\n| --- | --: | --: |")
            for name, ask in questions(store).items():
                times = [timed(ask) for _ in range(5)]
                print(f"| {name} | {statistics.median(times):.1f} | {max(times):.1f} |")
            print(f"| backfill of it all, once | {timed(lambda: outbox_again(store)):.0f} | |")
            for name, ask in questions(store).items():
                times = [timed(ask) for _ in range(5)]
                print(f"| {name}, all due at once | {statistics.median(times):.1f} | {max(times):.1f} |")
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"\nPeak memory grew by {grown:.0f} MiB.")


def questions(store: Store) -> dict[str, Callable[[], object]]:
    """What the worker and `goldfork mirror status` ask."""
    outbox, later = store.outbox, datetime.now(UTC) + timedelta(days=3650)

    def update() -> None:
        entries = outbox.due(("run",), ("pending",), now=later, limit=200)
        outbox.update([replace(entry, state="accepted") for entry in entries])

    return {
        "status: counts": outbox.counts,
        "status: oldest unverified": outbox.oldest_unverified,
        "due, 200 entries": lambda: outbox.due(("run",), ("pending",), now=later, limit=200),
        "due and update, 200 entries": update,
    }


def outbox_again(store: Store) -> None:
    """What `goldfork mirror backfill --again` does."""
    store.outbox.backfill(again=True)


def timed(ask: Callable[[], object]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    ask()
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
