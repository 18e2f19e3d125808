"""Long runs forked at their last step: how fast a plan is made, how fast steps are skipped, how memory grows.

    .venv/bin/python tests/benchmarks/skipping.py

A run of n steps, each with 1 KB of input and output, on a SQLite store; every skipped step is a row of the fork,
written and committed. *Skipped a second* counts the fork alone: the null replay before it, which skips the same steps,
is in *whole*.
"""

from __future__ import annotations

import resource
import tempfile
import time
import tracemalloc
from pathlib import Path

from measuring import heading

import harness
from harness.replay import ReplayOptions, fork_run, live_run, null_replay, plan_fork
from harness.session import Change
from harness.store import open_store

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
SIZES = (125, 250, 500, 1000)


@harness.step
def work(n: int, text: str) -> str:
    """One of many."""
    return f"{n} {text}"[:1024]


@harness.step
def last(text: str) -> str:
    """Where the fork begins."""
    return text.upper()


@harness.workflow("long")
def long(steps: int) -> str:
    """A chain."""
    text = "x" * 1024
    for n in range(steps):
        text = work(n, text)
    return last(text)


def measure(steps: int) -> str:
    """One line of the table."""
    change = Change(kind="output", at="last", value="changed")
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{Path(folder) / 'goldfork.db'}") as store:
        live = live_run(long, {"steps": steps}, sink=store, code_version=CODE)
        store.flush()
        parent = store.recording(live.run.run.id)
        assert parent is not None
        start = time.perf_counter()
        plan_fork(parent, change=change, options=ReplayOptions(code_version=CODE), target=long)
        planned = time.perf_counter() - start
        tracemalloc.start()
        start = time.perf_counter()
        outcome = fork_run(parent, target=long, change=change, options=OPTIONS, sink=store)
        store.flush()
        whole = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        null = null_replay(parent, change=change, target=long, options=OPTIONS)
        start = time.perf_counter()
        again = fork_run(
            parent, target=long, change=change, options=ReplayOptions(code_version=CODE, null=null), sink=store
        )
        store.flush()
        alone = time.perf_counter() - start
        assert again.counts.steps_reused == outcome.counts.steps_reused == steps
    return f"| {steps:,} | {planned * 1000:.0f} | {steps / alone:,.0f} | {whole:.2f} | {peak / 2**20:.1f} |"


def main() -> None:
    """Print the table."""
    print(heading(["sqlalchemy"]))
    print("| steps | plan, ms | skipped a second, rows written | whole fork, s, traced | peak of its memory, MiB |")
    print("| --: | --: | --: | --: | --: |")
    for steps in SIZES:
        print(measure(steps))
    print(f"\nPeak of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB.")


if __name__ == "__main__":
    main()
