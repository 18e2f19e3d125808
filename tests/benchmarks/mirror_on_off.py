"""Does a running mirror slow the pipeline down? Time of a pipeline's calls with its worker running and without.

    python tests/benchmarks/mirror_on_off.py [--quick]

Blocks in the order off, on, on, off; each is a run of calls to a loopback provider in another process, recorded in
SQLite as in production (``durability = full``). While the mirror is on, ``goldfork mirror run`` works on the same
database and sends to a loopback Langfuse in yet another process. The figure is the median of on over off.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
from calls import ask
from measuring import heading, options, provider, say, spread_of, table
from mirror_store import double

import harness
from harness.mirror import Project
from harness.session import process_store

RUNS, CALLS = 40, 10
BLOCKS = 10


@contextmanager
def _worker(project: Project) -> Iterator[None]:
    environment = {
        **os.environ,
        "LANGFUSE_PUBLIC_KEY": project.public_key,
        "LANGFUSE_SECRET_KEY": project.secret_key,
        "LANGFUSE_BASE_URL": project.base_url,
    }
    command = [str(Path(sys.executable).with_name("goldfork")), "mirror", "run"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        # Its first line says that it is up; starting Python is not what is measured.
        child.stderr.readline()
        time.sleep(0.5)
        try:
            yield
        finally:
            child.send_signal(signal.SIGTERM)
            child.stderr.read()


def _block(bench: Any, name: str, runs: int) -> float:
    """Seconds per call."""
    began = time.perf_counter()
    for run in range(runs):
        bench([f"{name}.{run}.{number}" for number in range(CALLS)])
    return (time.perf_counter() - began) / (runs * CALLS)


def _measure(blocks: int, runs: int) -> tuple[list[float], list[float], list[float], dict[str, int]]:
    off, on, ratios = [], [], []
    with tempfile.TemporaryDirectory() as folder, provider() as url, double() as project:
        os.environ["GOLDFORK_HOME"] = folder
        client = harness.wrap(openai.OpenAI(base_url=url, api_key="sk-test-0123456789", max_retries=0))

        @harness.workflow("bench")
        def bench(numbers: list[str]) -> None:
            ask(client, numbers)

        _block(bench, "warm", runs)
        for number in range(blocks):
            first = _block(bench, f"{number}a", runs)
            with _worker(project):
                middle = [_block(bench, f"{number}{letter}", runs) for letter in "bc"]
            last = _block(bench, f"{number}d", runs)
            off.append((first + last) / 2)
            on.append(sum(middle) / 2)
            ratios.append(on[-1] / off[-1])
        counts = process_store().outbox.counts()
    return off, on, ratios, counts


def main() -> None:
    """Measure and print."""
    quick = options(__doc__ or "").parse_args().quick
    say(heading(["openai", "httpx"]))
    off, on, ratios, counts = _measure(2 if quick else BLOCKS, 5 if quick else RUNS)
    rows = [
        ["mirror off, ms a call", spread_of([value * 1000 for value in off])],
        ["mirror on, ms a call", spread_of([value * 1000 for value in on])],
        ["on / off", spread_of(ratios, digits=3)],
    ]
    say(table(["", "median (least–largest)"], rows))
    say(f"\nmedian ratio {statistics.median(ratios):.3f}; the outbox at the end: {counts}")


if __name__ == "__main__":
    main()
