"""``goldfork dataset push`` and ``pull``: golden datasets to Langfuse and back."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from harness.cli._app import JsonOption, console, print_json, visible
from harness.cli._dataset import dataset_app
from harness.cli._eval import PathArgument, open_dataset
from harness.session import process_store

if TYPE_CHECKING:
    from harness.mirror import DatasetPush, Found, Project, PullPlan, Pushed, PushPlan

_SIGNS = {"create": "+", "update": "~", "replace": "±", "archive": "-", "new": "+", "changed": "~", "refused": "!"}
_STYLES = {"create": "green", "new": "green", "archive": "red", "refused": "red"}

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the difference and write nothing.")]


@dataset_app.command("push")
def push(
    path: PathArgument,
    *,
    dry_run: DryRunOption = False,
    accept_findings: Annotated[
        bool,
        typer.Option("--accept-findings", help="Push although the scan found something; what it found is replaced."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write the frozen version of a dataset into Langfuse: compared first, only what differs is written.

    Cases become items whose ids hold the dataset's name; cases that are no longer there are archived. Personal data
    and secrets are replaced by placeholders, and stop the push with exit code 2 until --accept-findings. Langfuse
    keeps the old value of a field that became null: such an item is archived and made anew under another id.

    The keys are taken from LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY.

    Example: goldfork dataset push datasets/triage --dry-run
    """
    from harness.mirror import DatasetPush  # brings httpx and the REST client along

    dataset = open_dataset(path)
    dataset.require_verified()
    with _project() as project:
        work = DatasetPush(dataset, project)
        plan = work.plan()
        stopped = bool(plan.findings) and not accept_findings
        pushed = None if stopped or dry_run else _write(work, plan)
    if json:
        print_json(_push_json(plan, pushed, dry_run=dry_run, stopped=stopped))
    else:
        _print_push(plan, pushed, dry_run=dry_run, stopped=stopped)
    if stopped:
        raise typer.Exit(2)


def _write(work: DatasetPush, plan: PushPlan) -> Pushed:
    pushed = work.write(plan)
    outbox = process_store().outbox
    noted = f"dataset:{plan.dataset}"
    at, known = pushed.at, outbox.notes(noted)
    if known.get("dataset_id") == pushed.dataset_id and known.get("at"):
        # An item that was archived last is seen no more, and the content before that was another.
        at = max(filter(None, (at, datetime.fromisoformat(known["at"]))))
    outbox.note(
        noted,
        {
            "project_id": pushed.project_id,
            "dataset_id": pushed.dataset_id,
            "version": work.dataset.version,
            "digest": work.dataset.digest,
            "at": at.isoformat() if at else None,
            "items": pushed.items,
            "item_versions": pushed.versions,
        },
    )
    return pushed


@dataset_app.command("pull")
def pull(
    path: PathArgument,
    *,
    source: Annotated[
        str, typer.Option("--from", metavar="NAME", help="Name of the dataset in Langfuse; else the dataset's own.")
    ] = "",
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Stage what people changed or added in Langfuse as cases; nothing is approved.

    The difference is shown first. An approved case whose item was changed becomes a staged one with the new content;
    its recordings stay where the input is the same. Items that are gone there are named and left here.

    Exit code 1 when an item cannot become a case.

    Example: goldfork dataset pull datasets/triage --from support/triage
    """
    from harness.mirror import DatasetPull  # brings httpx and the REST client along

    dataset = open_dataset(path)
    with _project() as project:
        work = DatasetPull(dataset, project, source=source)
        notes = process_store().outbox.notes(f"dataset:{dataset.name}") if work.source == dataset.name else {}
        plan = work.plan(notes.get("items"))
    problems = [f"item {pulled.item!r}: {pulled.reason}" for pulled in plan.items if pulled.staged is None]
    if not dry_run:
        problems = work.stage(plan)
    if json:
        print_json(_pull_json(plan, problems, dry_run=dry_run))
    else:
        _print_pull(plan, problems, where=dataset.where, dry_run=dry_run)
    if problems:
        raise typer.Exit(1)


@contextmanager
def _project() -> Iterator[Project]:
    from harness.mirror import Project

    project = Project.from_environment()
    try:
        yield project
    finally:
        project.close()


def _print_push(plan: PushPlan, pushed: Pushed | None, *, dry_run: bool, stopped: bool) -> None:
    if not plan.exists:
        _say(f"dataset {plan.dataset!r} is new in Langfuse", style="green")
    for name in plan.definition:
        _say(f"~ the dataset's {name}")
    rows = [(change.action, change.case, change.item, ", ".join(change.fields)) for change in plan.changes]
    _print_changes(rows)
    for change in plan.changes:
        if change.nulled:
            _say(
                f"case {change.case!r}: {', '.join(change.nulled)} became null, which Langfuse does not take; "
                f"item {change.item!r} is archived and made anew under another id",
                style="yellow",
            )
    if plan.foreign:
        _say(
            f"{plan.foreign} items that were made in Langfuse are left alone; `goldfork dataset pull` stages them",
            style="yellow",
        )
    if stopped:
        _print_findings(plan.findings)
    elif dry_run:
        _say(f"dry run: {len(plan.changes)} items would be written, {plan.unchanged} are equal")
    elif pushed is not None:
        _say(f"{pushed.written} items written, {plan.unchanged} were equal")


def _print_pull(plan: PullPlan, problems: list[str], *, where: str, dry_run: bool) -> None:
    _print_changes([(one.action, one.case, one.item, ", ".join(one.fields)) for one in plan.items])
    for case in plan.gone:
        _say(f"case {case!r}: its item is archived or deleted in Langfuse; the case is left as it is", style="yellow")
    for problem in problems:
        _say(problem, style="red")
    good = len(plan.items) - len(problems)
    if dry_run:
        _say(f"dry run: {good} cases would be staged, {plan.unchanged} are equal")
        return
    _say(f"{good} cases staged, {plan.unchanged} were equal")
    if good:
        _say(f"next: look at them, then `goldfork dataset snapshot {where} --approve`")


def _print_changes(rows: Sequence[tuple[str, str, str, str]]) -> None:
    if not rows:
        return
    table = Table(box=None, header_style="bold")
    for title in ("", "case", "what", "fields", "item"):
        table.add_column(title, overflow="fold")
    for action, case, item, fields in rows:
        cells = (_SIGNS[action], case, action, fields, item)
        table.add_row(*(Text(visible(cell), style=_STYLES.get(action, "")) for cell in cells))
    console().print(table)


def _print_findings(findings: tuple[Found, ...]) -> None:
    table = Table(box=None, header_style="bold")
    for title in ("kind", "count", "file", "path"):
        table.add_column(title, overflow="fold")
    for found in findings:
        cells = (found.kind, str(found.count), found.file, found.path)
        table.add_row(*(Text(visible(cell)) for cell in cells))
    console().print(table)
    summed = ", ".join(f"{count} {kind}" for kind, count in _totals(findings).items())
    _say(f"nothing was pushed: {summed}; remove them, or push them as placeholders with --accept-findings", style="red")


def _totals(findings: tuple[Found, ...]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for found in findings:
        counts[found.kind] += found.count
    return dict(sorted(counts.items()))


def _push_json(plan: PushPlan, pushed: Pushed | None, *, dry_run: bool, stopped: bool) -> dict[str, Any]:
    return {
        "dataset": plan.dataset,
        "dry_run": dry_run,
        "exists": plan.exists,
        "definition": list(plan.definition),
        "changes": [dataclasses.asdict(change) for change in plan.changes],
        "unchanged": plan.unchanged,
        "foreign": plan.foreign,
        "written": pushed.written if pushed else 0,
        "at": pushed.at.isoformat() if pushed and pushed.at else None,
        "findings": {"total": _totals(plan.findings), "places": [dataclasses.asdict(f) for f in plan.findings]},
        "exit_code": 2 if stopped else 0,
    }


def _pull_json(plan: PullPlan, problems: list[str], *, dry_run: bool) -> dict[str, Any]:
    return {
        "dataset": plan.dataset,
        "source": plan.source,
        "dry_run": dry_run,
        "changes": [
            {"action": one.action, "case": one.case, "item": one.item, "fields": list(one.fields)} for one in plan.items
        ],
        "unchanged": plan.unchanged,
        "gone": list(plan.gone),
        "problems": problems,
        "exit_code": 1 if problems else 0,
    }


def _say(text: str, *, style: str = "") -> None:
    console().print(Text(visible(text), style=style), soft_wrap=True)
