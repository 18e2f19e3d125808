"""``goldfork eval``: evaluate a golden dataset and gate on the verdict."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from harness.cli._app import JsonOption, app, console, print_json
from harness.dataset import GoldenDataset
from harness.errors import UsageError
from harness.experiment import (
    EvalMode,
    EvalOptions,
    ExperimentResult,
    Progress,
    find,
    options_of,
    run_experiment,
)
from harness.report import build, renderer, to_json, to_terminal, write
from harness.session import Change, process_store
from harness.settings import load_settings

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="Folder of the dataset, or its name below the datasets folder.")
]
OutputOption = Annotated[
    list[Path] | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write a report; .html .md .xml .json .txt. Repeatable."),
]
TargetOption = Annotated[str, typer.Option(help="Workflow to run, package.module:name; the dataset's own by default.")]
TrialsOption = Annotated[int | None, typer.Option(min=1, help="Repetitions of each case; the dataset's by default.")]


@app.command("eval")
def evaluate(
    path: PathArgument,
    *,
    target: TargetOption = "",
    mode: Annotated[
        EvalMode | None,
        typer.Option(
            help="replay: no provider, free (default). auto: calls for what is not recorded. live: calls for all."
        ),
    ] = None,
    fork_at: Annotated[str, typer.Option(metavar="STEP", help="Fork every case at this step; with --set.")] = "",
    set_: Annotated[
        str,
        typer.Option(
            "--set",
            metavar="KIND[:NAME]=VALUE",
            help="The one change: prompt:NAME=@FILE or =langfuse:NAME@LABEL, model=NAME, …",
        ),
    ] = "",
    controls: Annotated[
        int,
        typer.Option(
            min=0, metavar="K", help="Also fork each case K times with nothing changed, to tell the change from jitter."
        ),
    ] = 0,
    trials: TrialsOption = None,
    case: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this case. Repeatable.")] = None,
    resume: Annotated[str, typer.Option(metavar="EXPERIMENT", help="Finish an interrupted experiment.")] = "",
    save_recordings: Annotated[
        bool, typer.Option("--save-recordings", help="Keep new recordings in the dataset, for its next version.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 when the result is inconclusive.")] = False,
    report_only: Annotated[bool, typer.Option("--report-only", help="Low scores do not fail; errors do.")] = False,
    max_wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Longest wait for a provider that asks for it.")
    ] = 60.0,
    output: OutputOption = None,
    json: JsonOption = False,
) -> None:
    """Evaluate a dataset: replay every case, score it, compare it, and gate on the verdict.

    [bold]Examples[/]

    After a code change, free and offline:  goldfork eval datasets/triage

    A new prompt for one step:  goldfork eval datasets/triage --mode auto --fork-at draft --set prompt:draft=@new.txt

    In CI:  goldfork eval datasets/triage --strict -o report.html -o comment.md -o junit.xml

    [bold]Exit codes[/]

    0 passed · 1 the gate failed · 2 wrong usage · 3 inconclusive (--strict) · 4 too little measured · 130 interrupted
    """
    for file in output or ():
        renderer(file)
    dataset = open_dataset(path)
    if resume:
        given = {
            "--target": target,
            "--mode": mode,
            "--fork-at": fork_at,
            "--set": set_,
            "--controls": controls,
            "--trials": trials,
            "--case": case,
        }
        options = _resumed(resume, given)
    else:
        options = EvalOptions(
            target=target or None,
            mode=mode or "replay",
            change=read_change(fork_at, set_),
            controls=controls,
            trials=trials,
            cases=tuple(case or ()),
            save_recordings=save_recordings,
        )
    result = run(dataset, replace(options, strict=strict, report_only=report_only, max_wait=max_wait))
    present(result, output or (), json=json)
    if save_recordings:
        console(json=True).print(
            f"New recordings are in {dataset.path}; freeze them with `goldfork dataset snapshot`.", markup=False
        )
    raise typer.Exit(result.exit_code)


def open_dataset(path: str) -> GoldenDataset:
    """A dataset by folder, or by name below the settings' datasets folder."""
    folder = Path(path)
    named = load_settings().datasets / path
    return GoldenDataset.load(named if not folder.exists() and named.is_dir() else folder)


def read_change(at: str, text: str) -> Change | None:
    """The change that ``--fork-at`` and ``--set`` describe together.

    Raises:
        UsageError: Only one of them is given.
    """
    if bool(at) != bool(text):
        raise UsageError("--fork-at and --set belong together, as in --fork-at draft --set prompt:draft=@new.txt")
    return Change.parse(text, at=at) if text else None


def run(dataset: GoldenDataset, options: EvalOptions) -> ExperimentResult:
    """Run an experiment with a progress bar on stderr."""
    settings = load_settings()
    if options.mode == "replay":
        # Clients are often built when the target is imported, and refuse to be without a key. Nothing is sent here.
        os.environ.setdefault("OPENAI_API_KEY", "replay-sends-nothing")
    options = replace(options, concurrency=settings.concurrency)
    with _bar(Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def show(progress: Progress) -> None:
            counts = progress.counts
            cost = "" if counts.cost_spent is None else f" · {counts.cost_spent:.4f} {counts.currency}"
            least = "at least " if counts.unknown_spent else ""
            spent = f"{least}{counts.tokens_spent} tokens spent, {counts.tokens_saved} saved{cost}"
            bar.update(task, completed=progress.done, total=progress.total, description=spent)

        return run_experiment(dataset, options, store=process_store(settings), progress=show)


def _bar(stderr: Console) -> Bar:
    return Bar(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=stderr,
        transient=True,
        disable=not stderr.is_terminal,
    )


def present(result: ExperimentResult, output: list[Path] | tuple[Path, ...], *, json: bool) -> None:
    """Write the report files, and print the result for a machine or a person."""
    summary = build(result)
    written = [str(write(summary, file)) for file in output]
    if json:
        print_json(to_json(summary, reports=written))
        return
    to_terminal(summary, console())
    for name in written:
        console().print(f"report: {name}", markup=False)


def _resumed(ref: str, given: Mapping[str, object]) -> EvalOptions:
    for option, value in given.items():
        if value:
            raise UsageError(f"--resume takes its options from the experiment; leave out {option}")
    store = process_store()
    return options_of(store, find(store, ref).id)
