"""``goldfork store``: look after the database that holds the runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict

import typer
from rich.console import Console
from rich.filesize import decimal as file_size
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from harness.cli._app import JsonOption, app, console, print_json
from harness.settings import load_settings
from harness.store import Store, open_store

store_app = typer.Typer(
    help="The database of runs: verify it, clean it up, see what takes the room.", no_args_is_help=True
)
app.add_typer(store_app, name="store")

_SHOWN_FAULTS = 50


@store_app.command("check")
def check(*, json: JsonOption = False) -> None:
    """Re-hash all content, re-join all requests, and follow every reference.

    Exit code 1 when something is damaged or missing.

    Example: goldfork store check --json
    """
    with _opened(read_only=True) as store, _progress(console(json=True)) as progress:
        report = store.check(progress=progress)
    if json:
        print_json(asdict(report))
    else:
        out = console()
        word = "ok" if report.ok else f"faults: {len(report.faults)}"
        lines = [f"{store.name}: {report.blobs} blobs, {report.messages} messages, {word}"]
        lines += [f"  {fault}" for fault in report.faults[:_SHOWN_FAULTS]]
        for line in lines:
            out.print(line, markup=False, soft_wrap=True)
        if len(report.faults) > _SHOWN_FAULTS:
            out.print(f"  … and {len(report.faults) - _SHOWN_FAULTS} more; --json shows all")
    if not report.ok:
        raise typer.Exit(1)


@store_app.command("gc")
def gc(*, json: JsonOption = False) -> None:
    """Remove content that no run, case or result refers to, and shared results of tools that are past their ttl.

    Content that was used within the hour stays.

    Example: goldfork store gc
    """
    with _opened(read_only=False) as store, _progress(console(json=True)) as progress:
        report = store.gc(progress=progress)
    if json:
        print_json(asdict(report))
        return
    console().print(
        f"removed {report.blobs} blobs and {report.chains} chain links, {file_size(report.bytes)}; "
        f"spared {report.kept_recent} used within the hour; dropped {report.expired_tool_results} expired tool results"
    )


@store_app.command("stats")
def stats(*, json: JsonOption = False) -> None:
    """Show rows and bytes per table.

    Example: goldfork store stats
    """
    with _opened(read_only=True) as store:
        found = store.stats()
    if json:
        print_json(asdict(found))
        return
    table = Table("table", "rows", "size", title=store.name, title_justify="left")
    table.columns[1].justify = table.columns[2].justify = "right"
    for size in found.tables:
        if size.rows:
            table.add_row(size.table, f"{size.rows:,}", file_size(size.bytes))
    out = console()
    out.print(table)
    out.print(
        f"{file_size(found.bytes)} in all; content of {file_size(found.content_bytes)} takes "
        f"{file_size(found.stored_bytes)}"
    )
    if found.whole_requests:
        out.print(f"{found.whole_requests} request bodies could not be split and are stored whole")


@contextlib.contextmanager
def _opened(*, read_only: bool) -> Iterator[Store]:
    settings = load_settings()
    with open_store(settings.url, durability=settings.durability, read_only=read_only) as store:
        yield store


@contextlib.contextmanager
def _progress(out: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar per kind of work, on stderr, where somebody watches."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bars:
        tasks = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show
