"""``goldfork dataset rerecord``: new recordings for imported and stale cases."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from harness.cli._app import JsonOption, console, print_json, visible
from harness.cli._dataset import PathArgument, dataset_app
from harness.cli._eval import open_dataset
from harness.curation import Rerecorded, Worn, choose, rerecord, worn_cases
from harness.dataset import GoldenDataset
from harness.session import process_store


@dataset_app.command("rerecord")
def rerecord_cases(
    path: PathArgument,
    *,
    imported: Annotated[bool, typer.Option("--imported", help="Renew the cases whose run was imported.")] = False,
    case: Annotated[list[str] | None, typer.Option(help="Renew this case; may be given several times.")] = None,
    target: Annotated[str, typer.Option(help="package.module:function; the dataset's own by default.")] = "",
    json: JsonOption = False,
) -> None:
    """Run the target afresh on cases' inputs and put the new recordings in place of the old.

    Calls the provider and costs money; side effects stay dry. Each new recording is proved by a replay. Inputs,
    expected outputs, tags and approvals stay as they are; `goldfork dataset snapshot` makes a version of the result.

    Without --imported and --case nothing is run: it says which cases it would renew, because they were imported or
    recorded under other key rules.

    Exit code 1 when a new run failed or its replay gave something else: that case stays as it was.

    Example: goldfork dataset rerecord datasets/triage --imported
    """
    dataset = open_dataset(path)
    if not imported and not case:
        _preview(dataset, worn_cases(dataset), json=json)
        return
    chosen = choose(dataset, imported=imported, cases=case or ())
    stderr = console(json=True)

    def show(case_id: str, done: int, total: int) -> None:
        stderr.print(Text(f"{done + 1} of {total}: {case_id}"))

    result = rerecord(dataset, chosen, target=target, sink=process_store(), progress=show) if chosen else Rerecorded()
    if json:
        print_json(_as_json(dataset, result))
    else:
        _print(dataset, result)
    if result.failed:
        raise typer.Exit(1)


def _preview(dataset: GoldenDataset, worn: tuple[Worn, ...], *, json: bool) -> None:
    if json:
        listed = [{"case": one.case, "reason": one.why} for one in worn]
        print_json({"dataset": dataset.name, "would_renew": listed, "renewed": [], "failed": [], "exit_code": 0})
        return
    for one in worn:
        _say(f"{one.case}: {one.why}")
    if worn:
        _say(f"renew with `goldfork dataset rerecord {dataset.where} --imported`, or --case ID for each")
    else:
        _say("no case was imported or recorded under other key rules; nothing to renew")


def _as_json(dataset: GoldenDataset, result: Rerecorded) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "would_renew": [],
        "renewed": [{"case": one.case, "runs": list(one.runs)} for one in result.renewed],
        "failed": [{"case": one.case, "reason": one.reason} for one in result.failed],
        "exit_code": 1 if result.failed else 0,
    }


def _print(dataset: GoldenDataset, result: Rerecorded) -> None:
    for one in result.renewed:
        _say(f"renewed {one.case}: run {', '.join(one.runs)}; a replay of its files gave the same output")
    for left in result.failed:
        _say(f"{left.case} stays as it was: {left.reason}", style="red")
    if not result.renewed and not result.failed:
        _say("no case was imported; nothing to renew")
    if result.renewed:
        _say(f"next: look at it, then `goldfork dataset snapshot {dataset.where}`")


def _say(text: str, *, style: str | None = None) -> None:
    console().print(Text(visible(text), style=style or ""), soft_wrap=True)
