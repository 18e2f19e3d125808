"""``goldfork baseline``: what new experiments are compared with."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli._app import JsonOption, app, console, print_json
from harness.cli._eval import PathArgument, open_dataset, run
from harness.errors import UsageError
from harness.experiment import EvalMode, EvalOptions, accept, find, load_experiment
from harness.session import process_store

baseline_app = typer.Typer(help="Accept a configuration's trials as the baseline of a dataset.", no_args_is_help=True)
app.add_typer(baseline_app, name="baseline")


@baseline_app.command("accept")
def accept_baseline(
    path: PathArgument,
    *,
    experiment: Annotated[
        str, typer.Option(help="A finished experiment to accept instead of running one; an id or latest.")
    ] = "",
    mode: Annotated[
        EvalMode, typer.Option(help="replay: store the recorded trials (free). live: run the cases afresh.")
    ] = "replay",
    json: JsonOption = False,
) -> None:
    """Write datasets/NAME/baseline.json: scores and output hashes per case and trial. Commit it.

    Example: goldfork baseline accept datasets/triage --mode live
    """
    dataset = open_dataset(path)
    if experiment:
        store = process_store()
        line = find(store, experiment)
        if line.status != "ok":
            raise UsageError(
                f"experiment {line.id} is not complete (it is {line.status!r}); "
                f"finish it with `goldfork eval {path} --resume {line.id}`"
            )
        result = load_experiment(store, line.id)
        if result.dataset != dataset.name:
            raise UsageError(f"experiment {line.id} is of dataset {result.dataset!r}, not of {dataset.name!r}")
    else:
        result = run(dataset, EvalOptions(mode=mode))
        if result.exit_code == 130:
            raise typer.Exit(130)
    data = accept(result, dataset)
    if json:
        print_json({"path": str(dataset.path / "baseline.json"), **_head(data)})
    else:
        console().print(
            f"baseline.json of {dataset.name} written: {len(data['cases'])} cases, experiment {result.id}; commit it.",
            markup=False,
        )


@baseline_app.command("show")
def show_baseline(path: PathArgument, *, json: JsonOption = False) -> None:
    """Show which experiment and commit the baseline is, and its scores."""
    dataset = open_dataset(path)
    data = dataset.read_baseline()
    if data is None:
        raise UsageError(f"dataset {dataset.name!r} has no baseline; run `goldfork baseline accept {path}`")
    if json:
        print_json({"path": str(dataset.path / "baseline.json"), **_head(data)})
        return
    out = console()
    head = _head(data)
    for name in ("experiment", "version", "target", "mode", "measured_at", "commit"):
        out.print(f"{name}: {head[name]}", markup=False)
    table = Table(box=None, header_style="bold")
    table.add_column("score")
    table.add_column("value", justify="right")
    for name, value in (head["scores"] or {}).items():
        table.add_row(escape(str(name)), f"{value:.4f}" if isinstance(value, float) else escape(str(value)))
    out.print(table)


def _head(data: dict[str, Any]) -> dict[str, Any]:
    names = ("experiment", "dataset", "version", "target", "change", "mode", "fresh", "measured_at", "commit", "scores")
    return {**{name: data.get(name) for name in names}, "cases": len(data.get("cases") or ())}
