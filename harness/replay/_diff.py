"""Comparing a run with its parent: hashes first, content only where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.record import Recording, StepRecord
from harness.replay._changes import content, output_difference, step_difference, tool_call_changes, value_changes
from harness.replay._identity import Identity
from harness.replay._pairing import pairs
from harness.replay._values import Difference, RunDiff, SettledWord, StepDiff


def compare(run: Recording, parent: Recording | None) -> RunDiff:
    """The trajectory of a run beside its parent's; content is read where hashes differ, and nowhere else."""
    if parent is None:
        alone = tuple(_alone(step) for step in run.steps if step.parent_id is not None)
        return RunDiff(steps=alone, first_divergence=None, output_equal=None)
    found, identity = pairs(run.steps, parent.steps), Identity(run, parent)
    steps = []
    for ours, theirs in found:
        if ours is not None:
            steps.append(_added(ours) if theirs is None else _pair(ours, run, theirs, parent, identity))
        elif theirs is not None:
            steps.append(_removed(theirs))
    first = next((step.address for step in steps if _differs(step)), None)
    equal, difference = _output(run, parent, identity)
    if difference is not None and first is None:
        # Every step agrees, so the workflow's own body makes the difference.
        first = run.run.workflow
    return RunDiff(
        steps=tuple(steps),
        first_divergence=first,
        output_equal=equal,
        output=difference.places if difference is not None else (),
        difference=difference,
        tool_calls=tuple(tool_call_changes(found, run, parent, identity=identity)),
    )


def settled(diff: RunDiff, run: Recording, arms: Sequence[Recording] = ()) -> RunDiff:
    """The comparison with a word per step: settled by the recording, re-run, or dry.

    Args:
        diff: Of ``run`` with its parent.
        run: A replay, a fork or a control.
        arms: Earlier recordings of this very fork. What they called afresh was not settled by the parent's recording,
            though this run took it from them.
    """
    fresh = {message.id for arm in arms for message in arm.messages if message.cache_state == "live"}
    fresh |= {step.id for arm in arms for step in arm.steps if step.state == "called"}
    parents = {step.id: step.parent_id for step in run.steps}
    rerun: set[str] = set()
    for message in run.messages:
        if message.cache_state == "live" or message.replay_of in fresh:
            rerun.update(_upwards(message.step_id, parents))
    for call in run.steps:
        if call.kind == "tool" and (call.state == "called" or call.reused_from in fresh):
            rerun.update(_upwards(call.id, parents))
    ours = iter(step for step in run.steps if step.parent_id is not None)
    told = []
    for one in diff.steps:
        step = None if one.state == "removed" else next(ours, None)
        told.append(one if step is None else replace(one, settled=_settled(one, step, step.id in rerun)))
    return replace(diff, steps=tuple(told))


def _output(run: Recording, parent: Recording, identity: Identity) -> tuple[bool | None, Difference | None]:
    """Whether the runs' outputs are equal, and what differs about them or the errors that they ended with."""
    ours, theirs = run.run, parent.run
    if ours.error != theirs.error and "error" in {ours.status, theirs.status}:
        sides = (f"raised {one.error}" if one.status == "error" else f"ended {one.status}" for one in (theirs, ours))
        before, after = sides
        return None, Difference(kind="error", note=f"{before} in the parent, {after} here")
    if ours.output_hash == theirs.output_hash:
        return (None if ours.output_hash is None else True), None
    if (ours.status, theirs.status) != ("ok", "ok"):
        return None, None
    if identity.same(theirs.output_hash, ours.output_hash):
        return True, None
    return False, output_difference(parent, theirs.output_hash, run, ours.output_hash)


def _alone(step: StepRecord) -> StepDiff:
    return StepDiff(
        key=step.key,
        name=step.name,
        scope=step.scope,
        occurrence=step.occurrence,
        kind=step.kind,
        state=step.state,
        input_hash=step.input_hash,
        output_hash=step.output_hash,
        parent_output_hash=None,
        equal=None,
    )


def _added(step: StepRecord) -> StepDiff:
    return replace(_alone(step), state="added")


def _removed(step: StepRecord) -> StepDiff:
    return replace(_alone(step), state="removed", output_hash=None, parent_output_hash=step.output_hash)


def _pair(step: StepRecord, run: Recording, other: StepRecord, parent: Recording, identity: Identity) -> StepDiff:
    difference = step_difference(step, run, other, parent, identity=identity)
    equal = None if step.output_hash is None and other.output_hash is None else difference is None
    if difference is not None:
        equal = False
    return replace(
        _alone(step),
        parent_output_hash=other.output_hash,
        parent_input_hash=other.input_hash,
        equal=equal,
        renamed=equal is True and step.output_hash != other.output_hash,
        difference=difference,
    )


def _differs(diff: StepDiff) -> bool:
    return diff.equal is False or diff.state in {"added", "removed"}


def _settled(diff: StepDiff, step: StepRecord, rerun: bool) -> SettledWord:
    if step.state == "dry":
        return "dry"
    # A step that is answered was given its output by the change, a tool by the recording.
    recorded = step.state == "reused" or (step.state == "answered" and step.kind == "tool")
    known = recorded or (diff.equal is True and diff.state != "added")
    return "settled by recording" if known and not rerun else "re-run"


def _upwards(step_id: str | None, parents: dict[str, str | None]) -> Iterable[str]:
    while step_id is not None:
        yield step_id
        step_id = parents.get(step_id)


def drift(run: Recording, parents: Sequence[Recording]) -> tuple[str, ...]:
    """Served models and fingerprints of fresh calls that no recording of the parents shows."""
    known = {(m.model, m.model_served, m.system_fingerprint) for p in parents for m in p.messages}
    asked = {model for model, _, _ in known}
    fresh = {
        (m.model, m.model_served, m.system_fingerprint)
        for m in run.messages
        if m.cache_state == "live" and m.model in asked
    }
    return tuple(
        f"{model}: served by {served} ({fingerprint})" for model, served, fingerprint in sorted(fresh - known, key=str)
    )


__all__ = ["compare", "content", "drift", "settled", "value_changes"]
