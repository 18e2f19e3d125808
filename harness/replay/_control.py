"""Control forks: the same fork with nothing changed and fresh calls from the fork step on, the measure of jitter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from harness.record import Recording
from harness.replay._addressed import require_addressed
from harness.replay._arguments import recorded_input
from harness.replay._diff import drift, settled
from harness.replay._effect import Reach
from harness.replay._fork import current_options, inherited_changes, same_code, with_inherited
from harness.replay._options import ReplayOptions
from harness.replay._resolver import ForkAnswers, touched_steps
from harness.replay._running import execute, loaded_target, parent_recording, run_plan
from harness.replay._values import RunOutcome
from harness.session import Change, Mode, Sink


def control_arm(parent: Recording, change: Change, number: int) -> str:
    """The arm under which a control fork is recorded: ``control:<number>@<step from which its calls are fresh>``.

    Controls hang on the step alone: every change that first makes a difference there shares them.
    """
    first = Reach(parent, change).first
    return f"control:{number}@{first.address if first is not None else change.at}"


def control_run(
    run: Recording | str,
    *,
    change: Change,
    number: int = 1,
    target: Callable[..., Any] | None = None,
    mode: Mode | str = Mode.AUTO,
    arm: Sequence[Recording] = (),
    sink: Sink | None = None,
    options: ReplayOptions | None = None,
) -> RunOutcome:
    """Run a finished run again with nothing changed, and fresh calls from the step on at which a change would count.

    What comes before that step is taken from the recording, as in the fork.

    Args:
        run: The recording of the finished run, or a reference to it, as in ``fork_run``.
        change: What the fork changes; it says from where on calls are fresh, and is not applied.
        number: Which control this is, from 1.
        target: The pipeline; by default the loaded workflow of that name.
        mode: ``auto`` calls the provider; ``replay`` takes all from ``arm``.
        arm: Earlier recordings of this very control; the first one that holds an answer gives it.
        sink: Where the new run is recorded; nowhere by default.
        options: Its circumstances: place, code version and clock.

    Raises:
        ChangeError: The parent has no such step, or does not use such a prompt.
        UsageError: There is no such recording, no such workflow is loaded, or ``options`` ask for what only the fork
            itself does.
    """
    options = options or ReplayOptions()
    options.require_no_fork("a control fork")
    parent = parent_recording(run)
    target = target or loaded_target(parent)
    change = change.rooted(parent.run.workflow)
    require_addressed(parent, change)
    options = current_options(options, target)
    mode = Mode(mode)
    plan = replace(
        run_plan(mode, sink, options),
        resolver=_ControlAnswers(parent, change, same_code=same_code(options, parent), arms=arm, mode=mode),
        parent_run_id=parent.run.id,
        inherited=inherited_changes(parent),
        arm=control_arm(parent, change, number),
        dry=True,
        metadata={"control": number, "at": change.at},
    )
    plan = replace(plan, metadata=with_inherited(plan))
    outcome = execute(target, recorded_input(parent), plan, parent=parent)
    diff = settled(outcome.diff, outcome.run, arm)
    return replace(outcome, diff=diff, drift=drift(outcome.run, [parent, *arm]))


class _ControlAnswers(ForkAnswers):
    """As a fork's, but the parent answers no call from the first difference on, and no body around one is skipped."""

    def __init__(
        self, parent: Recording, change: Change, *, same_code: bool, arms: Sequence[Recording], mode: Mode
    ) -> None:
        reach = Reach(parent, change)
        fresh = reach.fresh()
        super().__init__(
            replace(parent, messages=tuple(message for message in parent.messages if message.id not in fresh)),
            change=change,
            same_code=same_code,
            arms=arms,
            errors=mode is Mode.REPLAY,
            running=_around_calls(parent, reach, fresh),
        )
        # Of the whole parent: what lies in a tool's body is told by the calls that were left out.
        self._touched = frozenset(step_id for layer in (*arms, parent) for step_id in touched_steps(layer, change))


def _around_calls(parent: Recording, reach: Reach, fresh: AbstractSet[str]) -> frozenset[str]:
    """Ids of the steps that make these calls, and of all around them."""
    callers = {message.step_id for message in parent.messages if message.id in fresh}
    steps = [reach.by_id[caller] for caller in callers if caller in reach.by_id]
    return frozenset(one for step in steps for one in (step.id, *reach.around(step)))
