"""The gate: verdicts and thresholds become one word and one exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.dataset import Gate
from harness.experiment._evaluators import LoadedEvaluator
from harness.experiment._identity import unchanged
from harness.experiment._options import EvalOptions
from harness.experiment._summary import coverage
from harness.experiment._values import GateCheck, TrialResult, Verdict, Word
from harness.experiment._verdict import Evidence, judge, worst
from harness.score import Score, TrialScores

INTERRUPTED = 130
_CODES: Mapping[Word, int] = {
    "not_measurable": 4,
    "regressed": 1,
    "inconclusive": 0,
    "equivalent": 0,
    "improved": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the gate says of an experiment."""

    verdicts: Mapping[str, Verdict]
    checks: tuple[GateCheck, ...]
    word: Word
    exit_code: int
    notes: tuple[str, ...]


def rule(
    trials: Sequence[TrialResult],
    scores: Sequence[Score],
    *,
    baseline: Mapping[str, Score],
    evaluators: Sequence[LoadedEvaluator],
    gate: Gate,
    margins: Mapping[str, float],
    options: EvalOptions,
) -> Ruling:
    """Give every scorer its verdict, and all of them together one word and one exit code."""
    gated = dict.fromkeys([*gate.scorers, *gate.thresholds])
    candidates = {score.name: score for score in scores}
    loose = [name for name in gated if name in candidates and not calibrated(candidates[name])]
    names = dict.fromkeys([*gated, *(score.name for score in scores if score.number is not None)])
    by_name = {evaluator.name: evaluator for evaluator in evaluators}
    verdicts = {}
    for name in names:
        candidate = candidates.get(name)
        evaluator = by_name.get(candidate.evaluator if candidate else name)
        verdicts[name] = judge(
            _evidence(
                name,
                trials=trials,
                candidate=candidate,
                baseline=baseline.get(name),
                evaluator=evaluator,
                gate=gate,
                margin=margins.get(name),
                gating=name in gated and name not in loose,
            )
        )
    measured = _measured_check(trials, gate)
    checks = (measured, *_checks(verdicts, gate))
    word = _overall(verdicts, trials, measured)
    unsure = dict.fromkeys([*loose, *(score.evaluator for score in scores if not calibrated(score))])
    notes = tuple(f"{name} is shown and does not gate: {_doubt(name, scores)}" for name in unsure)
    return Ruling(verdicts=verdicts, checks=checks, word=word, exit_code=exit_code(word, options), notes=notes)


def _doubt(name: str, scores: Sequence[Score]) -> str:
    """What the judge's agreement with labels says about it."""
    about = [score.reason for score in scores if name in {score.name, score.evaluator} and not calibrated(score)]
    return next((reason for reason in about if reason and "calibrated" in reason), "its judge is uncalibrated")


def exit_code(word: Word, options: EvalOptions) -> int:
    """The process's exit code for an overall word."""
    code = 3 if word == "inconclusive" and options.strict else _CODES[word]
    return 0 if options.report_only and code in {1, 3} else code


def calibrated(score: Score) -> bool:
    """Whether a score may gate: one whose detail says ``"calibrated": false``, as a judge's can, may not."""
    return score.detail.get("calibrated") is not False


def trial_scores(trial: TrialResult, labels: Mapping[str, object]) -> TrialScores:
    """A trial as evaluators summarise it."""
    return TrialScores(case=trial.case, trial=trial.trial, group=trial.group, labels=labels, scores=trial.scores)


def _evidence(
    name: str,
    *,
    trials: Sequence[TrialResult],
    candidate: Score | None,
    baseline: Score | None,
    evaluator: LoadedEvaluator | None,
    gate: Gate,
    margin: float | None,
    gating: bool,
) -> Evidence:
    covered = coverage([trial_scores(trial, {}) for trial in trials], candidate.evaluator if candidate else name, name)
    return Evidence(
        name=name,
        candidate=candidate,
        baseline=baseline,
        measured=covered.measured,
        missing=covered.missing,
        min_measured=gate.min_measured if gating else 0.0,
        threshold=gate.thresholds.get(name) if gating else None,
        margin=margin,
        identical=all(unchanged(trial, evaluator) for trial in trials),
        gating=gating,
        against="the accepted baseline's" if any(trial.baseline_hashes for trial in trials) else "the recorded one",
    )


def _measured_check(trials: Sequence[TrialResult], gate: Gate) -> GateCheck:
    missing = sum(trial.outcome.status == "missing" for trial in trials)
    raised = sum(trial.outcome.status == "error" for trial in trials)
    finished = len(trials) - missing - raised
    passed = finished > 0 and finished >= gate.min_measured * len(trials)
    reason = f"{finished} of {len(trials)} trials finished, {gate.min_measured:.0%} needed"
    if raised:
        reason += f"; {raised} raised"
    if missing:
        reason += f"; {missing} lack a recording (--mode auto makes them)"
    return GateCheck(name="measured", passed=passed, reason=reason)


def _checks(verdicts: Mapping[str, Verdict], gate: Gate) -> list[GateCheck]:
    checks = []
    for name, verdict in verdicts.items():
        if not verdict.gating:
            continue
        passed = verdict.word not in {"not_measurable", "regressed"}
        least = gate.thresholds.get(name)
        reason = verdict.reason
        if passed and least is not None and verdict.candidate is not None:
            reason = f"{verdict.candidate:.4g} is at least {least:.4g}; {reason}"
        checks.append(GateCheck(name=name, passed=passed, reason=reason))
    return checks


def _overall(verdicts: Mapping[str, Verdict], trials: Sequence[TrialResult], measured: GateCheck) -> Word:
    if not measured.passed:
        return "not_measurable"
    words = [verdict.word for verdict in verdicts.values() if verdict.gating]
    if words:
        return worst(words)
    return "equivalent" if all(unchanged(trial, None) for trial in trials) else "inconclusive"
