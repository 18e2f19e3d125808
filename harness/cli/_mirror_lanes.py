"""What the mirror's commands open: the store, a lane to Langfuse, one to a collector, and how they are told to end."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.cli._app import console, visible
from harness.errors import GoldforkError, GoldforkStop, StoreOpenError, UsageError
from harness.settings import load_settings
from harness.store import Store, open_store

if TYPE_CHECKING:
    from harness.mirror import OtelLane, Project, Sender

_GC_ALLOCATIONS = 100_000


def say(words: str) -> None:
    """One line for people, whatever stdout is for."""
    console(json=True).print(visible(words), markup=False, soft_wrap=True)


@contextlib.contextmanager
def opened(*, reading: bool = False) -> Iterator[Store]:
    """The store of the settings; for ``reading`` only, one that cannot be written will do."""
    settings = load_settings()
    try:
        store = open_store(settings.url, durability=settings.durability)
    except StoreOpenError:
        if not reading:
            raise
        store = open_store(settings.url, read_only=True)
    with store:
        yield store


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
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

    @property
    def left(self) -> int:
        """How much is not sent, or not seen yet."""
        return sum(worker.left for worker in (self.sender, self.export) if worker)


@contextlib.contextmanager
def opened_lanes(stop: threading.Event, *, upload_media: bool = False) -> Iterator[Lanes]:
    """The store and the lanes that the environment's variables ask for; waits end when ``stop`` is set."""
    from harness.mirror import OtelLane, OtelSettings

    # Rendering makes many short-lived objects and no cycles: looking for cycles takes a fifth of its time.
    gc.set_threshold(_GC_ALLOCATIONS)
    asked = OtelSettings.from_environment()
    if asked and asked.skipped:
        say(asked.skipped)
        asked = None
    with contextlib.ExitStack() as stack:
        if asked and project_if_any() is None:
            store, sender = stack.enter_context(opened()), None
        else:
            store, sender = stack.enter_context(opened_sender(stop, upload_media=upload_media))
        export = OtelLane(store, asked, sleep=lambda seconds: _wait(stop, seconds), say=say) if asked else None
        if export:
            stack.callback(export.close)
        yield Lanes(store=store, sender=sender, export=export)


def run_all(lanes: Lanes, stop: threading.Event) -> None:
    """Both lanes until told to stop, each in its own thread: a slow collector never delays Langfuse."""
    failed: list[BaseException] = []

    def export(lane: OtelLane) -> None:
        try:
            lane.run(stop)
        except (GoldforkError, GoldforkStop) as error:
            failed.append(error)
            stop.set()

    beside = threading.Thread(target=export, args=(lanes.export,)) if lanes.export and lanes.sender else None
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
    if failed:
        raise failed[0]


@contextlib.contextmanager
def opened_sender(stop: threading.Event, *, upload_media: bool = False) -> Iterator[tuple[Store, Sender]]:
    """The store and a sender to Langfuse; its waits end when ``stop`` is set."""
    from harness.mirror import Project, Sender

    project = Project.from_environment()
    with opened() as store:
        sender = Sender(
            store,
            project,
            sleep=lambda seconds: _wait(stop, seconds),
            run_url=load_settings().run_url,
            upload_media=upload_media,
            say=say,
        )
        try:
            yield store, sender
        finally:
            sender.close()


def _wait(stop: threading.Event, seconds: float) -> None:
    stop.wait(seconds)


def project_if_any() -> Project | None:
    """The Langfuse project of the environment; ``None`` without keys."""
    from harness.mirror import Project

    try:
        return Project.from_environment()
    except UsageError:
        return None


@contextlib.contextmanager
def stopping(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the round that runs, then the sender; asked twice, it ends at once."""

    def asked(number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        if number == signal.SIGINT:
            # A signal may come in the middle of anybody's print.
            os.write(2, b"ending after the request under way; Ctrl-C again ends at once\n")

    before = {name: signal.signal(name, asked) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
