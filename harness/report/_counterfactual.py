"""What a whole dataset forked at once shows beyond its scores: steps, reasons, controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from harness.experiment import ControlTrial, ExperimentResult, JitterWord, TrialResult, output_word
from harness.replay import Counts, StepDiff, ToolCallDiff
from harness.report._difference import difference, shown
from harness.report.summary import ControlView, Piece, StepTally, ToolCallView
from harness.session import Change

GIVEN = (
    "Effects are given the recorded prefix: what comes before the fork step is as recorded in the fork and in its "
    "controls, so they say nothing about runs that take another way there."
)
"""Stands wherever effects are shown."""
BY_CHANCE = "About 1 in 20 cases is beyond jitter by chance alone."
_CALLS = 20


def tallies(result: ExperimentResult) -> tuple[StepTally, ...]:
    """What became of each step, over all trials; empty unless the experiment is a fork, and says so of each step."""
    steps = [step for trial in result.trials for step in trial.outcome.diff.steps]
    if result.change is None or all(step.settled is None for step in steps):
        return ()
    counts: dict[str, Counter[str]] = {}
    for trial in result.trials:
        diff = trial.outcome.diff
        for step in diff.steps:
            found = counts.setdefault(step.address, Counter())
            found[f"settled {step.settled}"] += 1
            found[step.state] += 1
            found["differs"] += step.equal is False
        if diff.first_divergence is not None and trial.outcome.status != "missing":
            counts.setdefault(diff.first_divergence, Counter())["first"] += 1
    return tuple(
        StepTally(
            step=step,
            settled=found["settled settled by recording"],
            rerun=found["settled re-run"],
            dry=found["settled dry"],
            added=found["added"],
            removed=found["removed"],
            differs=found["differs"],
            first=found["first"],
        )
        for step, found in counts.items()
    )


def why(step: StepDiff, change: Change | None) -> str:
    """What differs about a step, and because of what, as far as its hashes tell."""
    if step.state == "added":
        return "the recorded run had no such step"
    if step.state == "removed":
        return "the recorded run had this step, this one has not"
    if step.equal is not False:
        return ""
    what = "the output"
    if step.difference is not None:
        kinds = {"formatting": "formatting alone", "error": step.difference.note, "serialisation": step.difference.note}
        what = kinds.get(step.difference.kind, "the output")
    if change is not None and step.kind != "tool" and change.addresses(step.scope, step.name, step.occurrence):
        return f"{what}; the declared change addresses it"
    if step.input_hash != step.parent_input_hash:
        return f"{what}; its input changed upstream"
    if step.settled == "re-run":
        return f"{what}, from the same input; its calls were made anew"
    return f"{what}, from the same input"


def tool_call_views(calls: Sequence[ToolCallDiff], take: Callable[[], bool]) -> Iterator[ToolCallView]:
    """Tool calls that differ, the first ones.

    Args:
        calls: As compared.
        take: Whether one more difference may be shown.
    """
    for call in calls[:_CALLS]:
        path = f"{call.scope}/{call.name}" if call.scope else call.name
        yield ToolCallView(path, call.kind, _places(call), _arguments(call) if take() else ())


def _places(call: ToolCallDiff) -> str:
    if call.before is None:
        return f"call {(call.after or 0) + 1} here, none in the recorded run"
    if call.after is None:
        return f"call {call.before + 1} of the recorded run, none here"
    if call.before == call.after:
        return f"call {call.after + 1} in both"
    return f"call {call.before + 1} of the recorded run, call {call.after + 1} here"


def _arguments(call: ToolCallDiff) -> tuple[Piece, ...]:
    before = "\n".join(f"{one.path}: {shown(one.before)}" for one in call.places if one.kind != "added")
    after = "\n".join(f"{one.path}: {shown(one.after)}" for one in call.places if one.kind != "removed")
    return difference(before, after)


def control_views(controls: Sequence[ControlTrial]) -> Iterator[ControlView]:
    """One line per control fork."""
    for control in controls:
        if control.status != "ok":
            told = control.error or control.status
        elif control.equal:
            told = "output equal to the recorded one"
        elif control.equal is None:
            told = "nothing to compare with"
        else:
            where = f", first at {control.first_divergence}" if control.first_divergence else ""
            told = f"output differs from the recorded one{where}"
        yield ControlView(control.number, control.run, told)


def case_jitter(trials: Sequence[TrialResult]) -> tuple[JitterWord, str] | None:
    """The word of a case's outputs; that of its least certain trial."""
    words = [output_word(trial.equal, trial.controls) for trial in trials if trial.controls]
    order: list[JitterWord] = ["unknown", "within jitter", "beyond jitter"]
    return min(words, key=lambda word: order.index(word[0]), default=None)


def control_counts(result: ExperimentResult) -> Counts:
    """What all control forks spent and saved."""
    return sum((trial.control_counts for trial in result.trials), Counts())
