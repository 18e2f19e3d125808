"""Running a pipeline again: live, from a recording, or forked from one."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
import warnings
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from harness.errors import ChangeError, GoldforkStop, TargetError, UsageError
from harness.pipeline import code_of, plain, registered, workflow
from harness.record import RECORDED, Recording
from harness.replay._addressed import require_addressed, require_applied
from harness.replay._arguments import arguments, recorded_input
from harness.replay._counts import count
from harness.replay._diff import compare, drift, settled
from harness.replay._jitter import jitter
from harness.replay._null import NullAnswers, NullReplay, look
from harness.replay._resolver import ForkAnswers
from harness.replay._stale import Expired, expired_calls, expired_report, refresh_change, refreshed_calls
from harness.replay._values import RunOutcome
from harness.session import (
    Change,
    Clock,
    Mode,
    NullSink,
    RecordedAnswers,
    RunPlan,
    RunState,
    Sink,
    SystemClock,
    find_recording,
    planned,
    recording_of,
    require_wire,
)
from harness.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run belongs; kept with it."""

    case: str | None = None
    trial: int = 0
    experiment: str | None = None
    tags: tuple[str, ...] = ()


def replay_run(
    run: Recording | str,
    *,
    target: Callable[..., Any] | None = None,
    mode: Mode | str = Mode.REPLAY,
    earlier: Sequence[Recording] = (),
    place: Place | None = None,
    sink: Sink | None = None,
    code_version: str | None = None,
) -> RunOutcome:
    """Run the current code with every answer taken from a recording.

    Args:
        run: The recording, or what ``find_recording`` takes: a run id, a workflow's name, ``DATASET:CASE``.
        target: The pipeline; by default the loaded workflow of that name. Its input is the recording's.
        mode: ``replay`` (what is not recorded is missing) or ``auto`` (it is called and recorded).
        earlier: Failed attempts at this very run; what they were answered comes before the recording.
        place: Case, trial and experiment of the new run.
        sink: Where the new run is recorded; nowhere by default.
        code_version: Version of the current code, kept with the run; the target's package by default.

    Returns:
        The outcome; what the pipeline raises is in it.

    Raises:
        UsageError: There is no such recording, it was imported, or no such workflow is loaded.
    """
    parent = _parent(run)
    target = target or _target(parent)
    mode = Mode(mode)
    plan = _plan(mode, place, sink, code_version)
    plan = replace(
        plan,
        resolver=RecordedAnswers(*earlier, parent, errors=mode is Mode.REPLAY),
        parent_run_id=parent.run.id,
        dry=True,
    )
    return _execute(target, recorded_input(parent), plan, parent=parent)


def fork_run(
    run: Recording | str,
    *,
    change: Change | str | None = None,
    at: str | None = None,
    target: Callable[..., Any] | None = None,
    mode: Mode | str = Mode.AUTO,
    arm: Recording | Sequence[Recording] | None = None,
    place: Place | None = None,
    sink: Sink | None = None,
    code_version: str | None = None,
    expired: Expired = "keep",
    refresh: Sequence[str] = (),
    allow_side_effects: bool = False,
    allow_undeclared: bool = False,
    null: NullReplay | None = None,
    clock: Clock | None = None,
) -> RunOutcome:
    """Run a finished run again with exactly one change; only what the change touches is executed.

    Args:
        run: The recording of the finished run, or a reference to it, as in ``replay_run``.
        change: The one thing to change, as a value or as on the command line: ``prompt:draft=New text``. Left out
            where ``refresh`` is the change.
        at: Address of the fork step, where ``change`` is text or ``refresh`` is the change.
        target: The pipeline; by default the loaded workflow of that name.
        mode: ``auto`` calls the provider for what the change makes new; ``replay`` takes it from ``arm``.
        arm: Earlier recordings of this very fork; the first one that holds an answer gives it.
        place: Case, trial and experiment of the new run.
        sink: Where the new run is recorded; nowhere by default.
        code_version: Version of the current code; steps are skipped only if it equals the parent's. By default
            that of the target's package.
        expired: ``refresh`` calls time-bound tools anew whose recorded result is past its ttl; ``keep`` only lists
            them in the outcome.
        refresh: Names of tools that are called anew at and below the fork step; this is the one change.
        allow_side_effects: Execute side effects instead of keeping them dry.
        allow_undeclared: Go on where the current code differs from the recorded one by itself; the outcome says how.
        null: What ``null_replay`` found, where several forks of one run are made with the same code.
        clock: Time by which results expire, and of the new run; the machine's by default.

    Returns:
        The outcome; what the pipeline raises is in it.

    Raises:
        ChangeError: The parent has no such step, or does not use such a prompt, or the change altered nothing.
        UndeclaredChange: It would not be the only one: replayed without it, the current code gives something else.
        UsageError: There is no such recording, or no such workflow is loaded.
    """
    parent = _parent(run)
    target = target or _target(parent)
    change = _the_change(change, refresh, at).rooted(parent.run.workflow)
    code_version = code_version or code_of(inspect.unwrap(target))
    require_addressed(parent, change)
    arms = (arm,) if isinstance(arm, Recording) else tuple(arm or ())
    mode = Mode(mode)
    if allow_side_effects:
        _warn_of_side_effects(parent, mode)
    clock = clock or SystemClock()
    null = null or null_replay(parent, change=change, target=target, code_version=code_version, clock=clock)
    if not allow_undeclared:
        null.require_none(parent, change)
    past = expired_calls(parent, now=clock.now(), store=sink if isinstance(sink, Store) else None)
    anew = refreshed_calls(parent, change) if change.kind == "refresh" else set()
    plan = _plan(mode, place, sink, code_version)
    plan = replace(
        plan,
        resolver=ForkAnswers(
            parent,
            change=change,
            same_code=code_version is not None and code_version == parent.run.code_version,
            arms=arms,
            errors=mode is Mode.REPLAY,
            stale=anew.union(past if expired == "refresh" else ()),
        ),
        parent_run_id=parent.run.id,
        change=change,
        inherited=_inherited(parent),
        arm=change.arm,
        dry=True,
        allow_side_effects=allow_side_effects,
        clock=clock,
    )
    plan = replace(plan, metadata=_with_inherited(plan))
    outcome = _execute(target, recorded_input(parent), plan, parent=parent)
    return replace(
        outcome,
        change=change,
        undeclared=null.undeclared,
        drift=drift(outcome.run, [parent, *arms]),
        diff=settled(outcome.diff, outcome.run, arms),
        jitter=tuple(jitter(outcome.run)),
        expired=tuple(expired_report(outcome.run, parent, past)),
    )


def null_replay(
    parent: Recording,
    *,
    change: Change,
    target: Callable[..., Any],
    code_version: str | None = None,
    clock: Clock | None = None,
) -> NullReplay:
    """Replay the current code with nothing changed, and say what differs from the recording by itself.

    Nothing is called, recorded or counted. Of the bodies only those run that a fork with this change may run; what is
    proven unchanged before the fork step is not run here either. With change ``code`` there is nothing to look for.
    """
    if change.kind == "code":
        return NullReplay(undeclared=())
    change = change.rooted(parent.run.workflow)
    code_version = code_version or code_of(inspect.unwrap(target))
    same_code = code_version is not None and code_version == parent.run.code_version

    def replay() -> RunOutcome:
        plan = replace(
            _plan(Mode.REPLAY, None, None, code_version),
            resolver=NullAnswers(parent, change=change, same_code=same_code),
            parent_run_id=parent.run.id,
            inherited=_inherited(parent),
            dry=True,
            clock=clock or SystemClock(),
        )
        return _execute(target, recorded_input(parent), plan, parent=parent)

    return look(replay(), parent, replay)


_INHERITED = "inherited_changes"
"""In a fork's metadata: what its parents changed, oldest first."""
_RECORDED_ONLY = frozenset({"code", "refresh"})
"""What such a fork changed is in the code, or in its recording, already."""


def _inherited(parent: Recording) -> tuple[Change, ...]:
    """What holds in a fork of this run besides its own change: the run is what it is by it."""
    held = [*parent.run.metadata.get(_INHERITED, ()), *([parent.run.change] if parent.run.change else [])]
    return tuple(Change.from_dict(one) for one in held if one["kind"] not in _RECORDED_ONLY)


def _with_inherited(plan: RunPlan) -> Mapping[str, Any]:
    if not plan.inherited:
        return plan.metadata
    return {**plan.metadata, _INHERITED: [change.as_dict() for change in plan.inherited]}


def _the_change(change: Change | str | None, refresh: Sequence[str], at: str | None) -> Change:
    """Exactly one of a change and tools to refresh."""
    if refresh and change is not None:
        raise ChangeError("calling tools anew is a change of its own; fork once with refresh and once with the other")
    if refresh:
        return refresh_change(refresh, at or "")
    if change is None:
        raise ChangeError("a fork needs one change: give change (--set), or refresh (--refresh)")
    return Change.parse(change, at=at or "") if isinstance(change, str) else change


def _warn_of_side_effects(parent: Recording, mode: Mode) -> None:
    if mode is Mode.REPLAY:
        raise UsageError("mode replay executes no side effects; fork in mode auto, or leave allow_side_effects out")
    message = f"side effects are executed in the fork of run {parent.run.id}, for real"
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def live_run(
    target: Callable[..., Any],
    inputs: Any,
    *,
    place: Place | None = None,
    sink: Sink | None = None,
    code_version: str | None = None,
    dry: bool = True,
    parent: Recording | None = None,
    clock: Clock | None = None,
) -> RunOutcome:
    """Run a pipeline afresh against the provider and record it.

    Args:
        target: The pipeline.
        inputs: Its input: an object with its parameters, or its single argument.
        place: Case, trial and experiment of the run.
        sink: Where the run is recorded; nowhere by default.
        code_version: Version of the code, kept with the run.
        dry: Whether side effects are kept dry.
        parent: An earlier run to compare with; answers nothing.
        clock: Time of the run, by which shared tool results expire too; the machine's by default.
    """
    plan = replace(_plan(Mode.LIVE, place, sink, code_version), dry=dry, clock=clock or SystemClock())
    return _execute(target, inputs, plan, parent=parent)


def _parent(run: Recording | str) -> Recording:
    if isinstance(run, Recording):
        return require_wire(run)
    found = find_recording(run)
    if found is None:
        raise UsageError(f"there is no run {run!r}; `goldfork run list` shows what the store holds")
    return found


def _target(parent: Recording) -> Callable[..., Any]:
    found = registered(parent.run.workflow)
    if found is None:
        raise UsageError(
            f"workflow {parent.run.workflow!r} is not loaded in this process; import its module, or pass target="
        )
    return found


def _plan(mode: Mode, place: Place | None, sink: Sink | None, code_version: str | None) -> RunPlan:
    place = place or Place()
    return RunPlan(
        mode=mode,
        sink=sink or NullSink(),
        arm=RECORDED,
        trial=place.trial,
        case=place.case,
        experiment=place.experiment,
        tags=place.tags,
        code_version=code_version,
        on_store_error="raise",
        keep=True,
    )


def _execute(target: Callable[..., Any], inputs: Any, plan: RunPlan, *, parent: Recording | None) -> RunOutcome:
    began = time.monotonic()
    error: str | None = None
    with planned(plan) as runs:
        try:
            _call(target, inputs, bare=parent is not None and parent.run.workflow == _BARE)
        except GoldforkStop as stop:
            error = f"{type(stop).__name__}: {stop}"
        except Exception as failure:  # noqa: BLE001 - whatever the application raises is the trial's outcome
            error = f"{type(failure).__name__}: {failure}"
    run = _root(runs, target, error)
    if error is None and not run.misses:
        require_applied(runs, plan, parent=parent)
    ours = recording_of(run)
    output_hash = run.record.output_hash
    return RunOutcome(
        run=ours,
        parent=parent,
        output=plain(run.blobs[output_hash]) if output_hash else None,
        error=None if error is None else run.masked_text(error),
        misses=tuple(run.misses),
        blocked=tuple(run.blocked),
        change=plan.change,
        counts=count(ours),
        diff=compare(ours, parent),
        beside=frozenset(run.beside),
        duration_ms=(time.monotonic() - began) * 1000,
    )


def _root(runs: list[RunState], target: Callable[..., Any], error: str | None) -> RunState:
    if not runs:
        name = getattr(target, "__qualname__", str(target))
        raise TargetError(f"target {name!r} did not start a run: {error}")
    return runs[0]


_BARE = "implicit"
"""Workflow of calls that were recorded outside any."""


@lru_cache(maxsize=64)
def _as_workflow(target: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A plain function as a workflow; made once, since its code version is that of the code that is loaded."""
    return workflow(name)(target)


def _call(target: Callable[..., Any], inputs: Any, *, bare: bool) -> Any:
    """Call a workflow, or a plain function as one, with an object of parameters or a single argument."""
    if getattr(target, "__goldfork__", None) != "workflow":
        target = _as_workflow(target, _BARE if bare else getattr(target, "__name__", "target"))
    args, kwargs = ((), {}) if bare and inputs is None else arguments(target, inputs)
    result = target(*args, **kwargs)
    if inspect.isawaitable(result):
        return _in_own_loop(_await(result))
    if inspect.isasyncgen(result):
        return _in_own_loop(_drain(result))
    return list(result) if inspect.isgenerator(result) else result


def _in_own_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end in a loop of its own, in another thread where this one is inside a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, asyncio.run, work).result()


async def _await(result: Awaitable[Any]) -> Any:
    return await result


async def _drain(result: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in result]
