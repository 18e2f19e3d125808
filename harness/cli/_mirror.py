"""``goldfork mirror``: copy the store into Langfuse, and see how far the copy is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli._app import JsonOption, app, console, print_json, visible
from harness.cli._mirror_lanes import opened, opened_lanes, opened_sender, project_if_any, run_all, say, stopping

if TYPE_CHECKING:
    from rich.console import Console

    from harness.mirror import Project
    from harness.store import OutboxEntry, Store

mirror_app = typer.Typer(
    help=(
        "The one-way copy of the store into Langfuse. The store is the truth: nothing is lost while Langfuse is down, "
        "and `backfill` rebuilds it. Reads LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL; with "
        "OTEL_EXPORTER_OTLP_ENDPOINT set, `run` and `flush` send the runs to that collector as well, or to it alone."
    ),
    no_args_is_help=True,
)
app.add_typer(mirror_app, name="mirror")

_EXPORT_SECONDS = 60.0
"""How long `run --once` gives the OpenTelemetry lane."""
_LEAST_SECONDS = 0.1

_SHOWN = 50
_NICE = 10


@mirror_app.command("run")
def run(
    *,
    once: Annotated[bool, typer.Option("--once", help="Send what is due, and end.")] = False,
    upload_media: Annotated[
        bool, typer.Option("--upload-media", help="Upload images and files; without it a note stands in their place.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Send finished runs and scores to Langfuse until stopped, and read back that they arrived.

    Runs beside your pipeline as a process of its own (a service, a sidecar, a terminal). Several may be started: one
    sends, the others say so and wait for its lease. SIGTERM and Ctrl-C end it cleanly, with exit code 0; a kill loses
    nothing. With `--once`, exit code 1 when something could not be sent now: another sender has the lane, or the server
    does not take it.

    Example: goldfork mirror run
    """
    stop, out, done = threading.Event(), console(json=True), True
    with opened_lanes(stop, upload_media=upload_media) as lanes:
        if once:
            done = lanes.sender.catch_up() if lanes.sender else True
            if lanes.export:
                done = lanes.export.flush(_EXPORT_SECONDS) and done
        else:
            for host in lanes.hosts:
                out.print(f"sending to {host} as process {os.getpid()}; Ctrl-C ends", markup=False)
            if hasattr(os, "nice"):
                # Where cores are few, the pipeline goes first.
                os.nice(_NICE)
            with stopping(stop):
                run_all(lanes, stop)
        _report(lanes.store, lanes.project, json=json)
    if not done:
        raise typer.Exit(1)


@mirror_app.command("status")
def status(*, json: JsonOption = False) -> None:
    """Show what waits, what is accepted but not seen yet, what is verified, and what was refused for good.

    Works without keys; with them it also says which project it is, who sends, and whether the lane is paused.

    Example: goldfork mirror status --json
    """
    with opened(reading=True) as store:
        _report(store, project_if_any(), json=json)


@mirror_app.command("flush")
def flush(
    *,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds after which it gives up.")] = 60.0,
    json: JsonOption = False,
) -> None:
    """Send and verify until nothing is left or the time is up; says how much is left, with exit code 1.

    Ends sooner when nothing can be sent before that: the keys are refused, or the server asks for a longer pause.
    For the end of a job. What is left stays in the store for the next sender. Where another sender has the lane, that
    one does the work: this one names it and waits for it, as long as there is time.

    Example: goldfork mirror flush --timeout 30
    """
    began = time.monotonic()
    with opened_lanes(threading.Event()) as lanes:
        done = lanes.sender.flush(timeout) if lanes.sender else True
        if lanes.export:
            done = lanes.export.flush(max(_LEAST_SECONDS, began + timeout - time.monotonic())) and done
        left = lanes.left
        _report(lanes.store, lanes.project, json=json, more={"left": left})
    if not done:
        say(
            f"after {time.monotonic() - began:.0f} s {left} {'is' if left == 1 else 'are'} left, not sent or not seen "
            "yet: kept in the store for `goldfork mirror run` or the next flush"
        )
        raise typer.Exit(1)


@mirror_app.command("verify")
def verify(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Look for what was verified before, too; what has gone is sent again.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Read back from Langfuse now whether what it accepted is there, once.

    Exit code 0 when all of it is there, 1 when something is missing, doubled or at another time (it is sent again or
    repaired by `goldfork mirror run`), 2 when Langfuse rejects the keys or does not answer.

    Example: goldfork mirror verify --all
    """
    from harness.mirror import Unanswered

    with opened_sender(threading.Event()) as (store, sender):
        found = unanswered = None
        try:
            found = sender.verify(everything=everything)
        except Unanswered as error:
            unanswered = error
        told = {
            "looked": found.looked if found else None,
            "seen": found.verified if found else None,
            "missing": found.resent if found else None,
            "repaired": found.repaired if found else None,
            "error": str(unanswered) if unanswered else None,
        }
        if found:
            say(f"looked at {found.looked}, seen {found.verified}, missing {found.resent}")
        _report(store, sender.project, json=json, more=told)
    if unanswered:
        raise unanswered
    if found and found.verified < found.looked:
        raise typer.Exit(1)


@mirror_app.command("backfill")
def backfill(
    *,
    again: Annotated[
        bool, typer.Option("--again", help="Enter what was sent before, too: for a new or emptied Langfuse.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Enter every finished run and every score of the store; `goldfork mirror run` sends them.

    Twice never doubles anything: ids and bytes are the same each time. A store is mirrored to one project; after
    `--again` the next sender may be one for another.

    Example: goldfork mirror backfill --again
    """
    from harness.mirror import backfill as enter_all

    with opened() as store:
        entered = enter_all(store, again=again)
    if json:
        print_json({"entered": entered})
        return
    console().print(f"{entered} entered; `goldfork mirror run` or `goldfork mirror flush` sends them")


@mirror_app.command("dead")
def dead(
    *,
    retry: Annotated[str, typer.Option(help="Send this one again: an id from the list, or a run's.")] = "",
    json: JsonOption = False,
) -> None:
    """List what Langfuse or a collector refused for good, with its words; the rest of each run went through.

    Example: goldfork mirror dead --retry 0198c0de-…/9f2ab43c11d0e877
    """
    from harness.mirror import dead as dead_entries
    from harness.mirror import retry as revive

    out = console()
    with opened(reading=not retry) as store:
        if retry:
            made = revive(store, retry, each=_print_dead if json else None)
            if not json:
                out.print(f"{made} will be sent again")
            return
        shown = 0
        for shown, entry in enumerate(dead_entries(store), start=1):
            if json:
                _print_dead(entry)
            elif shown > _SHOWN:
                out.print("… and more; --json shows all")
                break
            else:
                told = f"{entry.kind} {entry.id}: {entry.error or 'no reason given'}"
                out.print(visible(told), markup=False, soft_wrap=True)
        if not shown and not json:
            out.print("Nothing was refused.")


def _print_dead(entry: OutboxEntry) -> None:
    print_json(
        {
            "kind": entry.kind,
            "id": entry.id,
            "attempts": entry.attempts,
            "error": entry.error,
            "created_at": entry.created_at.isoformat(),
        }
    )


def _report(store: Store, project: Project | None, *, json: bool, more: Mapping[str, Any] | None = None) -> None:
    from harness.mirror import status as state_of

    state = {**state_of(store, project), **(more or {})}
    if json:
        print_json(state)
        return
    out = console()
    counts = ", ".join(f"{state[name]} {name}" for name in ("pending", "accepted", "verified", "dead"))
    age = state["oldest_unverified_s"]
    out.print(counts if age is None else f"{counts}; the oldest unverified has waited {age:.0f} s")
    _print_lane(out, state)
    if (collector := state["otel"]) is not None:
        counts = ", ".join(f"{collector[name]} {name}" for name in ("pending", "verified", "dead"))
        out.print(f"to the collector: {counts}")
        _print_lane(out, collector)
    if state["dead"] or (collector and collector["dead"]):
        out.print("`goldfork mirror dead` shows what was refused")


def _print_lane(out: Console, state: Mapping[str, Any]) -> None:
    if state["lane"]:
        out.print(f"sender: {state['lane']['owner']}", markup=False)
    if state["paused"]:
        out.print(visible(f"paused: {state['paused']}"), style="red", markup=False, soft_wrap=True)
    if state["trouble"]:
        out.print(visible(f"trouble: {state['trouble']}"), style="yellow", markup=False, soft_wrap=True)
