"""``goldfork experiment``: list, show and compare what was evaluated."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli._app import JsonOption, app, console, print_json, visible
from harness.cli._diff import print_diff, with_meaning
from harness.cli._eval import OutputOption, present
from harness.cli._listing import print_listing
from harness.experiment import Comparison, ExperimentLine, ScorePair, compare, experiments, load_experiment
from harness.replay import RunDiff
from harness.replay import compare as compare_runs
from harness.report import diff_json, renderer
from harness.session import process_store

experiment_app = typer.Typer(help="Look at experiments, and compare two of them.", no_args_is_help=True)
app.add_typer(experiment_app, name="experiment")

_SHOWN = 10
"""Trials of which a terminal shows what differs."""
ExperimentArgument = Annotated[str, typer.Argument(help="Id, a unique beginning of one, or latest.")]


@experiment_app.command("list")
def list_experiments(
    *,
    dataset: Annotated[str, typer.Option(help="Only those of this dataset.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 20,
    json: JsonOption = False,
) -> None:
    """List experiments, newest first. Example: goldfork experiment list --dataset triage."""
    lines = [line for line in experiments(process_store()) if dataset in {"", line.dataset}][:limit]
    if json:
        for line in lines:
            print_json(_line_json(line))
        return
    if not lines:
        console().print("No experiments yet: run `goldfork eval PATH`.")
        return
    cells = [
        (
            line.id,
            line.status,
            (line.verdict or "").replace("_", " "),
            "" if line.exit_code is None else str(line.exit_code),
            f"{line.dataset} v{line.version}",
            line.mode,
            _change(line),
            f"{line.started_at:%Y-%m-%d %H:%M:%S}",
        )
        for line in lines
    ]
    titles = ("experiment", "status", "verdict", "exit", "dataset", "mode", "change", "started")
    print_listing(titles, cells, first=4)
    if any(line.status != "ok" for line in lines):
        console().print("Finish one that is not ok with `goldfork eval PATH --resume EXPERIMENT`.", style="dim")


@experiment_app.command("show")
def show(experiment: ExperimentArgument, *, output: OutputOption = None, json: JsonOption = False) -> None:
    """Show an experiment's report again. Example: goldfork experiment show latest -o report.html."""
    for file in output or ():
        renderer(file)
    present(load_experiment(process_store(), experiment), output or (), json=json)


@experiment_app.command("compare")
def compare_two(first: ExperimentArgument, second: ExperimentArgument, *, json: JsonOption = False) -> None:
    """Compare two experiments on one dataset, score by score and output by output; nothing is tested."""
    store = process_store()
    found = compare(load_experiment(store, first), load_experiment(store, second))
    if json:
        print_json(_comparison_json(found))
        return
    out = console()
    table = Table(box=None, header_style="bold")
    for title in ("score", "first", "second", "difference"):
        table.add_column(title, justify="left" if title == "score" else "right")
    for pair in found.scores:
        difference = pair.difference
        table.add_row(
            escape(pair.name),
            _value(pair, "first"),
            _value(pair, "second"),
            "-" if difference is None else f"{difference:+.4f}",
        )
    out.print(table)
    out.print(f"outputs: {found.paired - len(found.differing)} of {found.paired} trials equal")
    for number, (case, trial) in enumerate(found.differing):
        out.print(visible(f"  differs: {case}, trial {trial}"), markup=False)
        if number < _SHOWN:
            print_diff(_diff(found, case, trial), steps=False)
    if len(found.differing) > _SHOWN:
        out.print(f"What differs is shown of the first {_SHOWN}; --json has it of all.", style="dim")
    if found.unpaired:
        out.print(f"{len(found.unpaired)} trials are in one of them only")


def _diff(found: Comparison, case: str, trial: int) -> RunDiff:
    ours, theirs = found.runs(case, trial)
    return with_meaning(compare_runs(ours, theirs), ours, theirs)


def _value(pair: ScorePair, side: str) -> str:
    score = pair.first if side == "first" else pair.second
    if score is None:
        return "-"
    return score.status if score.number is None else f"{score.number:.4f}"


def _change(line: ExperimentLine) -> str:
    if line.change is None:
        return ""
    name = f":{line.change.name}" if line.change.name else ""
    return f"{line.change.kind}{name} at {line.change.at}"


def _line_json(line: ExperimentLine) -> dict[str, Any]:
    return {
        "experiment": line.id,
        "dataset": line.dataset,
        "version": line.version,
        "target": line.target,
        "mode": line.mode,
        "change": line.change.as_dict() if line.change else None,
        "status": line.status,
        "verdict": line.verdict,
        "exit_code": line.exit_code,
        "started_at": line.started_at.isoformat(),
        "ended_at": line.ended_at.isoformat() if line.ended_at else None,
    }


def _comparison_json(found: Comparison) -> dict[str, Any]:
    return {
        "first": found.first.id,
        "second": found.second.id,
        "dataset": found.first.dataset,
        "scores": {
            pair.name: {
                "first": pair.first.value if pair.first else None,
                "second": pair.second.value if pair.second else None,
                "difference": pair.difference,
            }
            for pair in found.scores
        },
        "paired": found.paired,
        "differing": [
            {"case": case, "trial": trial, **diff_json(_diff(found, case, trial))} for case, trial in found.differing
        ],
        "unpaired": [{"case": case, "trial": trial} for case, trial in found.unpaired],
    }
