"""``goldfork import otel``: OpenTelemetry spans out of files become runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from harness.cli._app import JsonOption, console, print_json, visible
from harness.cli._import import import_app
from harness.errors import UsageError
from harness.session import process_store

if TYPE_CHECKING:
    from harness.mirror import SpansImported

_SHOWN: Final = 20


@import_app.command("otel")
def otel(
    files: Annotated[list[str], typer.Argument(help="OTLP/JSON files, one request each or one a line; - reads stdin.")],
    *,
    json: JsonOption = False,
) -> None:
    """Import traces of generative AI out of OpenTelemetry files as runs: steps, model calls, times, tokens.

    Content comes along only where the spans carry it. Imported runs can be looked at and become cases; replay refuses
    them until `goldfork dataset rerecord` has run their target afresh. Give all files of a trace in one command. The
    same files again change nothing, and what this store recorded itself is never overwritten.

    Exit code 1 when a trace or a line had to be left out; the reasons are listed.

    Example: goldfork import otel traces.jsonl
    """
    from harness.mirror import import_spans

    for name in files:
        _require_file(name)
    if files.count("-") > 1:
        raise UsageError("standard input can be read once; give - once")
    store = process_store()
    with _progress() as bar:
        reading = bar.add_task("reading", total=_size(files), spans="")
        making = bar.add_task("making runs", total=None, visible=False, spans="")

        def show(result: SpansImported) -> None:
            bar.update(reading, completed=result.bytes, spans=f"{result.spans:,} spans")
            if result.traces:
                told = f"{result.done:,} of {result.traces:,} traces"
                bar.update(making, completed=result.done, total=result.traces, visible=True, spans=told)

        result = import_spans(store, _opened(files), progress=show)
    if json:
        print_json(_as_json(result, len(files)))
    else:
        _print(result)
    if result.left_out:
        raise typer.Exit(1)


def _progress() -> Bar:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[spans]}"), TimeElapsedColumn())
    stderr = console(json=True)
    return Bar(*columns, console=stderr, transient=True, disable=not stderr.is_terminal)


def _require_file(name: str) -> None:
    if name == "-":
        return
    path = Path(name)
    try:
        found = path.exists() and not path.is_dir()
    except (OSError, ValueError):
        found = False
    if not found:
        raise UsageError(f"{name!r} is no file; give files of OTLP/JSON traces, or - for standard input")


def _size(files: list[str]) -> int | None:
    """Bytes of all files; ``None`` when one of them cannot say."""
    sizes = [Path(name).stat().st_size for name in files if name != "-"]
    return None if "-" in files or not all(sizes) else sum(sizes)


def _opened(files: list[str]) -> Iterator[tuple[str, IO[bytes]]]:
    for name in files:
        if name == "-":
            yield "-", sys.stdin.buffer
            continue
        with contextlib.ExitStack() as stack:
            try:
                content = stack.enter_context(Path(name).open("rb"))
            except OSError as error:
                raise UsageError(f"{name!r} cannot be read: {error.strerror}; check who may read it") from error
            yield name, content


def _as_json(result: SpansImported, files: int) -> dict[str, Any]:
    return {
        "files": files,
        "spans": result.spans,
        "traces": result.traces,
        "imported": len(result.imported),
        "updated": len(result.updated),
        "unchanged": result.unchanged,
        "recorded": result.recorded,
        "left_out": [{"trace": trace, "reason": reason} for trace, reason in result.left_out],
        "mended": [{"trace": trace, "reason": reason} for trace, reason in result.mended],
        "runs": [*result.imported, *result.updated],
        "exit_code": 1 if result.left_out else 0,
    }


def _print(result: SpansImported) -> None:
    _say(f"{result.spans:,} spans in {result.traces:,} {'trace' if result.traces == 1 else 'traces'}")
    known = f"{result.unchanged} unchanged, {result.recorded} recorded here"
    _say(f"{len(result.imported)} imported, {len(result.updated)} updated, {known}")
    for words, listed in (("mended", result.mended), ("left out", result.left_out)):
        for trace, reason in listed[:_SHOWN]:
            _say(f"{words} {trace!r}: {reason}", style="yellow")
        if len(listed) > _SHOWN:
            _say(f"and {len(listed) - _SHOWN} more {words}; --json lists them all", style="yellow")
    fresh = [*result.imported, *result.updated]
    if fresh:
        _say(f"next: `goldfork run show {fresh[0]}`, or `goldfork dataset add {fresh[0]} --to datasets/NAME`")


def _say(text: str, *, style: str | None = None) -> None:
    console().print(Text(visible(text), style=style or ""), soft_wrap=True)
