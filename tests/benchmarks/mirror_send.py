"""Spans built and sent a second, by one sender on one core, to a loopback Langfuse in another process.

    python tests/benchmarks/mirror_send.py [--quick]

A run has a root, steps and one message in each step. *built and sent*: from the rows in SQLite to the server's answer,
rendering, redacting, freezing and the outbox's transactions included. *read back*: each run's spans listed and
compared, which comes a minute later in life. Median of the rounds, and in brackets the least and the largest.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from pathlib import Path

from measuring import heading, options, say, spread_of, table
from mirror_store import double, fleet

from harness.mirror import Project, Sender
from harness.store import open_store

ROUNDS = 5


def _pin() -> str:
    """Keep the sender on one core; whoever was started before stays off it where there is another."""
    gc.set_threshold(100_000)  # as `goldfork mirror run` does
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return f"core {core} of {os.cpu_count()}"


def _measure(project: Project, runs: int, steps: int) -> tuple[float, float, float]:
    """Spans a second built and sent, the same by CPU time, and runs a second read back."""
    helpers = fleet()
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{Path(folder, 'goldfork.db')}") as store:
        sender = Sender(store, project)
        # Meeting the server once, with all that is loaded for it, is no part of a sender's life.
        sender.run_once()
        spans = len(helpers.fill(store, runs, steps=steps))
        cpu, wall = time.process_time(), time.perf_counter()
        while store.outbox.counts()["pending"]:
            sender.run_once()
        sent = time.perf_counter() - wall, time.process_time() - cpu
        wall = time.perf_counter()
        done = sender.flush(600.0)
        back = time.perf_counter() - wall
        sender.close()
    assert done
    return spans / sent[0], spans / sent[1], runs / back


def main() -> None:
    """Measure and print."""
    quick = options(__doc__ or "").parse_args().quick
    sizes = [(50, 2), (20, 20)] if quick else [(1000, 2), (200, 20)]
    figures: dict[tuple[int, int], list[tuple[float, float, float]]] = {size: [] for size in sizes}
    for _ in range(ROUNDS):
        for size in sizes:
            with double() as project:
                where = _pin()
                figures[size].append(_measure(project, *size))
                os.sched_setaffinity(0, range(os.cpu_count() or 1))
    say(heading(["httpx", "orjson"], also={"pinned to": where}))
    rows = [
        [
            f"{runs:,} runs of {1 + 2 * steps} spans",
            *(spread_of(values, digits=0) for values in zip(*found, strict=True)),
        ]
        for (runs, steps), found in figures.items()
    ]
    say(table(["store", "built and sent, spans/s", "spans per CPU second", "read back, runs/s"], rows))


if __name__ == "__main__":
    main()
