"""``goldfork eval``: evaluate a golden dataset and gate on the verdict."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from harness.cli._app import JsonOption, app, console, print_json
from harness.cli._fork_tools import declared_change, warn_of_effects
from harness.cli._plan import show_experiment_plan
from harness.dataset import GoldenDataset
from harness.errors import UsageError
from harness.experiment import (
    EvalMode,
    EvalOptions,
    ExperimentResult,
    Progress,
    find,
    options_of,
    plan_experiment,
    run_experiment,
)
from harness.replay import Expired
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


_FORK = "Fork every case"
_GATE = "Gate and report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options that say what an experiment is of; a resumed one has them already."""

    target: str
    mode: EvalMode | None
    fork_at: str
    set_: str
    refresh: tuple[str, ...]
    expired: Expired
    allow_side_effects: bool
    allow: bool
    controls: int
    trials: int | None
    case: tuple[str, ...]

    def options(self) -> EvalOptions:
        """As the runner takes them.

        Raises:
            UsageError: They name no change, or two, where there is to be one.
        """
        return EvalOptions(
            target=self.target or None,
            mode=self.mode or "replay",
            change=read_change(self.fork_at, self.set_, self.refresh),
            expired=self.expired,
            allow_side_effects=self.allow_side_effects,
            allow_undeclared=self.allow,
            controls=self.controls,
            trials=self.trials,
            cases=self.case,
        )

    def resumed(self, ref: str) -> EvalOptions:
        """The options of an interrupted experiment.

        Raises:
            UsageError: There is none of this id, or other options are given as well.
        """
        for one in fields(self):
            value = getattr(self, one.name)
            if value and value != "keep":
                option = f"--{one.name.strip('_').replace('_', '-')}"
                raise UsageError(f"--resume takes its options from the experiment; leave out {option}")
        store = process_store()
        return options_of(store, find(store, ref).id)


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
    trials: TrialsOption = None,
    case: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this case. Repeatable.")] = None,
    fork_at: Annotated[
        str, typer.Option(metavar="STEP", help="Fork at this step; with --set or --refresh.", rich_help_panel=_FORK)
    ] = "",
    set_: Annotated[
        str,
        typer.Option(
            "--set",
            metavar="KIND[:NAME]=VALUE",
            help="The one change: prompt:NAME=@FILE or =langfuse:NAME@LABEL, model=NAME, …",
            rich_help_panel=_FORK,
        ),
    ] = "",
    refresh: Annotated[
        list[str] | None,
        typer.Option(
            "--refresh", metavar="TOOL", help="As the one change, call this tool anew.", rich_help_panel=_FORK
        ),
    ] = None,
    expired: Annotated[
        Expired,
        typer.Option(help="refresh: call time-bound tools anew whose result is past its ttl.", rich_help_panel=_FORK),
    ] = "keep",
    allow_side_effects: Annotated[
        bool,
        typer.Option(
            "--allow-side-effects",
            help="Execute side effects for real instead of keeping them dry.",
            rich_help_panel=_FORK,
        ),
    ] = False,
    allow: Annotated[
        bool,
        typer.Option(
            "--allow",
            help="Go on where the code itself gives something else; the report says what.",
            rich_help_panel=_FORK,
        ),
    ] = False,
    controls: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="K",
            help="Also fork each case K times with nothing changed, to tell the change from jitter.",
            rich_help_panel=_FORK,
        ),
    ] = 0,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say what would be reused, run and kept dry, and about what it costs.")
    ] = False,
    resume: Annotated[str, typer.Option(metavar="EXPERIMENT", help="Finish an interrupted experiment.")] = "",
    save_recordings: Annotated[
        bool, typer.Option("--save-recordings", help="Keep new recordings in the dataset, for its next version.")
    ] = False,
    max_wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Longest wait for a provider that asks for it.")
    ] = 60.0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 when the result is inconclusive.", rich_help_panel=_GATE)
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Low scores do not fail; errors do.", rich_help_panel=_GATE)
    ] = False,
    output: OutputOption = None,
    json: JsonOption = False,
) -> None:
    """Evaluate a dataset: replay every case, score it, compare it, and gate on the verdict.

    [bold]Examples[/]

    After a code change, free and offline:  goldfork eval datasets/triage

    A new prompt for one step:  goldfork eval datasets/triage --mode auto --fork-at draft --set prompt:draft=@new.txt

    What that would cost:  the same with --plan

    In CI:  goldfork eval datasets/triage --strict -o report.html -o comment.md -o junit.xml

    [bold]Exit codes[/]

    0 passed · 1 the gate failed · 2 wrong usage · 3 inconclusive (--strict) · 4 too little measured · 130 interrupted
    """
    asked = Asked(
        target=target,
        mode=mode,
        fork_at=fork_at,
        set_=set_,
        refresh=tuple(refresh or ()),
        expired=expired,
        allow_side_effects=allow_side_effects,
        allow=allow,
        controls=controls,
        trials=trials,
        case=tuple(case or ()),
    )
    for file in output or ():
        renderer(file)
    dataset = open_dataset(path)
    options = asked.resumed(resume) if resume else replace(asked.options(), save_recordings=save_recordings)
    if plan:
        _plan(dataset, options, json=json)
        return
    if options.allow_side_effects:
        warn_of_effects(f"the forks of dataset {dataset.name!r}")
    result = run(dataset, replace(options, strict=strict, report_only=report_only, max_wait=max_wait))
    present(result, output or (), json=json)
    if save_recordings:
        console(json=True).print(
            f"New recordings are in {dataset.path}; freeze them with `goldfork dataset snapshot`.", markup=False
        )
    raise typer.Exit(result.exit_code)


def _plan(dataset: GoldenDataset, options: EvalOptions, *, json: bool) -> None:
    settings = load_settings()
    if options.resume:
        raise UsageError("--plan is of an experiment that has not begun; leave out --resume")
    _offer_key(options)
    plan = plan_experiment(dataset, options, prices=settings.prices, store=process_store(settings))
    show_experiment_plan(plan, json=json)


def open_dataset(path: str) -> GoldenDataset:
    """A dataset by folder, or by name below the settings' datasets folder."""
    folder = Path(path)
    named = load_settings().datasets / path
    return GoldenDataset.load(named if not folder.exists() and named.is_dir() else folder)


def read_change(at: str, text: str, refresh: Sequence[str] = ()) -> Change | None:
    """The change that ``--fork-at``, ``--set`` and ``--refresh`` describe together.

    Raises:
        UsageError: A step without its change, or a change without its step; or two changes.
    """
    if refresh:
        return declared_change(text, refresh, at)
    if bool(at) != bool(text):
        raise UsageError("--fork-at and --set belong together, as in --fork-at draft --set prompt:draft=@new.txt")
    return Change.parse(text, at=at) if text else None


def run(dataset: GoldenDataset, options: EvalOptions) -> ExperimentResult:
    """Run an experiment with a progress bar on stderr."""
    settings = load_settings()
    _offer_key(options)
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


def _offer_key(options: EvalOptions) -> None:
    """Clients are often built when the target is imported, and refuse to be without a key; nothing is sent here."""
    if options.mode == "replay":
        os.environ.setdefault("OPENAI_API_KEY", "replay-sends-nothing")


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
