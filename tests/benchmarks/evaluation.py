"""An evaluation of 1,000 cases without a model call, beside pydantic-evals and Inspect AI.

    python tests/benchmarks/evaluation.py [--quick] [--peers PYTHON]

Every contender is a whole process. ``--peers`` names a Python that has pydantic-evals and inspect-ai; they need not
(and here did not) share an environment with Goldfork.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import HERE, Spent, heading, options, run_process, say, spread_of, table

OURS = str(HERE / "evaluation_harness.py")


@dataclass(frozen=True)
class Runner:
    """One row: how it is started for a number of cases."""

    name: str
    command: Sequence[str]
    """The number of cases is appended."""
    environment: Mapping[str, str]
    keeps: str
    """What is on disk afterwards."""


def runners(folder: Path, peers: str | None) -> list[Runner]:
    """The rows, ours first."""
    found = []
    for mode, durability in (("live", "full"), ("live", "normal"), ("replay", "full")):
        what = "target run afresh" if mode == "live" else "replay of recorded runs"
        found.append(
            Runner(
                f"harness `run_experiment`, {what}, durability {durability}",
                [sys.executable, OURS, "run", str(folder), mode],
                {"GOLDFORK_DURABILITY": durability},
                "runs, steps, snapshots, trials, scores",
            )
        )
    if peers:
        pydantic, inspect = str(HERE / "evaluation_pydantic.py"), str(HERE / "evaluation_inspect.py")
        found.append(Runner("pydantic-evals", [peers, pydantic], {}, "nothing"))
        found.append(Runner("Inspect AI, own solver", [peers, inspect], {}, "a log with every transcript"))
    return found


def versions(peers: str | None) -> dict[str, str]:
    """Versions of what the peers' Python has."""
    if not peers:
        return {}
    names = ("pydantic-evals", "inspect-ai")
    code = "from importlib.metadata import version; import sys; print(*map(version, sys.argv[1:]))"
    out = subprocess.run([peers, "-c", code, *names], check=True, capture_output=True, text=True).stdout
    return dict(zip(names, out.split(), strict=True))


def rounds(found: Sequence[Runner], cases: int, times: int) -> dict[str, list[tuple[Spent, Spent]]]:
    """(one case, all cases) of every runner, round by round, after a run with one case to warm the file cache."""
    results: dict[str, list[tuple[Spent, Spent]]] = {runner.name: [] for runner in found}
    for runner in found:
        _once(runner, 1)
    for _ in range(times):
        for runner in found:
            results[runner.name].append((_once(runner, 1), _once(runner, cases)))
    return results


def _once(runner: Runner, cases: int) -> Spent:
    """One process in a fresh home: the store is created, as it is on a machine of CI."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**runner.environment, "GOLDFORK_HOME": home, "INSPECT_LOG_DIR": home}
        environment["PYTHONPATH"] = str(HERE.parents[1])
        return run_process([*runner.command, str(cases)], environment=environment)


def row(runner: Runner, results: Mapping[str, Sequence[tuple[Spent, Spent]]], base: str, cases: int) -> list[str]:
    """One line of the table."""
    mine = results[runner.name]

    def per_case(pairs: Sequence[tuple[Spent, Spent]]) -> list[float]:
        return [(every.cpu - one.cpu) / (cases - 1) for one, every in pairs]

    net = per_case(mine)
    ratio = [a / b for a, b in zip(net, per_case(results[base]), strict=True)]
    return [
        runner.name,
        f"{statistics.median(every.wall for _, every in mine):.2f}",
        f"{statistics.median(every.cpu for _, every in mine):.2f}",
        f"{statistics.median(every.peak for _, every in mine):.0f}",
        f"{statistics.median(one.cpu for one, _ in mine):.2f}",
        f"{statistics.median(net) * 1000:.2f}",
        spread_of(ratio),
        runner.keeps,
    ]


def main() -> None:
    """Measure and print."""
    parser = options(__doc__ or "")
    parser.add_argument("--peers", metavar="PYTHON", help="Python that has pydantic-evals and inspect-ai")
    given = parser.parse_args()
    cases, times = (50, 1) if given.quick else (1000, 3)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        run_process([sys.executable, OURS, "make", root, str(cases)], environment={"PYTHONPATH": str(HERE.parents[1])})
        found = runners(folder, given.peers)
        results = rounds(found, cases, times)
    say(heading(["pydantic", "sqlalchemy"], also=versions(given.peers)))
    columns = ["wall s", "CPU s", "peak MiB", "1 case, CPU s", "net CPU ms/case", "× ours (range)", "kept on disk"]
    base = found[0].name
    say(table([f"{cases:,} cases, {times} rounds", *columns], [row(one, results, base, cases) for one in found]))


if __name__ == "__main__":
    main()
