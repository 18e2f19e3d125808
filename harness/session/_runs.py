"""Opening and closing runs, and the plan that a run follows when nobody made one."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.canonical import content_hash
from harness.errors import DatasetMissing, RecordingMissing, StoreOpenError, UsageError
from harness.record import RECORDED, Hash, Recording, Status, StepRecord
from harness.session._answers import RecordedAnswers, Resolver
from harness.session._identity import new_id
from harness.session._state import (
    Frame,
    Mode,
    NullSink,
    PlanBlock,
    RunPlan,
    RunState,
    Sink,
    StepHandle,
    blocks_under_way,
    current,
    current_block,
    entered,
    planned,
)
from harness.store import Store, open_store

if TYPE_CHECKING:
    from harness.settings import Settings

MUTATIONS = "mutations"
"""In a finished run's metadata: what its steps changed that was not theirs, as ``RunState.mutations`` had it."""
_lock = threading.Lock()
_stores: dict[tuple[int, str], Store] = {}
_process: dict[int, PlanBlock] = {}


def _settings() -> Settings:
    # Late, because reading settings needs pydantic-settings, which would double the time of `import harness`.
    from harness.settings import load_settings

    return load_settings()


def process_store(settings: Settings | None = None) -> Store:
    """The store of this process, opened on first use; a forked child opens its own."""
    settings = settings or _settings()
    key = os.getpid(), settings.url
    with _lock:
        if key not in _stores:
            _stores[key] = open_store(settings.url, durability=settings.durability)
            atexit.register(_close, key)
        return _stores[key]


def _close(key: tuple[int, str]) -> None:
    store = _stores.pop(key, None)
    if store is not None and key[0] == os.getpid():
        store.close()


def default_plan(workflow: str) -> RunPlan:
    """The plan that the settings ask for: mode, store and recording.

    Raises:
        UsageError: Replay is asked for and there is no recording to replay.
    """
    settings = _settings()
    mode = Mode(settings.mode)
    if mode is Mode.OFF:
        return RunPlan(mode=mode, sink=NullSink())
    resolver: Resolver | None = None
    if mode in {Mode.REPLAY, Mode.AUTO}:
        found = find_recording(settings.recording or workflow, settings)
        if found is None and mode is Mode.REPLAY:
            raise UsageError(
                f"there is no recording named {settings.recording or workflow!r} to replay; "
                "record one with GOLDFORK_MODE=live, or name another with GOLDFORK_RECORDING"
            )
        resolver = RecordedAnswers(found, errors=mode is Mode.REPLAY) if found else None
    return RunPlan(
        mode=mode,
        sink=_live_sink(settings) if mode is Mode.LIVE else process_store(settings),
        resolver=resolver,
        dry=mode is Mode.REPLAY,
        on_store_error=settings.on_store_error,
    )


def _live_sink(settings: Settings) -> Sink:
    """The process's store; a live call goes on without one where the settings say ``warn``."""
    try:
        return process_store(settings)
    except StoreOpenError as error:
        if settings.on_store_error == "raise":
            raise
        warnings.warn(f"nothing is recorded: {error}", RuntimeWarning, stacklevel=2)
        return NullSink()


def find_recording(
    ref: str, settings: Settings | None = None, *, arm: str = RECORDED, trial: int = 0
) -> Recording | None:
    """Find a recording by case (``path/to/dataset:CASE``), run id, or workflow name (its latest good run).

    Raises:
        DatasetMissing: The reference names a dataset or case that does not exist.
        UsageError: The run was not recorded completely.
    """
    from harness.dataset import GoldenDataset  # pydantic's import is paid only by who names a dataset

    settings = settings or _settings()
    folder, colon, case = ref.rpartition(":")
    if colon:
        path = Path(folder)
        dataset = GoldenDataset.load(path if path.is_dir() else settings.datasets / folder)
        found = dataset.recording(case, arm=arm, trial=trial)
        if found is None:
            raise DatasetMissing(f"case {case!r} of {str(dataset.path)!r} has no recording {arm!r}, trial {trial}")
        return require_wire(found)
    stored = process_store(settings).recording(ref, arm=arm, trial=trial)
    return None if stored is None else require_usable(stored)


def require_wire(recording: Recording) -> Recording:
    """Refuse a run that was imported: its bytes never passed here, so nothing of it answers a call.

    Raises:
        UsageError: It is such a run.
    """
    run = recording.run
    if run.fidelity != "imported":
        return recording
    what, first = f"run {run.id!r} was imported", ""
    if run.case is None:
        first = f"`goldfork dataset add {run.id} --to datasets/NAME`, then "
    raise UsageError(
        f"{what}, so it holds no answers byte for byte and cannot be replayed; make it replayable with {first}"
        "`goldfork dataset rerecord datasets/NAME --imported`, which runs the target afresh"
    )


def require_usable(recording: Recording) -> Recording:
    """Refuse a run that something could not be stored of (it would miss just that), or that was imported.

    Raises:
        UsageError: It is such a run.
    """
    require_wire(recording)
    if not recording.run.usable:
        raise UsageError(
            f"run {recording.run.id!r} could not be recorded completely, so it cannot be replayed; run it again"
        )
    return recording


@contextlib.contextmanager
def recording(ref: str, *, mode: Mode | str = Mode.REPLAY, arm: str = RECORDED, trial: int = 0) -> Iterator[None]:
    """Answer the runs opened in this block from one recording.

    Args:
        ref: A case (``datasets/triage:parcel-late``), a run id, or a workflow's name in the store.
        mode: ``replay`` (a miss is an error) or ``auto`` (a miss is called and recorded).
        arm: Whose calls: the original run's, or a fork's.
        trial: Which repetition.

    Raises:
        UsageError: Nothing is recorded under that name.
    """
    settings = _settings()
    mode = Mode(mode)
    found = find_recording(ref, settings, arm=arm, trial=trial)
    if found is None and mode is Mode.REPLAY:
        raise UsageError(f"there is no recording named {ref!r}; `goldfork run list` shows what the store holds")
    resolver = RecordedAnswers(found, errors=mode is Mode.REPLAY) if found else None
    plan = RunPlan(
        mode=mode,
        sink=process_store(settings) if mode is not Mode.OFF else NullSink(),
        resolver=resolver,
        dry=mode is Mode.REPLAY,
        on_store_error=settings.on_store_error,
        name="" if ":" in ref else ref,
    )
    with planned(plan):
        yield


def start_run(
    workflow: str,
    *,
    input_hash: Hash | None = None,
    input_order: Hash | None = None,
    blobs: Mapping[Hash, bytes] | None = None,
    code_version: str | None = None,
) -> Frame:
    """Open a run under the current plan and return its root frame (not yet entered)."""
    block = current_block()
    plan = block.plan if block else default_plan(workflow)
    if code_version and not plan.code_version:
        plan = replace(plan, code_version=code_version)
    run = RunState(plan, workflow)
    run.record = replace(run.record, input_hash=input_hash, input_order=input_order)
    root = StepRecord(
        id=new_id(),
        run_id=run.id,
        parent_id=None,
        seq=run.next_seq(),
        name=workflow,
        kind="job",
        scope="",
        occurrence=0,
        key=content_hash(workflow.encode()),
        status="running",
        input_hash=input_hash,
        started_at=run.record.started_at,
    )
    if block:
        block.runs.append(run)
    run.emit(run.record, root, blobs=blobs)
    return Frame(run, StepHandle(root), "")


def finish_run(
    frame: Frame,
    *,
    output_hash: Hash | None = None,
    blobs: Mapping[Hash, bytes] | None = None,
    error: BaseException | None = None,
) -> Future[None]:
    """Close the run; the future completes when everything it recorded is committed."""
    run = frame.run
    run.settle()
    ended = run.plan.clock.now()
    failed = error is not None or bool(run.misses)
    text = run.masked_text(_describe(error)) if error is not None else (run.misses[0] if run.misses else None)
    left = isinstance(error, GeneratorExit) and not run.misses
    status: Status = "interrupted" if left else "error" if failed else "ok"
    metadata = {**run.record.metadata, MUTATIONS: run.mutations} if run.mutations else run.record.metadata
    run.record = replace(
        run.record, status=status, ended_at=ended, output_hash=output_hash, error=text, metadata=metadata
    )
    root = replace(
        frame.step.record,
        status=run.record.status,
        output_hash=output_hash,
        error=text,
        duration_ms=(ended - run.record.started_at).total_seconds() * 1000,
    )
    return run.emit(root, run.record, blobs=blobs)


def call_frame(what: str = "the call") -> Frame:
    """The frame of the calling code; outside any workflow, that of the block's or the process's implicit run.

    Raises:
        RecordingMissing: ``what`` happens in a thread that does not know its run, while a run that must not reach
            the world is under way: a replay, a fork or a dry run.
    """
    frame = current()
    if frame is not None:
        return frame
    block = current_block()
    if block is None:
        refuse_lost(what)
        block = _process_block()
    with block.lock:
        if block.implicit is None:
            opened = start_run(block.plan.name or "implicit")
            block.implicit = opened
            block.closing.append(lambda: finish_run(opened).exception())
        return block.implicit


def refuse_lost(what: str) -> None:
    """Stop what would happen behind the back of a replay: a bare thread does not inherit context variables.

    Nothing is stopped where the caller knows its run or its block, or where none is under way.

    Raises:
        RecordingMissing: ``what`` is not known to belong to the replay, fork or dry run that is under way.
    """
    if current() is not None or current_block() is not None:
        return
    for block in blocks_under_way():
        if block.plan.dry or block.plan.mode in {Mode.REPLAY, Mode.AUTO}:
            text = (
                f"{what} is called in a thread that does not know its run, while a replay, a fork or a dry run is "
                "under way; hand the thread its function as harness.carry(function)"
            )
            if block.runs:
                block.runs[-1].misses.append(text)
            raise RecordingMissing(text)


def _process_block() -> PlanBlock:
    """One implicit run per process, closed when it exits; a forked child gets its own."""
    with _lock:
        known = _process.get(os.getpid())
    if known is not None:
        return known
    made = PlanBlock(default_plan("implicit"))
    with _lock:
        block = _process.setdefault(os.getpid(), made)
    if block is made:
        atexit.register(_finish_process, os.getpid())
    return block


def _finish_process(pid: int) -> None:
    block = _process.pop(pid, None)
    if block is not None and pid == os.getpid():
        for close in block.closing:
            close()


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


__all__ = [
    "MUTATIONS",
    "Sink",
    "call_frame",
    "default_plan",
    "entered",
    "find_recording",
    "finish_run",
    "process_store",
    "recording",
    "refuse_lost",
    "require_usable",
    "require_wire",
    "start_run",
]
