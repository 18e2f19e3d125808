"""``goldfork import``: bring runs in that were watched elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from harness.cli._app import JsonOption, app, console, print_json, visible
from harness.errors import UsageError
from harness.session import process_store

if TYPE_CHECKING:
    from harness.mirror import Imported

import_app = typer.Typer(help="Bring runs in that were watched elsewhere.", no_args_is_help=True)
app.add_typer(import_app, name="import")

_SHOWN = 20


@import_app.command("langfuse")
def langfuse(
    *,
    since: Annotated[str, typer.Option(help="Traces that began at or after this time: 2026-11-01, or ISO with zone.")],
    until: Annotated[str, typer.Option(help="… and before this time; by default now.")] = "",
    filter_: Annotated[
        list[str] | None,
        typer.Option("--filter", help="environment=, tag=, name=, user= or session=; all that are given must hold."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many new or changed runs.")] = None,
    json: JsonOption = False,
) -> None:
    """Import traces of a Langfuse project as runs, newest first.

    Which project: LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL. Imported runs can be looked at and
    become cases; replay refuses them until `goldfork dataset rerecord` has run their target afresh. What this store
    recorded itself is never overwritten.

    A killed import goes on where it stopped when it is started again with the same options. Times without a zone are
    UTC. Exit code 1 when a trace had to be left out; the reasons are listed.

    Example: goldfork import langfuse --since 2026-11-01 --filter environment=production --filter tag=vip
    """
    from harness.mirror import Project, Window, import_runs

    window = Window(
        since=_moment(since, "--since"),
        until=_moment(until, "--until") if until else datetime.now(UTC),
        filters=tuple(_pair(text) for text in filter_ or ()),
    )
    stderr = console(json=True)
    with stderr.status("importing") as status:

        def show(result: Imported) -> None:
            done = len(result.imported) + len(result.updated)
            status.update(f"importing: {done} new or changed, {result.unchanged + result.recorded} known")

        result = import_runs(
            process_store(),
            Project.from_environment(),
            window,
            until_given=bool(until),
            limit=limit,
            progress=show,
        )
    if json:
        print_json(_as_json(result))
    else:
        _print(result)
    if result.left_out:
        raise typer.Exit(1)


def _as_json(result: Imported) -> dict[str, Any]:
    return {
        "since": result.window.since.isoformat(),
        "until": result.window.until.isoformat(),
        "resumed": result.resumed,
        "finished": result.finished,
        "imported": len(result.imported),
        "updated": len(result.updated),
        "unchanged": result.unchanged,
        "recorded": result.recorded,
        "left_out": [{"trace": trace, "reason": reason} for trace, reason in result.left_out],
        "runs": [*result.imported, *result.updated],
        "exit_code": 1 if result.left_out else 0,
    }


def _print(result: Imported) -> None:
    _say(f"{'resumed, ' if result.resumed else ''}window {result.window.since:%Y-%m-%d %H:%M} to "
         f"{result.window.until:%Y-%m-%d %H:%M} UTC")  # fmt: skip
    known = f"{result.unchanged} unchanged, {result.recorded} recorded here"
    _say(f"{len(result.imported)} imported, {len(result.updated)} updated, {known}")
    for trace, reason in result.left_out[:_SHOWN]:
        _say(f"left out {trace!r}: {reason}", style="yellow")
    if len(result.left_out) > _SHOWN:
        _say(f"and {len(result.left_out) - _SHOWN} more left out; --json lists them all", style="yellow")
    if not result.finished:
        _say("the limit was reached; the same command goes on from here")
    fresh = [*result.imported, *result.updated]
    if fresh:
        _say(f"next: `goldfork run show {fresh[0]}`, or `goldfork dataset add {fresh[0]} --to datasets/NAME`")


def _say(text: str, *, style: str | None = None) -> None:
    console().print(Text(visible(text), style=style or ""), soft_wrap=True)


def _moment(text: str, option: str) -> datetime:
    """An ISO date or time; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {text!r} is no time; write 2026-11-01 or 2026-11-01T08:30:00+01:00") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise UsageError(f"--filter {text!r} is not of the form NAME=VALUE, as in environment=production")
    return name.strip(), value
