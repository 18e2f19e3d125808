"""A fork: a finished run again with exactly one change, and the null replay that shows it is the only one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.pipeline.adapter import loaded_code
from harness.record import Recording
from harness.replay._addressed import require_addressed
from harness.replay._arguments import recorded_input
from harness.replay._diff import drift, settled
from harness.replay._jitter import jitter
from harness.replay._null import NullAnswers, NullReplay, look
from harness.replay._options import ReplayOptions
from harness.replay._resolver import ForkAnswers
from harness.replay._running import execute, loaded_target, parent_recording, run_plan
from harness.replay._stale import expired_calls, expired_report, refreshed_calls
from harness.replay._values import RunOutcome
from harness.session import Change, Mode, RunPlan, Sink, SystemClock
from harness.store import Store


def fork_run(
    run: Recording | str,
    *,
    change: Change | str,
    at: str | None = None,
    target: Callable[..., Any] | None = None,
    mode: Mode | str = Mode.AUTO,
    arm: Recording | Sequence[Recording] | None = None,
    sink: Sink | None = None,
    options: ReplayOptions | None = None,
) -> RunOutcome:
    """Run a finished run again with exactly one change; only what the change touches is executed.

    Args:
        run: The recording of the finished run, or a reference to it, as in ``replay_run``.
        change: The one thing to change, as a value or as on the command line: ``prompt:draft=New text``; what
            ``refresh_change`` makes calls tools anew.
        at: Address of the fork step, where ``change`` is text.
        target: The pipeline; by default the loaded workflow of that name.
        mode: ``auto`` calls the provider for what the change makes new; ``replay`` takes it from ``arm``.
        arm: Earlier recordings of this very fork; the first one that holds an answer gives it.
        sink: Where the new run is recorded; nowhere by default.
        options: Its circumstances: place, code version, clock, and what is allowed.

    Returns:
        The outcome; what the pipeline raises is in it.

    Raises:
        ChangeError: The parent has no such step, or does not use such a prompt, or the change altered nothing.
        UndeclaredChange: It would not be the only one: replayed without it, the current code gives something else.
        UsageError: There is no such recording, or no such workflow is loaded.
    """
    parent = parent_recording(run)
    target = target or loaded_target(parent)
    change = Change.parse(change, at=at or "") if isinstance(change, str) else change
    change = change.rooted(parent.run.workflow)
    options = current_options(options, target)
    require_addressed(parent, change)
    arms = (arm,) if isinstance(arm, Recording) else tuple(arm or ())
    mode = Mode(mode)
    if options.allow_side_effects:
        _warn_of_side_effects(parent, mode)
    null = options.null or null_replay(parent, change=change, target=target, options=options)
    if not options.allow_undeclared:
        null.require_none(parent, change)
    plan = run_plan(mode, sink, options)
    past = expired_calls(parent, now=plan.clock.now(), store=sink if isinstance(sink, Store) else None)
    anew = refreshed_calls(parent, change) if change.kind == "refresh" else set()
    plan = replace(
        plan,
        resolver=ForkAnswers(
            parent,
            change=change,
            same_code=same_code(options, parent),
            arms=arms,
            errors=mode is Mode.REPLAY,
            stale=anew.union(past if options.expired == "refresh" else ()),
        ),
        parent_run_id=parent.run.id,
        change=change,
        inherited=inherited_changes(parent),
        arm=change.arm,
        dry=True,
        allow_side_effects=options.allow_side_effects,
    )
    plan = replace(plan, metadata=with_inherited(plan))
    outcome = execute(target, recorded_input(parent), plan, parent=parent)
    return replace(
        outcome,
        change=change,
        undeclared=null.undeclared,
        drift=drift(outcome.run, [parent, *arms]),
        diff=settled(outcome.diff, outcome.run, arms),
        jitter=tuple(jitter(outcome.run)),
        expired=tuple(expired_report(outcome.run, parent, past, arms)),
    )


def null_replay(
    parent: Recording, *, change: Change, target: Callable[..., Any], options: ReplayOptions | None = None
) -> NullReplay:
    """Replay the current code with nothing changed, and say what differs from the recording by itself.

    Nothing is called, recorded or counted. Of the bodies only those run that a fork with this change may run; what is
    proven unchanged before the fork step is not run here either. With change ``code`` there is nothing to look for.
    """
    if change.kind == "code":
        return NullReplay(undeclared=())
    change = change.rooted(parent.run.workflow)
    options = current_options(options, target)

    def replay() -> RunOutcome:
        plan = replace(
            run_plan(Mode.REPLAY, None, options),
            resolver=NullAnswers(parent, change=change, same_code=same_code(options, parent)),
            parent_run_id=parent.run.id,
            inherited=inherited_changes(parent),
            dry=True,
        )
        return execute(target, recorded_input(parent), plan, parent=parent)

    return look(replay(), parent, replay)


def current_options(options: ReplayOptions | None, target: Callable[..., Any]) -> ReplayOptions:
    """The options with the version of the current code in them and a clock of their own."""
    options = options or ReplayOptions()
    return replace(
        options,
        code_version=options.code_version or loaded_code(target),
        clock=options.clock or SystemClock(),
    )


def same_code(options: ReplayOptions, parent: Recording) -> bool:
    """Whether the current code is known to be the recorded one, by its version."""
    return options.code_version is not None and options.code_version == parent.run.code_version


_INHERITED = "inherited_changes"
"""In a fork's metadata: what its parents changed, oldest first."""
_RECORDED_ONLY = frozenset({"code", "refresh"})
"""What such a fork changed is in the code, or in its recording, already."""


def inherited_changes(parent: Recording) -> tuple[Change, ...]:
    """What holds in a fork of this run besides its own change: the run is what it is by it."""
    held = [*parent.run.metadata.get(_INHERITED, ()), *([parent.run.change] if parent.run.change else [])]
    return tuple(Change.from_dict(one) for one in held if one["kind"] not in _RECORDED_ONLY)


def with_inherited(plan: RunPlan) -> Mapping[str, Any]:
    """The metadata of a run, with what it inherits."""
    if not plan.inherited:
        return plan.metadata
    return {**plan.metadata, _INHERITED: [change.as_dict() for change in plan.inherited]}


def _warn_of_side_effects(parent: Recording, mode: Mode) -> None:
    if mode is Mode.REPLAY:
        raise UsageError("mode replay executes no side effects; fork in mode auto, or leave allow_side_effects out")
    message = f"side effects are executed in the fork of run {parent.run.id}, for real"
    warnings.warn(message, RuntimeWarning, stacklevel=3)
