"""``goldfork mirror``: copy the store into Langfuse, and see how far the copy is."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli._app import JsonOption, app, console, print_json, visible
from harness.errors import UsageError
from harness.settings import load_settings
from harness.store import Store, open_store

if TYPE_CHECKING:
    from harness.mirror import OtelLane, Project, Sender
    from harness.store import OutboxEntry

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
_GC_ALLOCATIONS = 100_000

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
    sends, the others wait for its lease. SIGTERM and Ctrl-C end it cleanly; a kill loses nothing.

    Example: goldfork mirror run
    """
    stop, out = threading.Event(), console(json=True)
    with _lanes(stop, upload_media=upload_media) as lanes:
        if once:
            if lanes.sender:
                _rounds(lanes.sender)
            if lanes.export:
                lanes.export.flush(_EXPORT_SECONDS)
        else:
            for host in lanes.hosts:
                out.print(f"sending to {host} as process {os.getpid()}; Ctrl-C ends", markup=False)
            if hasattr(os, "nice"):
                # Where cores are few, the pipeline goes first.
                os.nice(_NICE)
            with _stopping(stop):
                _run_all(lanes, stop)
        _report(lanes.store, lanes.project, json=json)


@mirror_app.command("status")
def status(*, json: JsonOption = False) -> None:
    """Show what waits, what is accepted but not seen yet, what is verified, and what was refused for good.

    Works without keys; with them it also says which project it is, who sends, and whether the lane is paused.

    Example: goldfork mirror status --json
    """
    with _opened() as store:
        _report(store, _project_if_any(), json=json)


@mirror_app.command("flush")
def flush(
    *,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds after which it gives up.")] = 60.0,
    json: JsonOption = False,
) -> None:
    """Send and verify until nothing is left or the time is up; says what is left, with exit code 1.

    For the end of a job. What is left stays in the store for the next sender.

    Example: goldfork mirror flush --timeout 30
    """
    end = time.monotonic() + timeout
    with _lanes(threading.Event()) as lanes:
        done = lanes.sender.flush(timeout) if lanes.sender else True
        if lanes.export:
            done = lanes.export.flush(max(_LEAST_SECONDS, end - time.monotonic())) and done
        _report(lanes.store, lanes.project, json=json)
    if not done:
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

    Example: goldfork mirror verify --all
    """
    with _sender(threading.Event()) as (store, sender):
        found = sender.verify(everything=everything)
        if not json:
            console(json=True).print(f"looked at {found.looked}, seen {found.verified}, missing {found.resent}")
        _report(store, sender.project, json=json)


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

    with _opened() as store:
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
    """List what Langfuse refused for good, with its words; the rest of each run went through.

    Example: goldfork mirror dead --retry 0198c0de-…/9f2ab43c11d0e877
    """
    from harness.mirror import dead as dead_entries
    from harness.mirror import retry as revive

    with _opened() as store:
        entries = revive(store, retry) if retry else dead_entries(store)
    if json:
        for entry in entries:
            print_json(_dead_row(entry))
        return
    out = console()
    if retry:
        out.print(f"{len(entries)} will be sent again")
        return
    if not entries:
        out.print("Nothing was refused.")
    for entry in entries[:_SHOWN]:
        out.print(visible(f"{entry.kind} {entry.id}: {entry.error or 'no reason given'}"), markup=False, soft_wrap=True)
    if len(entries) > _SHOWN:
        out.print(f"… and {len(entries) - _SHOWN} more; --json shows all")


def _dead_row(entry: OutboxEntry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "id": entry.id,
        "attempts": entry.attempts,
        "error": entry.error,
        "created_at": entry.created_at.isoformat(),
    }


def _rounds(sender: Sender) -> None:
    """Round after round while there is something due and the lane is open."""
    while not (progress := sender.run_once()).wait:
        pass
    if not progress.held:
        console(json=True).print("another sender has the lane; it does the work")


def _report(store: Store, project: Project | None, *, json: bool) -> None:
    from harness.mirror import status as state_of

    state = state_of(store, project)
    if json:
        print_json(state)
        return
    out = console()
    counts = ", ".join(f"{state[name]} {name}" for name in ("pending", "accepted", "verified", "dead"))
    age = state["oldest_unverified_s"]
    out.print(counts if age is None else f"{counts}; the oldest unverified has waited {age:.0f} s")
    if state["lane"]:
        out.print(f"sender: {state['lane']['owner']}", markup=False)
    if state["paused"]:
        out.print(visible(f"paused: {state['paused']}"), style="red", markup=False, soft_wrap=True)
    if state["trouble"]:
        out.print(visible(f"trouble: {state['trouble']}"), style="yellow", markup=False, soft_wrap=True)
    if state["dead"]:
        out.print("`goldfork mirror dead` shows what was refused")


@contextlib.contextmanager
def _opened() -> Iterator[Store]:
    settings = load_settings()
    with open_store(settings.url, durability=settings.durability) as store:
        yield store


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lanes:
    """Where this process sends to: Langfuse, an OpenTelemetry collector, or both."""

    store: Store
    sender: Sender | None
    export: OtelLane | None

    @property
    def project(self) -> Project | None:
        """The Langfuse project, if any."""
        return self.sender.project if self.sender else None

    @property
    def hosts(self) -> list[str]:
        """Whereto, for people."""
        named = [self.sender.project.host] if self.sender else []
        return [*named, self.export.settings.host] if self.export else named


@contextlib.contextmanager
def _lanes(stop: threading.Event, *, upload_media: bool = False) -> Iterator[_Lanes]:
    from harness.mirror import OtelLane, OtelSettings

    # Rendering makes many short-lived objects and no cycles: looking for cycles takes a fifth of its time.
    gc.set_threshold(_GC_ALLOCATIONS)
    asked = OtelSettings.from_environment()
    if asked and asked.skipped:
        console(json=True).print(visible(asked.skipped), markup=False, soft_wrap=True)
        asked = None
    with contextlib.ExitStack() as stack:
        if asked and _project_if_any() is None:
            store, sender = stack.enter_context(_opened()), None
        else:
            store, sender = stack.enter_context(_sender(stop, upload_media=upload_media))
        export = OtelLane(store, asked, sleep=lambda seconds: _wait(stop, seconds)) if asked else None
        if export:
            stack.callback(export.close)
        yield _Lanes(store=store, sender=sender, export=export)


def _run_all(lanes: _Lanes, stop: threading.Event) -> None:
    """Both lanes until told to stop, each in its own thread: a slow collector never delays Langfuse."""
    beside = threading.Thread(target=lanes.export.run, args=(stop,)) if lanes.export and lanes.sender else None
    if beside:
        beside.start()
    try:
        if lanes.sender:
            lanes.sender.run(stop)
        elif lanes.export:
            lanes.export.run(stop)
    finally:
        stop.set()
        if beside:
            beside.join()


@contextlib.contextmanager
def _sender(stop: threading.Event, *, upload_media: bool = False) -> Iterator[tuple[Store, Sender]]:
    from harness.mirror import Project, Sender

    project = Project.from_environment()
    with _opened() as store:
        sender = Sender(
            store,
            project,
            sleep=lambda seconds: _wait(stop, seconds),
            run_url=load_settings().run_url,
            upload_media=upload_media,
        )
        try:
            yield store, sender
        finally:
            sender.close()


def _wait(stop: threading.Event, seconds: float) -> None:
    stop.wait(seconds)


def _project_if_any() -> Project | None:
    from harness.mirror import Project

    try:
        return Project.from_environment()
    except UsageError:
        return None


@contextlib.contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the round that runs, then the sender."""
    before = {name: signal.signal(name, lambda *_: stop.set()) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
