"""What the benchmarks share: contenders in processes of their own, CPU time, ratios of one round, Markdown."""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Place:
    """Where a contender works."""

    url: str
    """Base URL of the provider."""
    folder: Path
    """Empty folder of its own."""


Rounds = Iterator[Callable[[], None]]
"""One callable per round. It alone is measured: set-up stands before the ``yield``, clearing up after it."""


@dataclass(frozen=True)
class Contender:
    """One row of a table."""

    name: str
    rounds: Callable[[Place], Rounds]
    calls: int
    """Calls that one round makes."""


@dataclass
class Figures:
    """What the rounds of a contender gave."""

    cpu: list[float] = field(default_factory=list)
    """CPU seconds per call, one entry per round."""
    wall: list[float] = field(default_factory=list)
    """Wall seconds per call."""

    def ratio(self, base: Figures) -> list[float]:
        """CPU of each round over that of the base in the same round."""
        return [mine / its for mine, its in zip(self.cpu, base.cpu, strict=True)]


def _serve(contender: Contender, place: Place, pipe: Connection) -> None:
    os.chdir(place.folder)
    for work in contender.rounds(place):
        if pipe.recv() != "go":
            return
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        pipe.send((time.process_time() - cpu, time.perf_counter() - wall))


def race(contenders: Sequence[Contender], *, url: str, rounds: int) -> dict[str, Figures]:
    """Run every contender once per round, one at a time, each in its own process; the first round is dropped.

    CPU time is that of the whole process, so a store's writer thread counts.
    """
    context = multiprocessing.get_context("spawn")
    figures = {contender.name: Figures() for contender in contenders}
    with tempfile.TemporaryDirectory() as root:
        lines: list[tuple[Contender, Connection]] = []
        for number, contender in enumerate(contenders):
            folder = Path(root, str(number))
            folder.mkdir()
            mine, its = context.Pipe()
            child = context.Process(target=_serve, args=(contender, Place(url, folder), its), daemon=True)
            child.start()
            its.close()
            lines.append((contender, mine))
        for number in range(rounds + 1):
            # The order turns, so that nobody always runs behind the same neighbour.
            for contender, pipe in lines[number % len(lines) :] + lines[: number % len(lines)]:
                pipe.send("go")
                cpu, wall = pipe.recv()
                if number:
                    figures[contender.name].cpu.append(cpu / contender.calls)
                    figures[contender.name].wall.append(wall / contender.calls)
        for _, pipe in lines:
            pipe.send("stop")
    return figures


@contextmanager
def provider() -> Iterator[str]:
    """Base URL of a scripted provider in a process of its own, so that its CPU is not counted."""
    command = [sys.executable, str(HERE / "provider.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.stdin.close()


@dataclass(frozen=True)
class Spent:
    """What one whole process cost."""

    wall: float
    cpu: float
    peak: float
    """Largest resident set, in MiB."""


def run_process(command: Sequence[str], *, environment: Mapping[str, str]) -> Spent:
    """Run a command to its end and measure it.

    Raises:
        RuntimeError: It failed; with the end of what it wrote.
    """
    with tempfile.TemporaryFile("w+") as out:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **environment})
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            out.seek(0)
            raise RuntimeError(f"{command} ended with {child.returncode}: {out.read()[-2000:]}")
    return Spent(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def median_of(values: Sequence[float], *, scale: float = 1.0, digits: int = 0) -> str:
    """The median as text."""
    return f"{statistics.median(values) * scale:,.{digits}f}"


def spread_of(values: Sequence[float], *, digits: int = 2) -> str:
    """Median, least and largest as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are aligned to the right."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def heading(packages: Sequence[str], *, also: Mapping[str, str] | None = None) -> str:
    """Date, machine in words, and versions."""
    versions = {name: metadata.version(name) for name in packages} | dict(also or {})
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    machine = f"{os.cpu_count()} virtual cores {platform.machine()}, {platform.system()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d} · {machine}, {python} · {named}\n"


def options(description: str) -> argparse.ArgumentParser:
    """A parser with the option that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs, not to quote")
    return parser


def module(path: Path) -> ModuleType:
    """A file of the tests as a module: the benchmarks use their helpers."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[found.__name__] = found
    spec.loader.exec_module(found)
    return found


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
