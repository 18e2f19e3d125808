"""One case with its trials: states, problems, and differences read through the recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from harness.errors import DatasetMissing, StoreError
from harness.experiment import TrialResult
from harness.record import Hash, Recording
from harness.replay import StepDiff
from harness.report._counterfactual import case_jitter, control_views, tool_call_views, why
from harness.report._difference import difference, excerpt, readable, shown
from harness.report._differs import difference_view
from harness.report._format import STATES, number, signed
from harness.report._scores import related_number
from harness.report.summary import (
    BlockedView,
    CaseState,
    CaseView,
    Piece,
    Problem,
    ScoreView,
    StepView,
    TrialView,
)
from harness.score import Score

_ORDER = list(STATES)


class Budget:
    """How much of a report differences may fill; larger runs get shorter excerpts."""

    SPENT: ClassVar[str] = "left out"

    def __init__(self, trials: int) -> None:
        self.differences = 500
        self.excerpt = 2_000 if trials <= 100 else 400
        self.steps = 120

    def take(self) -> bool:
        """Whether one more difference may be shown."""
        self.differences -= 1
        return self.differences >= 0


def build_case(trials: tuple[TrialResult, ...], *, failed: Mapping[str, str], budget: Budget) -> CaseView:
    """The view of one case.

    Args:
        trials: All trials of the case.
        failed: The summary scores for which the gate failed, each with its evaluator's name.
        budget: Shared by all cases of a report.
    """
    first = trials[0]
    views = tuple(_trial(trial, budget) for trial in trials)
    return CaseView(
        case=first.case,
        split=first.split,
        group=first.group,
        tags=first.tags,
        state=min((view.state for view in views), key=_ORDER.index),
        input=excerpt(shown(first.input), budget.excerpt),
        expected=None if first.expected_output is None else excerpt(shown(first.expected_output), budget.excerpt),
        trials=views,
        problems=tuple(problem for trial in trials for problem in _problems(trial, failed)),
        jitter=case_jitter(trials),
    )


def _problems(trial: TrialResult, failed: Mapping[str, str]) -> Iterator[Problem]:
    outcome = trial.outcome
    if outcome.misses:
        more = len(outcome.misses) - 1
        reason = f"{outcome.misses[0]} (and {more} more)" if more else outcome.misses[0]
        yield Problem(trial.case, trial.trial, "missing", reason)
    elif outcome.error is not None:
        yield Problem(trial.case, trial.trial, "error", outcome.error)
    for line in outcome.undeclared:
        yield Problem(trial.case, trial.trial, "undeclared", line)
    for score in trial.scores:
        if score.status == "failed" and outcome.status == "ok":
            yield Problem(trial.case, trial.trial, "score", f"{score.name}: {score.reason or 'evaluator failed'}")
    yield from _lowered(trial, failed)


def _lowered(trial: TrialResult, failed: Mapping[str, str]) -> Iterator[Problem]:
    """Where this trial pulled down a score for which the gate failed."""
    found = [related_number(name, evaluator, trial.scores) for name, evaluator in failed.items()]
    for score in dict.fromkeys(one.name for one in found if one is not None):
        yield from _lowered_score(trial, next(one for one in trial.scores if one.name == score))


def _lowered_score(trial: TrialResult, score: Score) -> Iterator[Problem]:
    before = trial.baseline_scores.get(score.name)
    if before is not None and before.number is not None and score.number is not None:
        change = score.number - before.number
        told = f"{score.name}: {number(before.value)} to {number(score.value)} ({signed(change)})"
        lowered = change < 0
    else:
        told, lowered = f"{score.name}: no", score.value is False
    if lowered:
        yield Problem(trial.case, trial.trial, "gate", f"{told}; {score.reason}" if score.reason else told)


def _trial(trial: TrialResult, budget: Budget) -> TrialView:
    outcome, record = trial.outcome, trial.outcome.run.run
    output, gone = _content(outcome.run, record.output_hash)
    pieces, note = _output_difference(trial, budget) if trial.equal is False else ((), gone)
    steps = outcome.diff.steps
    return TrialView(
        trial=trial.trial,
        run=record.id,
        state=_state(trial),
        seconds=outcome.duration_ms / 1000,
        first_divergence=outcome.diff.first_divergence,
        steps=tuple(_step(step, trial, budget) for step in steps[: budget.steps]),
        more_steps=max(0, len(steps) - budget.steps),
        scores=tuple(_scores(trial)),
        output=excerpt(output or "", budget.excerpt),
        difference=pieces,
        note=note,
        differs=None if outcome.diff.difference is None else difference_view(outcome.diff.difference),
        error=outcome.error,
        misses=outcome.misses,
        blocked=tuple(
            BlockedView(
                tool=str(call.get("tool", "?")),
                arguments=excerpt(shown(call.get("arguments")), budget.excerpt),
                answered_by=str(call.get("answered_by", "nothing")),
            )
            for call in outcome.blocked
        ),
        undeclared=outcome.undeclared,
        drift=outcome.drift,
        tool_calls=tuple(tool_call_views(outcome.diff.tool_calls, budget.take)),
        controls=tuple(control_views(trial.controls)),
    )


def _state(trial: TrialResult) -> CaseState:
    if trial.outcome.status != "ok":
        return trial.outcome.status
    if trial.equal is None:
        return "unmeasured"
    return "equal" if trial.equal else "differs"


def _scores(trial: TrialResult) -> Iterator[ScoreView]:
    for score in trial.scores:
        before = trial.baseline_scores.get(score.name)
        yield ScoreView(
            name=score.name,
            value=score.value,
            status=score.status,
            reason=score.reason,
            baseline=None if before is None else before.value,
        )


def _output_difference(trial: TrialResult, budget: Budget) -> tuple[tuple[Piece, ...], str]:
    parent = trial.outcome.parent
    if parent is None:
        return (), "the recorded output is not at hand"
    return _compared(
        parent, trial.recorded_output_hash, trial.outcome.run, trial.outcome.run.run.output_hash, budget=budget
    )


def _step(step: StepDiff, trial: TrialResult, budget: Budget) -> StepView:
    pieces: tuple[Piece, ...] = ()
    note = ""
    if step.equal is False or step.state in {"added", "removed"}:
        pieces, note = _compared(
            trial.outcome.parent,
            None if step.state == "added" else step.parent_output_hash,
            trial.outcome.run,
            None if step.state == "removed" else step.output_hash,
            budget=budget,
        )
    return StepView(
        address=step.address,
        kind=step.kind,
        state=step.state,
        equal=step.equal,
        difference=pieces,
        note=note,
        settled=step.settled,
        differs=None if step.difference is None else difference_view(step.difference),
        why=why(step, trial.outcome.change),
    )


def _compared(
    parent: Recording | None, before: Hash | None, run: Recording, after: Hash | None, *, budget: Budget
) -> tuple[tuple[Piece, ...], str]:
    """The difference of two contents, or the reason why it is not shown."""
    if not budget.take():
        return (), f"{Budget.SPENT}: the report shows a bounded number of differences"
    old, old_gone = _content(parent, before)
    new, new_gone = _content(run, after)
    if old_gone or new_gone:
        return (), old_gone or new_gone
    pieces = difference(old or "", new or "")
    return pieces, "" if pieces else "the same text in another form"


def _content(recording: Recording | None, digest: Hash | None) -> tuple[str | None, str]:
    """A snapshot's text, and the reason when there is a hash but no text."""
    if recording is None or digest is None:
        return None, ""
    try:
        return readable(recording.read(digest)), ""
    except (DatasetMissing, StoreError) as error:
        return None, f"content {digest[:12]} is gone: {error}"
