"""How many small faults the tests notice: a fixed draw of mutants, each run against the tests of its part.

    TMPDIR=/dev/shm python tests/benchmarks/mutants.py --report docs/mutants.md

A mutant is the source with one expression or statement changed. Sources and tests are copied to a temporary folder,
and the mutants are made there. Every mutant runs in a process forked from this one, which has loaded the libraries
but never the package, so that the copy is what is imported; each run ends by proving it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("alembic", "hypothesis", "openai", "orjson", "pydantic", "pytest", "rfc8785", "sqlmodel", "typer")
FOREIGN, NOTHING_RUN = 99, 5
_LONG = 120
KEYS = tuple(
    f"tests/unit/canonical/test_{name}.py"
    for name in (
        "request_vectors",
        "request_rules",
        "key_collisions",
        "rule_version",
        "tool_keys",
        "canonical_json",
        "key_command",
    )
)
"""The properties come after the examples, which are quicker to fail."""
STORE = (
    *(f"tests/contract/store/test_store_{name}.py" for name in ("records", "tables", "runs", "maintenance")),
    *(f"tests/contract/store/test_store_{name}.py" for name in ("opening", "cases")),
    *(f"tests/unit/store/test_{name}.py" for name in ("keys_on_disk", "parts", "values_on_disk")),
)
SLOW = "two_processes or alembic or kill or many_writers or library or comes_back or read_only_folder"
"""Tests of the store that start processes or servers; no mutant is tried on them, which can only lower the score."""


@dataclass(frozen=True)
class Stratum:
    """A part of the sources and the tests that answer for it."""

    name: str
    sources: tuple[str, ...]
    """Globs from the root."""
    rounds: tuple[tuple[str, ...], ...]
    """Arguments for pytest; a later round is for what the earlier ones let live."""


STRATA = (
    Stratum("canonical", ("harness/canonical/*.py",), (KEYS,)),
    Stratum(
        "replay",
        tuple(f"harness/replay/_{name}.py" for name in ("counts", "diff", "target", "values")),
        (("tests/unit/replay", "tests/unit/pipeline"),),
    ),
    Stratum(
        "fork",
        (
            *("harness/replay/_resolver.py", "harness/replay/_replay.py", "harness/pipeline/_begin.py"),
            *("harness/pipeline/_reuse.py", "harness/session/_answers.py", "harness/session/_change.py"),
        ),
        (("tests/unit/replay", "tests/unit/pipeline"),),
    ),
    Stratum(
        "store",
        ("harness/store/*.py",),
        ((*STORE, "-k", f"not postgres and not ({SLOW})"), (*STORE[:3], "-k", "postgres")),
    ),
)


@dataclass
class Trial:
    """A mutant and what became of it."""

    stratum: Stratum
    mutation: Mutation
    round: int = 0
    verdict: str = ""
    """``killed``, ``timeout`` (a kill too) or ``survived``."""


@dataclass
class Job:
    """A running test process."""

    trial: Trial
    folder: Path
    pid: int
    ends_at: float


@dataclass
class Bench:
    """Copies of the repository, one per process and one unchanged, and how long the tests take when all is well."""

    clean: Path
    folders: list[Path]
    seconds: dict[tuple[str, int], float] = field(default_factory=dict)

    def limit(self, trial: Trial) -> float:
        """Seconds after which a mutant counts as hanging."""
        return 30 + 5 * self.seconds[trial.stratum.name, trial.round]


def main() -> int:
    """Draw, run, report."""
    options = _options()
    for library in LIBRARIES:
        __import__(library)
    if "harness" in sys.modules:
        raise SystemExit("a library has loaded the package: the copies could not be imported")
    chosen = [stratum for stratum in STRATA if stratum.name in options.strata]
    with tempfile.TemporaryDirectory(prefix="goldfork-mutants-") as name:
        bench = _copies(Path(name).resolve(), options.processes)
        trials = [trial for stratum in chosen for trial in draw(stratum, bench.clean, options.mutants, options.seed)]
        for stratum in chosen:
            _time(bench, stratum)
        began = time.monotonic()
        _run_all(bench, trials)
    text = report(trials, options, time.monotonic() - began)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [stratum.name for stratum in STRATA]
    parser.add_argument("--strata", nargs="+", choices=names, default=names)
    parser.add_argument("--mutants", type=int, default=50, help="per stratum")
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--report", type=Path, help="where to write the Markdown")
    return parser.parse_args()


def draw(stratum: Stratum, root: Path, count: int, seed: int) -> list[Trial]:
    """The mutants of a stratum, drawn evenly from all that its sources have."""
    files = sorted(file for pattern in stratum.sources for file in root.glob(pattern))
    every = [found for file in files for found in mutations(file.relative_to(root), file.read_text("utf-8"))]
    drawn = random.Random(f"{seed}:{stratum.name}").sample(every, min(count, len(every)))
    return [Trial(stratum, mutation) for mutation in sorted(drawn, key=lambda one: (one.file, one.start))]


def _copies(folder: Path, count: int) -> Bench:
    # Everything starts from one copy, so that somebody may go on editing.
    clean = folder / "clean"
    skipped = shutil.ignore_patterns("__pycache__", "*.db")
    for name in ("harness", "evaluators", "tests", "docs"):
        shutil.copytree(ROOT / name, clean / name, ignore=skipped)
    shutil.copy2(ROOT / "pyproject.toml", clean)
    folders = [folder / f"copy{number}" for number in range(count)]
    for other in folders:
        shutil.copytree(clean, other)
    return Bench(clean, folders)


def _time(bench: Bench, stratum: Stratum) -> None:
    """Run the tests on the unchanged copies: they have to pass, and leave their compiled form behind."""
    for number in range(len(stratum.rounds)):
        for folder in bench.folders:
            began = time.monotonic()
            pid = _fork(folder, stratum.rounds[number], keep_compiled=True)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code:
                log = (folder / "output.txt").read_text("utf-8", "replace")
                raise SystemExit(f"the tests of {stratum.name!r} fail on the unchanged sources ({code}):\n{log}")
            bench.seconds[stratum.name, number] = time.monotonic() - began
        sys.stderr.write(f"{stratum.name}, round {number}: {bench.seconds[stratum.name, number]:.1f} s when clean\n")


def _run_all(bench: Bench, trials: Sequence[Trial]) -> None:
    waiting, free = list(reversed(trials)), list(bench.folders)
    running: list[Job] = []
    while waiting or running:
        while waiting and free:
            trial, folder = waiting.pop(), free.pop()
            running.append(_begin(bench, trial, folder))
        time.sleep(0.05)
        for job in list(running):
            code = _ended(job)
            if code is None:
                continue
            running.remove(job)
            free.append(job.folder)
            _restore(bench, job)
            _judge(job.trial, code)
            if not job.trial.verdict:
                waiting.append(job.trial)
            else:
                sys.stderr.write(f"{job.trial.verdict:9}{job.trial.stratum.name:10}{job.trial.mutation}\n")


def _begin(bench: Bench, trial: Trial, folder: Path) -> Job:
    mutation = trial.mutation
    (folder / mutation.file).write_bytes(mutation.apply((bench.clean / mutation.file).read_bytes()))
    pid = _fork(folder, trial.stratum.rounds[trial.round], keep_compiled=False)
    return Job(trial, folder, pid, time.monotonic() + bench.limit(trial))


def _restore(bench: Bench, job: Job) -> None:
    # With its old time the file is again the one that was compiled.
    shutil.copy2(bench.clean / job.trial.mutation.file, job.folder / job.trial.mutation.file)


def _ended(job: Job) -> int | None:
    """The exit code of a job, ``-1`` when it had to be stopped, ``None`` while it runs."""
    pid, status = os.waitpid(job.pid, os.WNOHANG)
    if pid:
        return os.waitstatus_to_exitcode(status)
    if time.monotonic() < job.ends_at:
        return None
    # First politely: the tests may have a server to stop.
    os.kill(job.pid, signal.SIGINT)
    for _ in range(100):
        if os.waitpid(job.pid, os.WNOHANG)[0]:
            break
        time.sleep(0.1)
    else:
        os.killpg(job.pid, signal.SIGKILL)
        os.waitpid(job.pid, 0)
    return -1


def _judge(trial: Trial, code: int) -> None:
    if code in {FOREIGN, NOTHING_RUN}:
        raise SystemExit(f"{trial.mutation}: the run did not test the copy (exit code {code})")
    if code:
        trial.verdict = "timeout" if code == -1 else "killed"
    elif trial.round + 1 < len(trial.stratum.rounds):
        trial.round += 1
    else:
        trial.verdict = "survived"


def _fork(folder: Path, arguments: Sequence[str], *, keep_compiled: bool) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = _test(folder, arguments, keep_compiled=keep_compiled)
    finally:
        os._exit(code)


def _test(folder: Path, arguments: Sequence[str], *, keep_compiled: bool) -> int:
    """In the forked process: run the tests in a copy, on the copy."""
    import pytest
    from hypothesis import HealthCheck, Phase, settings

    os.setsid()
    os.chdir(folder)
    log = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.dont_write_bytecode = not keep_compiled
    sys.path.insert(0, str(folder))
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    settings.register_profile(
        "mutants",
        settings(
            derandomize=True,
            database=None,
            deadline=None,
            max_examples=25,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
    settings.load_profile("mutants")
    code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--tb=short", *arguments]))
    module = sys.modules.get("harness")
    if code == 0 and not (module and Path(module.__file__ or "").is_relative_to(folder)):
        return FOREIGN
    return code


def report(trials: Sequence[Trial], options: argparse.Namespace, seconds: float) -> str:
    """The outcome as Markdown."""
    return "\n".join([*_head(trials, options, seconds), *_table(trials), *_survivors(trials)]) + "\n"


def _head(trials: Sequence[Trial], options: argparse.Namespace, seconds: float) -> Iterator[str]:
    yield "# Mutants"
    yield ""
    yield (
        "Each mutant is the source with one expression or statement changed: a comparison, `and`/`or`, arithmetic, "
        "a constant, `not`, a condition negated, a returned value replaced by `None`, a call, raise or assignment "
        "removed, `continue`/`break` exchanged, a slice bound dropped. Not mutated: annotations, docstrings, "
        "decorators, `__all__`, protocols, and the text of errors. A mutant is killed when a test fails or hangs."
    )
    yield ""
    command = f"python tests/benchmarks/mutants.py --seed {options.seed} --mutants {options.mutants}"
    yield f"- Date: {datetime.now(UTC):%Y-%m-%d}"
    yield f"- Command: `{command}` (seed {options.seed}, {options.mutants} mutants per part, drawn evenly)"
    yield f"- {len(trials)} mutants in {seconds / 60:.0f} minutes with {options.processes} processes"
    yield ""


def _table(trials: Sequence[Trial]) -> Iterator[str]:
    yield "| part | sampled | killed | of these by time-out | survived | score |"
    yield "|---|---:|---:|---:|---:|---:|"
    names = list(dict.fromkeys(trial.stratum.name for trial in trials))
    for name in [*names, "all"]:
        counts = Counter(trial.verdict for trial in trials if name in {"all", trial.stratum.name})
        total, lived = counts.total(), counts["survived"]
        score = f"{100 * (total - lived) / total:.0f} %"
        yield f"| {name} | {total} | {total - lived} | {counts['timeout']} | {lived} | {score} |"
    yield ""
    for stratum in dict.fromkeys(trial.stratum for trial in trials):
        yield f"- {stratum.name}: {', '.join(f'`{source}`' for source in stratum.sources)}"
    yield ""


def _survivors(trials: Sequence[Trial]) -> Iterator[str]:
    lived = [trial.mutation for trial in trials if trial.verdict == "survived"]
    if not lived:
        return
    yield "## Survivors"
    yield ""
    yield "| where | before | after |"
    yield "|---|---|---|"
    for mutation in lived:
        before, after = (_cell(text) for text in (mutation.before, mutation.after))
        yield f"| {mutation.file}:{mutation.line} | {before} | {after} |"


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    text = text if len(text) <= _LONG else f"{text[: _LONG // 2]} … {text[-_LONG // 2 :]}"
    return f"`` {text} ``"


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        raise SystemExit(main())
