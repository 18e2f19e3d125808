"""``goldfork dataset``: make, freeze, look at and compare golden datasets."""

from __future__ import annotations

import dataclasses
import getpass
import re
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from harness.canonical import parse_json
from harness.cli._app import JsonOption, app, console, print_json, visible
from harness.curation import Draft, Place, Snapshot, Staged, dataset_at, snapshot, stage, totals
from harness.dataset import Case, Check, DatasetDiff, FieldChange, GoldenDataset, check, diff
from harness.errors import CanonicalError, DatasetError, DatasetMissing, UsageError
from harness.session import process_store
from harness.settings import load_settings

dataset_app = typer.Typer(
    help="Golden datasets: stage cases from runs, freeze versions, verify and compare them.",
    no_args_is_help=True,
)
app.add_typer(dataset_app, name="dataset")

_DIGEST = re.compile(r"[0-9a-f]{64}")
PathArgument = Annotated[str, typer.Argument(help="The dataset's folder, or its name in the folder of datasets.")]


@dataset_app.command("add")
def add(
    run: Annotated[str, typer.Argument(help="Run id, the start of one, or a workflow's name (its latest good run).")],
    *,
    to: Annotated[str, typer.Option("--to", help="The dataset's folder; made when it is not there.")],
    case_id: Annotated[str, typer.Option("--id", help="Id of the case, its file's name.")] = "",
    expected: Annotated[str, typer.Option(help="What is right, as JSON, text or @FILE; else the run's output.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag of the case; may be given several times.")] = None,
    split: Annotated[str, typer.Option(help="test, dev, calibration, …")] = "test",
    target: Annotated[str, typer.Option(help="package.module:function, for a new dataset.")] = "",
    json: JsonOption = False,
) -> None:
    """Stage a recorded run as a case, with its recording, and prove it by replaying it once.

    A staged case takes part in nothing until `goldfork dataset snapshot PATH --approve`.

    Exit code 1 when the replay did not give the recorded output: the case is staged, but look at it.

    Example: goldfork dataset add triage --to datasets/triage --id parcel-late --expected @right.json
    """
    store = process_store()
    found = store.run(run)
    draft = Draft(id=case_id, tags=tuple(tag or ()), split=split)
    if expected:
        draft = dataclasses.replace(draft, expected_output=_expected(expected))
    dataset = _open_or_create(to, target)
    staged = stage(store, found.id if found else run, dataset, draft=draft)
    if json:
        print_json(
            {
                **_case_json(staged.case),
                "dataset": dataset.name,
                "proven": staged.proven,
                "reason": staged.reason or None,
            }
        )
    else:
        _print_staged(staged, dataset)
    if not staged.proven and dataset.target and staged.case.provenance.get("fidelity") != "imported":
        raise typer.Exit(1)


def _print_staged(staged: Staged, dataset: GoldenDataset) -> None:
    _say(f"staged case {staged.case.id!r} in {dataset.where}")
    if staged.proven:
        _say("proven: a replay of its files gave the recorded output, without a provider")
    else:
        _say(f"not proven: {staged.reason}", style="yellow")
    _say(f"next: look at it, then `goldfork dataset snapshot {dataset.where} --approve`")


@dataset_app.command("snapshot")
def freeze_version(
    path: PathArgument,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="Approve all staged cases.")] = False,
    by: Annotated[str, typer.Option(help="Who approves; by default git's user.name, else the login name.")] = "",
    accept_findings: Annotated[
        bool, typer.Option("--accept-findings", help="Freeze although the scan found something; it is recorded.")
    ] = False,
    note: Annotated[str, typer.Option("-m", "--note", help="One line for the history.")] = "",
    json: JsonOption = False,
) -> None:
    """Freeze the approved cases and their recordings as a new version; nothing changed, no new version.

    Everything is scanned for personal data and secrets first. Findings stop the snapshot with exit code 2; take them
    out of the cases, or accept them with --accept-findings.

    Recordings that were edited by hand get a new digest, which is said.

    Example: goldfork dataset snapshot datasets/triage --approve -m "two parcels that were late"
    """
    dataset = _open(path)
    who = (by or _person()) if approve or by else None
    result = snapshot(dataset, approve=who, accept_findings=accept_findings, note=note)
    if json:
        print_json(_snapshot_json(dataset, result))
    else:
        _print_snapshot(dataset, result)
    if result.frozen is None:
        raise typer.Exit(2)


def _print_snapshot(dataset: GoldenDataset, result: Snapshot) -> None:
    for line in result.readdressed:
        _say(line, style="yellow")
    if result.frozen is None:
        _print_findings(result.findings)
        return
    frozen = result.frozen
    if frozen.approved:
        _say(f"approved: {', '.join(frozen.approved)}")
    for name in frozen.removed:
        _say(f"removed {name}: no case leads to it")
    if frozen.created:
        _say(f"{dataset.name} is now version {frozen.version}: {frozen.cases} cases, digest {frozen.digest[:12]}")
    else:
        _say(f"nothing changed since version {frozen.version}; no new version")
    unproven = [case.id for case in dataset.cases if case.provenance.get("proven") is False]
    if unproven:
        _say(f"not proven by a replay: {', '.join(unproven)}", style="yellow")


def _print_findings(findings: tuple[Place, ...]) -> None:
    table = Table(box=None, header_style="bold")
    for title in ("kind", "count", "file", "path"):
        table.add_column(title, overflow="fold")
    for place in findings:
        table.add_row(_cell(place.kind), str(place.count), _cell(place.file), _cell(place.path))
    console().print(table)
    summed = ", ".join(f"{count} {kind}" for kind, count in totals(findings).items())
    _say(f"no version was made: {summed}; remove them, or accept them with --accept-findings", style="red")


@dataset_app.command("list")
def list_datasets(*, json: JsonOption = False) -> None:
    """List the datasets in the folder of datasets, with version and number of cases."""
    root = load_settings().datasets
    paths = sorted(path.parent for path in root.glob("*/dataset.toml")) if root.is_dir() else []
    rows = [_summary(GoldenDataset.load(path)) for path in paths]
    if json:
        for row in rows:
            print_json(row)
        return
    table = Table(box=None, header_style="bold")
    for title in ("dataset", "version", "cases", "staged", "target"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(str(row[key])) for key in ("dataset", "version", "cases", "staged", "target")))
    console().print(
        table if rows else f"No datasets in {root}: make one with `goldfork dataset add RUN --to {root}/NAME`."
    )


@dataset_app.command("show")
def show(
    path: PathArgument,
    *,
    case: Annotated[str, typer.Option(help="Show this case whole.")] = "",
    json: JsonOption = False,
) -> None:
    """Show a dataset's cases, or one case whole."""
    dataset = _open(path)
    if case:
        _show_case(dataset.case(case), json=json)
        return
    cases = sorted((*dataset.cases, *dataset.staged), key=lambda item: item.id)
    if json:
        evaluators = [spec.model_dump() for spec in dataset.evaluators]
        listed = [_case_json(item) for item in cases]
        print_json({**_summary(dataset), "evaluators": evaluators, "items": listed})
        return
    table = Table(box=None, header_style="bold")
    for title in ("case", "split", "tags", "approver", "recordings"):
        table.add_column(title, overflow="fold")
    for item in cases:
        refs = ", ".join(f"{ref.arm}/{ref.trial}" for ref in item.recordings)
        cells = (item.id, item.split, ", ".join(item.tags), item.approver or "staged", refs)
        table.add_row(*(_cell(cell) for cell in cells))
    _say(f"{dataset.name} version {dataset.version} · target {dataset.target or '-'}")
    console().print(table)


def _show_case(case: Case, *, json: bool) -> None:
    data = {
        **_case_json(case),
        "input": case.input,
        "expected_output": case.expected_output,
        "metadata": case.metadata,
        "labels": case.labels,
        "provenance": case.provenance,
    }
    if json:
        print_json(data)
    else:
        console().print_json(data=data)


@dataset_app.command("verify")
def verify(path: PathArgument, *, json: JsonOption = False) -> None:
    """Check every file against the frozen version: edited cases, missing or edited recordings, leftovers.

    Exit code 1 when there are problems. Put it into CI, so that nobody changes a case without a new version.
    """
    try:
        dataset = _open(path)
        found, version = check(dataset), dataset.version
    except DatasetMissing:
        raise
    except DatasetError as error:
        found, version = Check((str(error),), ()), None
    if json:
        listed = {"problems": list(found.problems), "notes": list(found.notes)}
        print_json({"ok": not found.problems, "dataset": path, "version": version, **listed})
    else:
        for line in found.problems:
            _say(line, style="red")
        for line in found.notes:
            _say(line)
        if not found.problems:
            _say(f"version {version} is intact")
    if found.problems:
        raise typer.Exit(1)


@dataset_app.command("diff")
def compare(
    path: PathArgument,
    other: Annotated[str, typer.Argument(help="The newer dataset.")] = "",
    *,
    against: Annotated[str, typer.Option(help="A git revision of PATH to compare with, instead of OTHER.")] = "",
    json: JsonOption = False,
) -> None:
    """Show which cases were added, removed or changed, field by field, and what differs in dataset.toml.

    Examples: goldfork dataset diff datasets/old datasets/new · goldfork dataset diff datasets/triage --against main
    """
    if bool(other) == bool(against):
        raise UsageError(
            "name either a second dataset or a revision: `dataset diff A B` or `dataset diff A --against REF`"
        )
    if other:
        result = diff(_open(path), _open(other))
    else:
        dataset = _open(path)
        with dataset_at(dataset.path, against) as before:
            result = diff(before, dataset)
    if json:
        print_json(_diff_json(result))
    else:
        _print_diff(result)


def _print_diff(result: DatasetDiff) -> None:
    before, after = result.versions
    _say(f"version {before} → {after}")
    for case_id in result.added:
        _say(f"+ {case_id}", style="green")
    for case_id in result.removed:
        _say(f"- {case_id}", style="red")
    for name, changes in (("dataset.toml", result.settings), *result.changed.items()):
        for change in changes:
            _say(f"~ {name} {change.field}: {_short(change.before)} → {_short(change.after)}")
    if result.equal:
        _say("no difference in cases, recordings or settings")


def _open(ref: str) -> GoldenDataset:
    path = Path(ref)
    here = (path / "dataset.toml").is_file()
    return GoldenDataset.load(path if here else load_settings().datasets / ref)


def _open_or_create(ref: str, target: str) -> GoldenDataset:
    path = Path(ref)
    if (path / "dataset.toml").is_file():
        return GoldenDataset.load(path)
    if not target:
        raise UsageError(f"there is no dataset in {ref!r}; say what it evaluates with --target package.module:function")
    return GoldenDataset.create(path, target=target)


def _expected(text: str) -> Any:
    """JSON where it parses as JSON, else text; ``@FILE`` reads either from a file."""
    if text.startswith("@"):
        path = Path(text[1:])
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--expected: cannot read {str(path)!r}: {error}") from error
    try:
        return parse_json(text.encode())
    except CanonicalError:
        return text


def _person() -> str:
    """Who sits here, as git knows them."""
    git = shutil.which("git")
    if git is not None:
        asked = subprocess.run([git, "config", "user.name"], capture_output=True, text=True, check=False)  # noqa: S603 - git itself, fixed arguments
        if asked.stdout.strip():
            return asked.stdout.strip()
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise UsageError("it is unknown who approves; say it with --by NAME") from None


def _cell(text: str) -> Text:
    return Text(visible(text))


def _say(text: str, *, style: str | None = None) -> None:
    """One line for people, never wrapped: what is piped into grep stays whole."""
    console().print(Text(visible(text), style=style or ""), soft_wrap=True)


def _short(value: Any) -> str:
    text = "-" if value is None else value if isinstance(value, str) else repr(value)
    if _DIGEST.fullmatch(text):
        return text[:12]
    return text if len(text) <= 60 else f"{text[:57]}…"


def _summary(dataset: GoldenDataset) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "path": dataset.where,
        "version": dataset.version,
        "digest": dataset.digest or None,
        "target": dataset.target or None,
        "cases": len(dataset.cases),
        "staged": len(dataset.staged),
        "trials": dataset.trials,
    }


def _case_json(case: Case) -> dict[str, Any]:
    return {
        "case": case.id,
        "split": case.split,
        "group": case.group,
        "tags": list(case.tags),
        "approver": case.approver,
        "recordings": [ref.model_dump() for ref in case.recordings],
    }


def _snapshot_json(dataset: GoldenDataset, result: Snapshot) -> dict[str, Any]:
    frozen = result.frozen
    return {
        "dataset": dataset.name,
        "version": frozen.version if frozen else None,
        "digest": frozen.digest if frozen else None,
        "created": bool(frozen and frozen.created),
        "cases": frozen.cases if frozen else None,
        "approved": list(frozen.approved) if frozen else [],
        "readdressed": list(result.readdressed),
        "removed": list(frozen.removed) if frozen else [],
        "findings": {"total": totals(result.findings), "places": [dataclasses.asdict(p) for p in result.findings]},
        "exit_code": 0 if frozen else 2,
    }


def _diff_json(result: DatasetDiff) -> dict[str, Any]:
    def listed(changes: tuple[FieldChange, ...]) -> list[dict[str, Any]]:
        return [dataclasses.asdict(change) for change in changes]

    return {
        "equal": result.equal,
        "versions": list(result.versions),
        "settings": listed(result.settings),
        "added": list(result.added),
        "removed": list(result.removed),
        "changed": {case_id: listed(changes) for case_id, changes in result.changed.items()},
    }
