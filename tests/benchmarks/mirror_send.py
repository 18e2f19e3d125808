"""Spans built and sent a second, by one sender on one core, to a loopback Langfuse in another process.

    python tests/benchmarks/mirror_send.py [--quick]

A run has a root, steps and one message in each step. *built and sent*: from the rows in SQLite to the server's answer,
rendering, redacting, freezing and the outbox's transactions included. *read back*: each run's spans listed and
compared, which comes a minute later in life.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from pathlib import Path

from measuring import heading, options, say, table
from mirror_store import double, fleet

from harness.mirror import Sender
from harness.store import open_store


def _pinned() -> str:
    gc.set_threshold(100_000)  # as `goldfork mirror run` does
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    return f"core {cores[-1]} of {len(cores)}"


def _measure(runs: int, steps: int) -> list[str]:
    helpers = fleet()
    with (
        double() as project,
        tempfile.TemporaryDirectory() as folder,
        open_store(f"sqlite:///{Path(folder, 'goldfork.db')}") as store,
    ):
        spans = len(helpers.fill(store, runs, steps=steps))
        sender = Sender(store, project)
        cpu, wall = time.process_time(), time.perf_counter()
        while store.outbox.counts()["pending"]:
            sender.run_once()
        sent = time.perf_counter() - wall, time.process_time() - cpu
        wall = time.perf_counter()
        done = sender.flush(600.0)
        back = time.perf_counter() - wall
        sender.close()
    assert done
    return [
        f"{runs:,} runs of {spans // runs} spans",
        f"{spans:,}",
        f"{spans / sent[0]:,.0f}",
        f"{spans / sent[1]:,.0f}",
        f"{runs / back:,.0f}",
    ]


def main() -> None:
    """Measure and print."""
    quick = options(__doc__ or "").parse_args().quick
    where = _pinned()
    say(heading(["httpx", "orjson"], also={"pinned to": where}))
    sizes = [(50, 2), (20, 20)] if quick else [(2000, 2), (500, 20)]
    rows = [_measure(runs, steps) for runs, steps in sizes]
    say(
        table(
            [
                "store",
                "spans",
                "built and sent, spans/s",
                "spans per CPU second",
                "read back, runs/s",
            ],
            rows,
        )
    )


if __name__ == "__main__":
    main()
