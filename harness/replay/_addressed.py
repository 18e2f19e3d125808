"""Whether a change has a place in the run that is forked, and came into play in the fork."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.errors import ChangeError, DatasetMissing
from harness.gateway import request_text
from harness.record import Recording, StepRecord
from harness.session import Change, RunPlan, RunState


def require_addressed(parent: Recording, change: Change) -> None:
    """Refuse a change that addresses nothing in the parent.

    Raises:
        ChangeError: It names the steps, prompts, tools or calls that there are.
    """
    change = change.rooted(parent.run.workflow)
    run = parent.run.id
    addressed = _addressed(parent, change)
    if not addressed:
        known = ", ".join(dict.fromkeys(step.address for step in parent.steps if step.kind != "tool"))
        raise ChangeError(f"run {run} has no step {change.step!r}; it has: {known}")
    if change.kind == "output" and all(step.parent_id is None for step in addressed):
        own = dict.fromkeys(step.address for step in parent.steps if step.kind != "tool" and step.parent_id)
        raise ChangeError(
            f"a change of output says which step's output it is, and {change.step!r} is the whole run {run}; name the "
            f"step with at= (--at): {_list(list(own))}"
        )
    if change.kind == "prompt":
        prompts = {value.name.removeprefix("prompt:") for value in parent.volatile if value.name.startswith("prompt:")}
        if change.name not in prompts:
            raise ChangeError(f"run {run} uses no prompt {change.name!r}; it uses: {_list(sorted(prompts))}")
    if change.kind in {"tool", "tool-version"}:
        tools = [step.name for step in _inside(parent, addressed) if step.kind == "tool"]
        if change.name not in tools:
            raise ChangeError(
                f"run {run} calls no tool {change.name!r} at or below {change.at!r}; it calls: {_list(tools)}"
            )
    if change.message is not None:
        made = max(sum(message.step_id == step.id for message in parent.messages) for step in addressed)
        if change.message >= made:
            raise ChangeError(
                f"step {change.step!r} of run {run} made {made} model call{'s' * (made != 1)} of its own, so there is "
                f"no {change.at!r}; the first one is ~0"
            )


def require_uniform(recordings: Sequence[Recording], change: Change) -> None:
    """Refuse to put one text in a place of the request where the cases of a dataset have different ones.

    Raises:
        ChangeError: They differ, so the fork would change more than what it says.
    """
    if change.kind != "request":
        return
    found: dict[str, str] = {}
    for recording in recordings:
        for text in _at_place(recording, change.rooted(recording.run.workflow)):
            found.setdefault(text, recording.run.case or recording.run.id)
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise ChangeError(
            f"{change.name!r} holds {len(found)} different texts in the recorded requests (as in {first!r} and "
            f"{second!r}), so one text cannot take its place in all cases; fork the runs one by one, or make it a "
            "harness.prompt and change that"
        )


def _at_place(recording: Recording, change: Change) -> list[str]:
    steps = _addressed(recording, change)
    inside = steps if change.message is not None else _inside(recording, steps)
    ids = {step.id for step in inside}
    made: dict[str | None, int] = {}
    texts = []
    for message in recording.messages:
        number = made.get(message.step_id, 0)
        made[message.step_id] = number + 1
        if message.step_id not in ids or change.message not in {None, number}:
            continue
        try:
            text = request_text(recording.read(message.request_hash), change.name)
        except DatasetMissing:
            continue
        if text is not None:
            texts.append(text)
    return texts


def _addressed(recording: Recording, change: Change) -> list[StepRecord]:
    return [
        step
        for step in recording.steps
        if step.kind != "tool" and change.addresses(step.scope, step.name, step.occurrence)
    ]


def _inside(recording: Recording, tops: Sequence[StepRecord]) -> list[StepRecord]:
    """These steps and all in them; ``steps`` is in order of start, so that parents come first."""
    ids = {step.id for step in tops}
    found = []
    for step in recording.steps:
        if step.id in ids or step.parent_id in ids:
            ids.add(step.id)
            found.append(step)
    return found


def _list(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"


_NEEDS = {
    "input": "no step there takes it as an argument (a `with` block has none)",
    "output": "no step function there returns (a workflow and a `with` block return what they make)",
    "prompt": "the prompt was not used",
    "model": "no model call with a model was made in it",
    "param": "no model call that takes the parameter was made in it",
    "tool": "the tool was not called in it",
    "tool-version": "the tool was not called in it",
    "tool-schema": "no model call that offers such a function was made in it",
    "request": "no request made in it has such a place",
    "refresh": "no such tool was called in it",
    "code": "the code is the recorded one, as far as can be told",
}


def require_applied(runs: Sequence[RunState], plan: RunPlan, *, parent: Recording | None) -> None:
    """Refuse to pass a run off as a fork when the change never came into play.

    Raises:
        ChangeError: It did not.
    """
    change = plan.change
    if change is None or any(run.applied for run in runs):
        return
    if change.kind == "code" and parent is not None and any(_other_code(run, parent) for run in runs):
        return
    what = f"{change.kind}:{change.name}" if change.name else change.kind
    raise ChangeError(
        f"the change of {what} at step {change.at!r} altered nothing in the fork of run {plan.parent_run_id}: "
        f"{_NEEDS[change.kind]}; name a step where it does"
    )


def _other_code(run: RunState, parent: Recording) -> bool:
    if run.record.code_version != parent.run.code_version:
        return True
    return _shape(run.steps) != _shape(parent.steps)


def _shape(steps: Sequence[StepRecord]) -> list[tuple[Any, ...]]:
    """What the steps hang on and gave; a changed helper or tool shows in it, whatever the package's digest says."""
    return sorted(
        (step.scope, step.name, step.key, step.occurrence, step.version or "", step.output_hash or "") for step in steps
    )
