"""``goldfork demo``: the shipped golden dataset replayed, forked and scored; and how to record it again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from harness.cli._app import app, console
from harness.cli._eval import open_dataset, run
from harness.demo.record import record_fork, record_runs, record_scores, shorter_draft, unrecorded
from harness.experiment import EvalOptions, ExperimentResult
from harness.report import build, to_terminal, write
from harness.session import process_store

demo_app = typer.Typer(help="See the whole idea on shipped recordings: replay, fork, score. Offline, no key.")
app.add_typer(demo_app, name="demo")

_REPORT = Path("goldfork-report.html")
DatasetOption = Annotated[str, typer.Option(help="Folder of the demo's dataset.")]
_SHIPPED = "datasets/triage"


@demo_app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    *,
    dataset: DatasetOption = _SHIPPED,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where the report goes.")] = _REPORT,
) -> None:
    """Replay the shipped dataset, fork it at one step with another prompt, score both and write a report.

    Everything is answered from recordings that travel with the repository: no key, no network, no tokens. Run it
    in a clone, where datasets/triage is.

    Example: goldfork demo
    """
    if context.invoked_subcommand is not None:
        return
    data = open_dataset(dataset)
    out = console()
    out.rule("1 of 2: the pipeline as it is, replayed from its recordings")
    replayed = run(data, EvalOptions())
    to_terminal(build(replayed), out)
    change = shorter_draft()
    out.rule(f"2 of 2: the same runs, forked at {change.at!r} with a shorter prompt")
    forked = run(data, EvalOptions(change=change, report_only=True))
    summary = build(forked)
    to_terminal(summary, out)
    path = write(summary, output)
    out.print(f"The report of the fork, case by case: {path.absolute()}", markup=False, soft_wrap=True)
    raise typer.Exit(_exit_code(replayed, forked))


def _exit_code(replayed: ExperimentResult, forked: ExperimentResult) -> int:
    """Low scores of the fork are its finding, not a failure; a fork that could not be measured is one."""
    return replayed.exit_code or forked.exit_code


@demo_app.command("record")
def record(
    *,
    dataset: DatasetOption = _SHIPPED,
    model: Annotated[str, typer.Option(help="Model of the pipeline; the recorded one by default.")] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Drop the recordings and labels that are there; else only fill gaps.")
    ] = False,
) -> None:
    """Record the demo's dataset against the OpenAI-compatible endpoint of OPENAI_BASE_URL and OPENAI_API_KEY.

    Runs every case, then the fork, then the evaluators, and freezes a new version. What is recorded stays when the
    command is interrupted; run it again, without --fresh, to go on. With another model, TRIAGE_MODEL must name it
    in replays too, and dataset.toml names the judge's.

    Example: OPENAI_BASE_URL=http://127.0.0.1:8091/v1 goldfork demo record --fresh
    """
    if model:
        os.environ["TRIAGE_MODEL"] = model
    data = open_dataset(dataset)
    store = process_store()
    out = console()

    def say(line: str) -> None:
        out.print(line, markup=False)

    if fresh:
        unrecorded(data)
    record_runs(data, store, say=say)
    record_fork(data, store, say=say)
    for result in record_scores(data, store, say=say):
        to_terminal(build(result), out)
    version = data.snapshot(note="recorded again")
    say(f"{data.where} is now version {version}; look at it with `git diff --stat`")
