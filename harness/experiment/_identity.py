"""Whether all that an evaluator looks at is the same as in what the experiment is compared with, by hash."""

from __future__ import annotations

from harness.canonical import canonical_json, content_hash
from harness.experiment._evaluators import LoadedEvaluator
from harness.experiment._values import TrialHashes, TrialResult
from harness.record import Hash
from harness.replay import RunOutcome


def unchanged(trial: TrialResult, evaluator: LoadedEvaluator | None) -> bool:
    """Whether every hash that the evaluator depends on is known on both sides and equal.

    A trial is paired with the accepted baseline's, or with the recording when there is no baseline. One that raised or
    was not measured has nothing to pair.
    """
    if trial.outcome.status != "ok":
        return False
    if trial.baseline_hashes is None:
        return _as_recorded(trial, evaluator)
    ours, theirs = hashes_of(trial.outcome), trial.baseline_hashes
    if evaluator is not None and evaluator.sees_run:
        return _same(ours.output, theirs.output) and _same(ours.trace, theirs.trace)
    if evaluator is not None and evaluator.step is not None:
        mine = _named(ours, evaluator.step, trial.outcome)
        return bool(mine) and all(_same(ours.steps[step], theirs.steps.get(step)) for step in mine)
    return _same(ours.output, theirs.output)


def hashes_of(outcome: RunOutcome) -> TrialHashes:
    """What a run gave, by hash."""
    steps = [step for step in outcome.diff.steps if step.state != "removed"]
    rows = sorted([step.kind, step.address, step.output_hash or ""] for step in steps)
    return TrialHashes(
        output=outcome.run.run.output_hash,
        steps={step.address: step.output_hash for step in steps if step.kind != "tool"},
        trace=content_hash(canonical_json(rows)) if all(step.output_hash for step in steps) else None,
    )


def _as_recorded(trial: TrialResult, evaluator: LoadedEvaluator | None) -> bool:
    diff = trial.outcome.diff
    if evaluator is not None and evaluator.sees_run:
        return trial.equal is True and diff.first_divergence is None
    if evaluator is not None and evaluator.step is not None:
        mine = [step for step in diff.steps if evaluator.step in {step.address, step.name}]
        return bool(mine) and all(step.equal is True for step in mine)
    return trial.equal is True


def _named(hashes: TrialHashes, name: str, outcome: RunOutcome) -> list[str]:
    found = {step.address for step in outcome.diff.steps if name in {step.address, step.name}}
    return [address for address in hashes.steps if address in found]


def _same(left: Hash | None, right: Hash | None) -> bool:
    return left is not None and left == right
