"""What a call needs to know: its run, its step, the mode, and where answers come from."""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Protocol

from harness.errors import StoreError
from harness.record import RECORDED, Hash, MessageRecord, Record, RunRecord, StepRecord, VolatileRecord
from harness.session._answers import Resolver
from harness.session._change import Change
from harness.session._clock import Clock, SystemClock
from harness.session._identity import lane, new_id, process_owner
from harness.session._prompts import FetchedPrompt
from harness.session._secrets import masked


class Mode(StrEnum):
    """Whether a call may be answered from a recording, by the provider, or both."""

    LIVE = "live"
    REPLAY = "replay"
    AUTO = "auto"
    OFF = "off"


class Sink(Protocol):
    """Where records go; the store's writer is one."""

    def write(self, *records: Record, blobs: Mapping[Hash, bytes] | None = None) -> Future[None]:
        """Queue records and content for one transaction; the future completes after its commit.

        A record with a known id replaces the earlier one. ``blobs`` holds request bodies, response bodies and
        snapshots by hash; the sink may drop those it has.
        """
        ...


class NullSink:
    """Keeps nothing; for ``off`` and for pure in-memory replays."""

    def write(self, *records: Record, blobs: Mapping[Hash, bytes] | None = None) -> Future[None]:
        """Accept and forget."""
        del records, blobs
        done: Future[None] = Future()
        done.set_result(None)
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """How the next run is to be executed; made by replay, experiments and the process defaults."""

    mode: Mode
    sink: Sink
    resolver: Resolver | None = None
    arm: str = RECORDED
    trial: int = 0
    case: str | None = None
    experiment: str | None = None
    parent_run_id: str | None = None
    change: Change | None = None
    inherited: tuple[Change, ...] = ()
    """In a fork of a fork, what its parents changed, oldest first; it holds there too."""
    code_version: str | None = None
    dry: bool = False
    """Tools with side effects are not executed (replay, fork, experiments)."""
    allow_side_effects: bool = False
    """In a fork, tools with side effects are executed all the same, once each; the other tools are as in any fork."""
    on_store_error: Literal["warn", "raise"] = "warn"
    name: str = ""
    """Workflow name of calls made outside any workflow; ``implicit`` when empty."""
    keep: bool = False
    """Keep finished records in memory on the ``RunState``, for whoever planned the run."""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)

    @property
    def changes(self) -> tuple[Change, ...]:
        """All that is changed against the code as written, oldest first, so that the last one holds."""
        return self.inherited if self.change is None else (*self.inherited, self.change)


class RunState:
    """A run in progress. Thread-safe; shared by every task and thread of the run."""

    def __init__(self, plan: RunPlan, workflow: str) -> None:
        self.plan = plan
        self.record = RunRecord(
            id=new_id(),
            workflow=workflow,
            status="running",
            mode=plan.mode.value,
            arm=plan.arm,
            trial=plan.trial,
            case=plan.case,
            experiment=plan.experiment,
            owner=process_owner(),
            started_at=plan.clock.now(),
            tags=plan.tags,
            metadata=dict(plan.metadata),
            parent_run_id=plan.parent_run_id,
            fork_step=plan.change.at if plan.change else None,
            change=plan.change.as_dict() if plan.change else None,
            code_version=plan.code_version,
        )
        self.steps: list[StepRecord] = []
        self.messages: list[MessageRecord] = []
        self.volatile: list[VolatileRecord] = []
        """Declared values so far, always kept: request keys replace them by placeholders."""
        self.blobs: dict[Hash, bytes] = {}
        self.secrets: frozenset[bytes] = frozenset()
        """Credentials that calls of this run carried, in every form a reply may echo; never written anywhere."""
        self.misses: list[str] = []
        """Why answers were missing; a run with misses failed, whatever the application caught."""
        self.blocked: list[dict[str, Any]] = []
        """Side effects kept dry: tool, step, arguments, and what answered."""
        self.mutations: list[dict[str, Any]] = []
        """What bodies changed that was not theirs: step, argument, path, and the hashes before and after."""
        self.beside: set[str] = set()
        """Ids of steps started in another thread or task than the step around them: their order is nobody's choice."""
        self.applied = False
        """Whether the plan's change has taken effect anywhere in the run."""
        self._prompts: dict[str, FetchedPrompt] = {}
        self._at_end: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._lock = threading.Lock()
        self._seq = 0
        self._places: dict[str, int] = {}
        self._counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._store_failed = False

    def apply(self, change: Change) -> None:
        """Note that a change has taken effect; only the run's own one counts."""
        if change is self.plan.change:
            self.applied = True

    @property
    def id(self) -> str:
        """The run's id, a time-ordered UUID."""
        return self.record.id

    def next_seq(self) -> int:
        """The next number of the run's single sequence of steps and messages."""
        with self._lock:
            self._seq += 1
            return self._seq - 1

    def occurrence(self, kind: str, scope: str, key: str, *, count: int = 1) -> int:
        """How many of this kind and key started before in this scope; call it when the call starts."""
        with self._lock:
            before = self._counts[kind, scope, key]
            self._counts[kind, scope, key] = before + count
            return before

    def prompt(self, name: str) -> FetchedPrompt | None:
        """The text that a sourced prompt has in this run; ``None`` before its first use."""
        return self._prompts.get(name)

    def freeze_prompt(self, name: str, fetched: FetchedPrompt) -> FetchedPrompt:
        """Settle a sourced prompt's text for this run and record it; the first one holds, whoever comes next."""
        with self._lock:
            first = name not in self._prompts
            held = self._prompts.setdefault(name, fetched)
        if first:
            self.emit(
                VolatileRecord(
                    run_id=self.id,
                    scope="",
                    name=f"prompt-source:{name}",
                    occurrence=0,
                    value=fetched.recorded(),
                )
            )
        return held

    def at_end(self, settle: Callable[[], None]) -> None:
        """Have a bound method called before the run is closed, unless it is taken back or its object is gone."""
        with self._lock:
            self._at_end.append(weakref.WeakMethod(settle))

    def not_at_end(self, settle: Callable[[], None]) -> None:
        """Take back what ``at_end`` asked for."""
        with self._lock:
            self._at_end = [known for known in self._at_end if known() not in {None, settle}]

    def settle(self) -> None:
        """Let what is still open note that the run ends."""
        if not self._at_end:
            return
        # An SDK's stream is part of a cycle: only a collection tells one that was left from one that is still read.
        gc.collect()
        for known in tuple(self._at_end):
            call = known()
            if call is not None:
                call()

    def keep_secret(self, forms: Iterable[bytes]) -> None:
        """Star these bytes out of every snapshot and error text of the run from now on."""
        new = self.secrets.union(forms)
        if new != self.secrets:
            with self._lock:
                self.secrets = self.secrets | new

    def annotate(self, tags: Iterable[str], metadata: Mapping[str, Any]) -> None:
        """Add tags and metadata to the run's record; they are stored when it ends."""
        with self._lock:
            known = dict.fromkeys((*self.record.tags, *tags))
            self.record = replace(self.record, tags=tuple(known), metadata={**self.record.metadata, **metadata})

    def masked(self, data: bytes) -> bytes:
        """The bytes with the credentials of the run and of the process starred out, lengths unchanged."""
        return masked(data, self.secrets)

    def masked_text(self, text: str) -> str:
        """The text with the run's credentials starred out."""
        return self.masked(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def emit(self, *records: Record, blobs: Mapping[Hash, bytes] | None = None) -> Future[None]:
        """Hand records to the sink; with ``keep``, finished ones stay here as well."""
        self._keep(records, blobs)
        future = self.plan.sink.write(*records, blobs=blobs)
        future.add_done_callback(self._notice)
        return future

    def deliver(self, future: Future[None], *, reply: Any = None) -> None:
        """Wait for a commit before a reply is handed on.

        Raises:
            StoreError: The commit failed and the plan says ``raise``; it carries ``reply``.
        """
        error = future.exception()
        if error is not None and self.plan.on_store_error == "raise":
            raise StoreError(f"run {self.id}: the reply could not be stored: {error}", reply=reply) from error

    def _keep(self, records: tuple[Record, ...], blobs: Mapping[Hash, bytes] | None) -> None:
        with self._lock:
            self.volatile.extend(record for record in records if isinstance(record, VolatileRecord))
            if not self.plan.keep:
                return
            self.blobs.update(blobs or {})
            for record in records:
                if isinstance(record, StepRecord) and record.status != "running":
                    self.steps.append(record)
                elif isinstance(record, MessageRecord) and record.status != "running":
                    # A retried attempt writes its message again: the newest record stands in the first one's place.
                    place = self._places.setdefault(record.id, len(self.messages))
                    self.messages[place : place + 1] = [record]

    def _notice(self, future: Future[None]) -> None:
        error = future.exception()
        if error is None:
            return
        with self._lock:
            first, self._store_failed = not self._store_failed, True
            self.record = replace(self.record, usable=False)
        if first and self.plan.on_store_error == "warn":
            message = (
                f"run {self.id} cannot be recorded ({error}); it goes on, but will not serve as a recording. "
                "Run `goldfork store check`, or set GOLDFORK_ON_STORE_ERROR=raise to stop instead."
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)


@dataclass(slots=True, eq=False)
class StepHandle:
    """A step in progress."""

    record: StepRecord
    prompt: tuple[str, str] | None = None
    """(name, version) of the last prompt rendered in this step, linked to its messages."""
    annotated: bool = False
    """The body said something about the run, which its output does not repeat: it is never skipped."""
    lane: tuple[int, int] = field(default_factory=lane)
    """Thread and task that it was started in."""


@dataclass(slots=True, eq=False)
class PlanBlock:
    """A ``planned`` block: its plan, the runs opened in it, and what to close at its end."""

    plan: RunPlan
    runs: list[RunState] = field(default_factory=list)
    implicit: Frame | None = None
    """The run of calls made outside any workflow."""
    closing: list[Callable[[], object]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the current code runs; carried by a context variable through tasks and generators."""

    run: RunState
    step: StepHandle
    scope: str
    """Path of the enclosing steps, this one included; empty at the root."""
    outer: Frame | None = None
    """Of the step around this one; ``None`` at the root."""

    def within(self, change: Change, *, call: int = 0) -> bool:
        """Whether the change addresses this step or one around it. Tools are no fork steps, but lie in them.

        Args:
            change: The change.
            call: Number of the model call in this very step, for a change that addresses one of them.
        """
        if change.message is not None:
            own = self.step.record
            same = own.kind != "tool" and change.addresses(own.scope, own.name, own.occurrence)
            return same and call == change.message
        frame: Frame | None = self
        while frame is not None:
            step = frame.step.record
            if step.kind != "tool" and change.addresses(step.scope, step.name, step.occurrence):
                return True
            frame = frame.outer
        return False


_frame: ContextVar[Frame | None] = ContextVar("goldfork_frame", default=None)
_block: ContextVar[PlanBlock | None] = ContextVar("goldfork_plan", default=None)
_under_way: list[PlanBlock] = []


def current() -> Frame | None:
    """The frame of the calling code, or ``None`` outside any run."""
    return _frame.get()


@contextlib.contextmanager
def entered(frame: Frame) -> Iterator[Frame]:
    """Make ``frame`` current for a block."""
    token = _frame.set(frame)
    try:
        yield frame
    finally:
        _frame.reset(token)


@contextlib.contextmanager
def planned(plan: RunPlan) -> Iterator[list[RunState]]:
    """Runs opened in the block (and in tasks it starts) follow ``plan``; yields the list of them.

    The enclosing run, if any, is left for the block: an evaluator or a replay is not a step of it.
    """
    block = PlanBlock(plan)
    tokens = _block.set(block), _frame.set(None)
    _under_way.append(block)
    try:
        yield block.runs
    finally:
        _under_way.remove(block)
        _frame.reset(tokens[1])
        _block.reset(tokens[0])
        for close in block.closing:
            close()


def current_block() -> PlanBlock | None:
    """The innermost ``planned`` block, if any."""
    return _block.get()


def blocks_under_way() -> list[PlanBlock]:
    """The ``planned`` blocks of this process that have not ended, oldest first."""
    return list(_under_way)


@contextlib.contextmanager
def branch(name: object) -> Iterator[None]:
    """Give one of several parallel, otherwise equal, pieces of work a scope of its own.

    Identical calls in different branches are then told apart by branch instead of by arrival::

        with harness.branch(i):
            client.chat.completions.create(...)
    """
    frame = _frame.get()
    if frame is None:
        yield
        return
    label = f"[{name}]"
    scope = f"{frame.scope}/{label}" if frame.scope else label
    with entered(replace(frame, scope=scope)):
        yield
