"""Running a pipeline under a plan, to its end, whatever it is: plain, async or a generator."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterable, Awaitable, Callable
from functools import lru_cache
from typing import Any

from harness.errors import ChangeError, GoldforkStop, TargetError, UsageError
from harness.pipeline import plain, registered, workflow
from harness.pipeline.adapter import handed_over
from harness.record import RECORDED, Recording
from harness.replay._addressed import require_applied
from harness.replay._arguments import arguments
from harness.replay._counts import count
from harness.replay._diff import compare
from harness.replay._loop import run_to_end
from harness.replay._options import ReplayOptions
from harness.replay._values import RunOutcome
from harness.session import (
    Mode,
    NullSink,
    RunPlan,
    RunState,
    Sink,
    SystemClock,
    find_recording,
    planned,
    recording_of,
    require_wire,
)


def parent_recording(run: Recording | str) -> Recording:
    """The recording that is run again, or that a reference names.

    Raises:
        UsageError: There is no such recording, or it was imported.
    """
    if isinstance(run, Recording):
        return require_wire(run)
    found = find_recording(run)
    if found is None:
        raise UsageError(f"there is no run {run!r}; `goldfork run list` shows what the store holds")
    return found


def loaded_target(parent: Recording) -> Callable[..., Any]:
    """The loaded workflow of the recorded name.

    Raises:
        UsageError: There is none in this process.
    """
    found = registered(parent.run.workflow)
    if found is None:
        raise UsageError(
            f"workflow {parent.run.workflow!r} is not loaded in this process; import its module, or pass target="
        )
    return found


def run_plan(mode: Mode, sink: Sink | None, options: ReplayOptions) -> RunPlan:
    """The plan of a run whose outcome is looked at when it ends; nothing answers it yet."""
    return RunPlan(
        mode=mode,
        sink=sink or NullSink(),
        arm=RECORDED,
        trial=options.place.trial,
        case=options.place.case,
        experiment=options.place.experiment,
        tags=options.place.tags,
        code_version=options.code_version,
        on_store_error="raise",
        keep=True,
        clock=options.clock or SystemClock(),
    )


def execute(target: Callable[..., Any], inputs: Any, plan: RunPlan, *, parent: Recording | None) -> RunOutcome:
    """Run a pipeline to its end under a plan; the outcome holds what it raised, and its comparison with ``parent``."""
    began = time.monotonic()
    error: str | None = None
    with planned(plan) as runs:
        try:
            _call(target, handed_over(inputs), bare=parent is not None and parent.run.workflow == _BARE)
        except GoldforkStop as stop:
            error = f"{type(stop).__name__}: {stop}"
        except BaseExceptionGroup as group:
            # Task groups wrap what stops one of their tasks.
            error = _stopped(group)
        except Exception as failure:  # noqa: BLE001 - whatever the application raises is the trial's outcome
            error = f"{type(failure).__name__}: {failure}"
    run = _root(runs, target, error)
    ours = recording_of(run)
    output_hash = run.record.output_hash
    outcome = RunOutcome(
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
    if outcome.status == "ok":
        try:
            require_applied(runs, plan, parent=parent)
        except ChangeError as reason:
            reason.outcome = outcome
            raise
    return outcome


def _stopped(group: BaseExceptionGroup[BaseException]) -> str:
    stops, rest = group.split(GoldforkStop)
    if rest is not None and not isinstance(rest, Exception):
        # Someone interrupts, or the process is to end.
        raise group
    one: BaseException = group if stops is None else _first(stops)
    return f"{type(one).__name__}: {one}"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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
        return run_to_end(_await(result))
    if inspect.isasyncgen(result):
        return run_to_end(_drain(result))
    return list(result) if inspect.isgenerator(result) else result


async def _await(result: Awaitable[Any]) -> Any:
    return await result


async def _drain(result: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in result]
