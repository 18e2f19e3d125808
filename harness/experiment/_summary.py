"""Summary scores: means per numeric scorer, what evaluators say of the whole, and how much is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from harness.experiment._evaluators import LoadedEvaluator
from harness.score import Score, Summarizer, TrialScores, to_scores
from harness.statistics import Interval, mean_interval, wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many trials have a result under one name, and how many should have one and have not."""

    measured: int = 0
    missing: int = 0
    skipped: int = 0
    """Trials to which the scorer does not apply, or where its value is undefined; neither measured nor missing."""


def coverage(trials: Sequence[TrialScores], evaluator: str, name: str) -> Coverage:
    """Count the results of one scorer.

    A trial whose evaluator failed before it could name its scores is missing under each of its names. A name that no
    trial holds (a score of the whole, such as macro F1) is covered as its evaluator is.
    """
    own = any(score.name == name for trial in trials for score in trial.scores if score.evaluator == evaluator)
    counts: defaultdict[str, int] = defaultdict(int)
    for trial in trials:
        counts[_state(trial, evaluator, name if own else None)] += 1
    return Coverage(measured=counts["scored"], missing=counts["failed"], skipped=counts["skipped"])


def _state(trial: TrialScores, evaluator: str, name: str | None) -> str:
    mine = [score for score in trial.scores if score.evaluator == evaluator]
    named = mine if name is None else [score for score in mine if score.name == name]
    statuses = {score.status for score in named or mine}
    if "scored" in statuses and (named or name is None):
        return "scored"
    return "failed" if "failed" in statuses or not mine else "skipped"


def summarise(trials: Sequence[TrialScores], evaluators: Sequence[LoadedEvaluator]) -> tuple[Score, ...]:
    """Summary scores in order of evaluator, then name; an evaluator's own word wins over a mean of the same name."""
    found: list[Score] = []
    for evaluator in evaluators:
        mine = [_only(trial, evaluator.name) for trial in trials]
        whole = _whole(evaluator, mine)
        taken = {score.name for score in whole}
        found += [score for score in _means(evaluator, mine) if score.name not in taken]
        found += whole
    return tuple(found)


def _only(trial: TrialScores, evaluator: str) -> TrialScores:
    return replace(trial, scores=tuple(score for score in trial.scores if score.evaluator == evaluator))


def _means(evaluator: LoadedEvaluator, trials: Sequence[TrialScores]) -> list[Score]:
    names = dict.fromkeys(score.name for trial in trials for score in trial.scores)
    return [score for name in names if (score := _mean(evaluator, trials, name)) is not None]


def _mean(evaluator: LoadedEvaluator, trials: Sequence[TrialScores], name: str) -> Score | None:
    """The mean over units (the group where there is one, else the case), ``None`` for labels."""
    scores = [(trial, score) for trial in trials for score in trial.scores if score.name == name]
    if any(isinstance(score.value, str) for _, score in scores):
        return None
    covered = coverage(trials, evaluator.name, name)
    detail = {"missing": covered.missing, "skipped": covered.skipped, "trials": covered.measured}
    empty = Score(
        name=name,
        status="undefined",
        reason="no trial has a value",
        evaluator=evaluator.name,
        version=evaluator.version,
        n=0,
        detail=detail,
    )
    values = _unit_means([(trial, score.number) for trial, score in scores if score.number is not None])
    if not values:
        status = "failed" if covered.missing else scores[0][1].status
        return replace(empty, status=status, reason=next((s.reason for _, s in scores if s.reason), empty.reason))
    measured = [score.value for _, score in scores if score.number is not None]
    interval = _interval(values, yes_or_no=all(isinstance(value, bool) for value in measured))
    return replace(
        empty,
        status="scored",
        reason=None,
        value=fmean(values),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        n=len(values),
    )


def _unit_means(values: Sequence[tuple[TrialScores, float]]) -> list[float]:
    """One value per independent unit: trials averaged within a case, cases within a group."""
    cases: defaultdict[tuple[str | None, str], list[float]] = defaultdict(list)
    for trial, number in values:
        cases[trial.group, trial.case].append(number)
    units: defaultdict[tuple[str | None, str], list[float]] = defaultdict(list)
    for (group, case), numbers in cases.items():
        units[group, case if group is None else ""].append(fmean(numbers))
    return [fmean(numbers) for numbers in units.values()]


def _interval(values: Sequence[float], *, yes_or_no: bool) -> Interval | None:
    """Only bools say what scale they are on; numbers that happen to be 0 and 1 need not be proportions."""
    if yes_or_no and all(value in {0.0, 1.0} for value in values):
        return wilson(sum(values), len(values))
    return mean_interval(values, bounds=(0.0, 1.0) if yes_or_no else None)


def _whole(evaluator: LoadedEvaluator, trials: Sequence[TrialScores]) -> list[Score]:
    if not isinstance(evaluator.subject, Summarizer):
        return []
    try:
        found = list(evaluator.subject.summarize(trials))
        return list(to_scores(found, name=evaluator.name, evaluator=evaluator.name, version=evaluator.version))
    except Exception as error:  # noqa: BLE001 - a plugin's crash is a failed score, never the end of the experiment
        return [
            Score(
                name=f"{evaluator.name}.summary",
                status="failed",
                reason=f"summarize raised {type(error).__name__}: {error}",
                evaluator=evaluator.name,
                version=evaluator.version,
            )
        ]
