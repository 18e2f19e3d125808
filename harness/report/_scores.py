"""Summary scores beside the baseline's, and the cases' own numbers below them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

from harness.experiment import ExperimentResult, TrialResult, Verdict
from harness.report.summary import CaseDifference, Measured, ScoreRow
from harness.score import Score

_NOTHING = Verdict(word="inconclusive", basis="none")


def score_rows(result: ExperimentResult) -> tuple[ScoreRow, ...]:
    """One row per summary score, the gate's first; a verdict on a score that is absent has a row too."""
    scores = {score.name: score for score in result.scores}
    for name in result.verdicts:
        scores.setdefault(name, Score(name=name, status="undefined", reason="no trial was scored"))
    rows = [_row(score, result) for score in scores.values()]
    return tuple(sorted(rows, key=lambda row: not row.gating))


def related(name: str, evaluator: str, scores: Iterable[Score]) -> tuple[Score, ...]:
    """The scores of one trial that a summary score rests on.

    They have the same name, else a prefix of it, else the same evaluator.
    """
    found = tuple(scores)
    return (
        tuple(score for score in found if score.name == name)
        or tuple(score for score in found if name.startswith(f"{score.name}."))
        or tuple(score for score in found if evaluator and score.evaluator == evaluator)
    )


def related_number(name: str, evaluator: str, scores: Iterable[Score]) -> Score | None:
    """The first of those that is a number."""
    return next((score for score in related(name, evaluator, scores) if score.number is not None), None)


def _row(score: Score, result: ExperimentResult) -> ScoreRow:
    verdict = result.verdicts.get(score.name)
    told = verdict or _NOTHING
    baseline = result.baseline_scores.get(score.name)
    reference = _measured(baseline) if baseline else _from_number(told.baseline)
    return ScoreRow(
        name=score.name,
        candidate=_measured(score),
        baseline=reference,
        n=score.n,
        missing=_missing(score, result.trials),
        word=verdict.word if verdict else None,
        basis=told.basis,
        difference=told.difference,
        low=told.low,
        high=told.high,
        margin=told.margin,
        gating=told.gating,
        reason=told.reason or score.reason or "",
        cases=_case_differences(score, result.trials),
    )


def _measured(score: Score) -> Measured:
    return Measured(value=score.value, low=score.low, high=score.high, status=score.status, reason=score.reason)


def _from_number(value: float | None) -> Measured | None:
    return None if value is None else Measured(value=value)


def _missing(score: Score, trials: tuple[TrialResult, ...]) -> int:
    """As the experiment counted; else trials whose evaluator failed or never came to run."""
    counted = score.detail.get("missing")
    if isinstance(counted, int):
        return counted
    found = [related(score.name, score.evaluator, trial.scores) for trial in trials]
    if not any(found):
        return sum(trial.outcome.status != "ok" for trial in trials)
    statuses = [{one.status for one in scores} for scores in found]
    return sum("scored" not in seen and ("failed" in seen or not seen) for seen in statuses)


def _case_differences(score: Score, trials: tuple[TrialResult, ...]) -> tuple[CaseDifference, ...]:
    sides: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for trial in trials:
        one = related_number(score.name, score.evaluator, trial.scores)
        before = trial.baseline_scores.get(one.name) if one is not None else None
        if one is not None and before is not None and one.number is not None and before.number is not None:
            sides[trial.case].append((one.number, before.number))
    rows = [
        CaseDifference(case, fmean(ours for ours, _ in pairs), fmean(theirs for _, theirs in pairs))
        for case, pairs in sides.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.difference, row.case)))
