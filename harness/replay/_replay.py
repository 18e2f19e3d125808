"""Running a pipeline again: live, from a recording, or forked from one."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from harness.errors import ChangeError, GoldforkStop, TargetError, UsageError
from harness.pipeline import code_of, plain, registered, workflow
from harness.record import RECORDED, Recording
from harness.replay._arguments import arguments, recorded_input
from harness.replay._counts import count
from harness.replay._diff import compare, drift
from harness.replay._resolver import ForkAnswers
from harness.replay._values import RunOutcome
from harness.session import (
    Change,
    Mode,
    NullSink,
    RecordedAnswers,
    RunPlan,
    RunState,
    Sink,
    find_recording,
    planned,
    recording_of,
)


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
        UsageError: There is no such recording, or no such workflow is loaded.
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
    change: Change | str,
    at: str | None = None,
    target: Callable[..., Any] | None = None,
    mode: Mode | str = Mode.AUTO,
    arm: Recording | Sequence[Recording] | None = None,
    place: Place | None = None,
    sink: Sink | None = None,
    code_version: str | None = None,
) -> RunOutcome:
    """Run a finished run again with exactly one change; only what the change touches is executed.

    Args:
        run: The recording of the finished run, or a reference to it, as in ``replay_run``.
        change: The one thing to change, as a value or as on the command line: ``prompt:draft=New text``.
        at: Address of the fork step, where ``change`` is text.
        target: The pipeline; by default the loaded workflow of that name.
        mode: ``auto`` calls the provider for what the change makes new; ``replay`` takes it from ``arm``.
        arm: Earlier recordings of this very fork; the first one that holds an answer gives it.
        place: Case, trial and experiment of the new run.
        sink: Where the new run is recorded; nowhere by default.
        code_version: Version of the current code; steps are skipped only if it equals the parent's. By default
            that of the target's package.

    Returns:
        The outcome; what the pipeline raises is in it.

    Raises:
        ChangeError: The parent has no such step, or does not use such a prompt, or the change altered nothing.
        UsageError: There is no such recording, or no such workflow is loaded.
    """
    parent = _parent(run)
    target = target or _target(parent)
    if isinstance(change, str):
        change = Change.parse(change, at=at or "")
    code_version = code_version or code_of(inspect.unwrap(target))
    require_addressed(parent, change)
    arms = (arm,) if isinstance(arm, Recording) else tuple(arm or ())
    mode = Mode(mode)
    plan = _plan(mode, place, sink, code_version)
    plan = replace(
        plan,
        resolver=ForkAnswers(
            parent,
            change=change,
            same_code=code_version is not None and code_version == parent.run.code_version,
            arms=arms,
            errors=mode is Mode.REPLAY,
        ),
        parent_run_id=parent.run.id,
        change=change,
        arm=change.arm,
        dry=True,
    )
    outcome = _execute(target, recorded_input(parent), plan, parent=parent)
    return replace(outcome, change=change, drift=drift(outcome.run, [parent, *arms]))


def live_run(
    target: Callable[..., Any],
    inputs: Any,
    *,
    place: Place | None = None,
    sink: Sink | None = None,
    code_version: str | None = None,
    dry: bool = True,
    parent: Recording | None = None,
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
    """
    plan = replace(_plan(Mode.LIVE, place, sink, code_version), dry=dry)
    return _execute(target, inputs, plan, parent=parent)


def _parent(run: Recording | str) -> Recording:
    if isinstance(run, Recording):
        return run
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


def require_addressed(parent: Recording, change: Change) -> None:
    """Refuse a change that addresses nothing in the parent.

    Raises:
        ChangeError: It names the steps or prompts that there are.
    """
    steps = [step for step in parent.steps if step.kind != "tool"]
    if not any(change.addresses(step.scope, step.name, step.occurrence) for step in steps):
        known = ", ".join(dict.fromkeys(step.address for step in steps))
        raise ChangeError(f"run {parent.run.id} has no step {change.at!r}; it has: {known}")
    prompts = {value.name.removeprefix("prompt:") for value in parent.volatile if value.name.startswith("prompt:")}
    if change.kind == "prompt" and change.name not in prompts:
        known = ", ".join(sorted(prompts)) or "none"
        raise ChangeError(f"run {parent.run.id} uses no prompt {change.name!r}; it uses: {known}")


def _execute(target: Callable[..., Any], inputs: Any, plan: RunPlan, *, parent: Recording | None) -> RunOutcome:
    began = time.monotonic()
    error: str | None = None
    with planned(plan) as runs:
        try:
            _call(target, inputs)
        except GoldforkStop as stop:
            error = f"{type(stop).__name__}: {stop}"
        except Exception as failure:  # noqa: BLE001 - whatever the application raises is the trial's outcome
            error = f"{type(failure).__name__}: {failure}"
    run = _root(runs, target, error)
    if error is None and not run.misses:
        _require_applied(runs, plan)
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
        duration_ms=(time.monotonic() - began) * 1000,
    )


_NEEDS = {
    "input": "no step there takes it as an argument (a `with` block has none)",
    "output": "no step function there returns (a workflow and a `with` block return what they make)",
    "prompt": "the prompt was not used",
    "model": "no model call with a model was made in it",
    "param": "no model call that takes the parameter was made in it",
}


def _require_applied(runs: list[RunState], plan: RunPlan) -> None:
    """Refuse to pass a run off as a fork when the change never came into play."""
    change = plan.change
    if change is None or any(run.applied for run in runs):
        return
    what = f"{change.kind}:{change.name}" if change.name else change.kind
    raise ChangeError(
        f"the change of {what} at step {change.at!r} altered nothing in the fork of run {plan.parent_run_id}: "
        f"{_NEEDS[change.kind]}; name a step where it does"
    )


def _root(runs: list[RunState], target: Callable[..., Any], error: str | None) -> RunState:
    if not runs:
        name = getattr(target, "__qualname__", str(target))
        raise TargetError(f"target {name!r} did not start a run: {error}")
    return runs[0]


@lru_cache(maxsize=64)
def _as_workflow(target: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function as a workflow; made once, since its code version is that of the code that is loaded."""
    return workflow(getattr(target, "__name__", "target"))(target)


def _call(target: Callable[..., Any], inputs: Any) -> Any:
    """Call a workflow, or a plain function as one, with an object of parameters or a single argument."""
    if getattr(target, "__goldfork__", None) != "workflow":
        target = _as_workflow(target)
    args, kwargs = arguments(target, inputs)
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
