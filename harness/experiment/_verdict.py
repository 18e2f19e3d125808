"""Verdicts: one function per rule, tried in order; the first that has an answer gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.experiment._values import Basis, Verdict, Word
from harness.score import Score

WORST_FIRST: tuple[Word, ...] = ("not_measurable", "regressed", "inconclusive", "equivalent", "improved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known about one scorer when its verdict is given."""

    name: str
    candidate: Score | None
    """The experiment's summary score; ``None`` when no evaluator yielded one of this name."""
    baseline: Score | None
    """The accepted baseline's, over the same cases."""
    measured: int
    """Trials that have a result."""
    missing: int
    """Trials that should have one and have not."""
    min_measured: float
    """Least share of measured trials, between 0 and 1, for a gating scorer."""
    threshold: float | None
    """Least value that the gate accepts."""
    margin: float | None
    """Difference, declared before the run, within which two values count as equivalent."""
    identical: bool
    """Whether all that the scorer saw equals the accepted baseline's, or without one the recorded, by hash."""
    gating: bool
    against: str = "the recorded one"
    """What ``identical`` compares an output with, in words."""

    @property
    def share(self) -> float:
        """Measured trials out of all that should be measured."""
        total = self.measured + self.missing
        return self.measured / total if total else 0.0


Rule = Callable[[Evidence], Verdict | None]


def judge(evidence: Evidence) -> Verdict:
    """The verdict on one scorer."""
    for rule in RULES:
        verdict = rule(evidence)
        if verdict is not None:
            return verdict
    return _verdict(evidence, "inconclusive", reason=_difference_text(evidence))


def worst(words: Iterable[Word]) -> Word:
    """The worst of several words; there must be one at least."""
    return min(words, key=WORST_FIRST.index)


def not_measured(evidence: Evidence) -> Verdict | None:
    """Too little was measured to say anything: a gate fails closed."""
    enough = evidence.share >= evidence.min_measured and evidence.measured > 0
    if enough and _number(evidence.candidate) is not None:
        return None
    if evidence.candidate is None:
        reason = f"no evaluator yielded a score named {evidence.name!r}"
    elif enough:
        reason = f"the score is {evidence.candidate.status}: {evidence.candidate.reason or 'no reason given'}"
    else:
        total = evidence.measured + evidence.missing
        reason = f"{evidence.measured} of {total} trials measured, {evidence.min_measured:.0%} needed"
    return _verdict(evidence, "not_measurable", reason=reason)


def below_threshold(evidence: Evidence) -> Verdict | None:
    """A gating value below the gate's minimum fails, whatever it is compared with."""
    value = _number(evidence.candidate)
    if evidence.threshold is None or value is None or value >= evidence.threshold:
        return None
    reason = f"{value:.4g} is below the gate's {evidence.threshold:.4g}"
    return _verdict(evidence, "regressed", basis="threshold", reason=reason)


def identity(evidence: Evidence) -> Verdict | None:
    """Nothing that the scorer looks at has changed, so nothing needs a test."""
    if not evidence.identical:
        return None
    reason = f"every output equals {evidence.against}, by hash"
    return _verdict(evidence, "equivalent", basis="identity", reason=reason)


RULES: tuple[Rule, ...] = (not_measured, below_threshold, identity)
"""In order. What none of them decides is ``inconclusive``, with the difference shown."""


def _verdict(evidence: Evidence, word: Word, *, basis: Basis = "none", reason: str) -> Verdict:
    candidate, baseline = _number(evidence.candidate), _number(evidence.baseline)
    return Verdict(
        word=word,
        basis=basis,
        baseline=baseline,
        candidate=candidate,
        difference=None if candidate is None or baseline is None else candidate - baseline,
        margin=evidence.margin,
        reason=reason,
        gating=evidence.gating,
    )


def _difference_text(evidence: Evidence) -> str:
    candidate, baseline = _number(evidence.candidate), _number(evidence.baseline)
    if candidate is None or baseline is None:
        return "outputs changed and there is no accepted baseline to compare with; run `goldfork baseline accept`"
    return f"{baseline:.4g} before, {candidate:.4g} now ({candidate - baseline:+.4g}); outputs changed, no test decides"


def _number(score: Score | None) -> float | None:
    return None if score is None else score.number
