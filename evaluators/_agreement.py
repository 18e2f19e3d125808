"""A judge beside people: agreement, what chance would give, kappa, and whether that is enough to gate on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluators._scale import Scale, Verdict
from harness.score import Score, TrialScores
from harness.statistics import Interval, Kappa, bootstrap_interval, cohens_kappa, wilson

Pair = tuple[Verdict, Verdict]
"""A person's verdict and the judge's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The judge's verdicts beside the people's."""

    kappa: Kappa
    agreement: Interval | None
    """Raw agreement; ``None`` without a labelled case."""
    labelled: int
    """Independent units (cases, or groups) that have both."""
    stale: int
    """Labels left out: of another output or rubric than the one judged."""
    unread: int
    """Labels that are no verdict of the scale."""
    needed: int
    """Units below which a judge counts as uncalibrated."""

    @property
    def calibrated(self) -> bool:
        """Enough labels, and agreement beyond chance."""
        low = self.kappa.low
        return self.labelled >= self.needed and low is not None and low > 0

    def sentence(self) -> str:
        """Agreement, chance and kappa in one line, and what follows."""
        kappa = self.kappa
        if kappa.agreement is None or kappa.chance is None:
            return f"no case has a label to compare with; not calibrated ({self.needed} needed), so it never gates"
        beyond = "kappa undefined"
        if kappa.value is not None:
            beyond = f"kappa {kappa.value:.2f}"
            if kappa.low is not None and kappa.high is not None:
                beyond += f" ({kappa.low:.2f} to {kappa.high:.2f})"
        text = f"agrees with people on {kappa.agreement:.0%}, chance gives {kappa.chance:.0%}; {beyond}, n = {kappa.n}"
        if self.calibrated:
            return f"{text}: calibrated"
        why = "not shown to be beyond chance"
        if self.labelled < self.needed:
            why = f"{self.labelled} labelled cases, {self.needed} needed"
        return f"{text}: not calibrated ({why}), so it never gates"

    def detail(self) -> dict[str, Any]:
        """JSON-ready."""
        kappa = self.kappa
        return {
            "agreement": kappa.agreement,
            "chance": kappa.chance,
            "kappa": kappa.value,
            "kappa_low": kappa.low,
            "kappa_high": kappa.high,
            "method": kappa.method,
            "labelled": self.labelled,
            "needed": self.needed,
            "stale_labels": self.stale,
            "unread_labels": self.unread,
            "calibrated": self.calibrated,
            "gates": self.calibrated,
        }


def agreement(
    trials: Sequence[TrialScores], scale: Scale, *, name: str, label: str, rubric: str, needed: int
) -> Agreement:
    """Compare the scores named ``name`` with the cases' labels named ``label``.

    A label is a verdict, or an object with the verdict as ``value`` and, where they are known, the ``rubric`` version
    and the ``output_hash`` it was given for; a label of another rubric or output is left out.
    """
    units: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)
    stale = unread = 0
    for trial in trials:
        score = next((s for s in trial.scores if s.name == name and s.value is not None), None)
        if score is None or score.value is None or trial.labels.get(label) is None:
            continue
        given = trial.labels[label]
        if isinstance(given, Mapping):
            if _stale(given, score, rubric):
                stale += 1
                continue
            given = given.get("value")
        person = scale.human(given)
        if person is None:
            unread += 1
            continue
        units["group" if trial.group else "case", trial.group or trial.case].append((person, score.value))
    found = list(units.values())
    return Agreement(
        kappa=_kappa(found),
        agreement=_raw(found),
        labelled=len(found),
        stale=stale,
        unread=unread,
        needed=needed,
    )


def _stale(label: Mapping[str, Any], score: Score, rubric: str) -> bool:
    for key, current in (("rubric", rubric), ("output_hash", score.detail.get("output_hash"))):
        if label.get(key) is not None and label[key] != current:
            return True
    return False


def _kappa(units: Sequence[Sequence[Pair]]) -> Kappa:
    """Kappa over all pairs; where units hold several, its interval comes from drawing units."""
    whole = _plain_kappa(units)
    if all(len(unit) == 1 for unit in units):
        return whole
    between = bootstrap_interval(units, lambda drawn: _plain_kappa(drawn).value, bounds=(-1.0, 1.0))
    return Kappa(
        value=whole.value,
        low=between.low if between else None,
        high=between.high if between else None,
        n=whole.n,
        agreement=whole.agreement,
        chance=whole.chance,
        method=between.method if between else "no interval",
    )


def _plain_kappa(units: Sequence[Sequence[Pair]]) -> Kappa:
    pairs = [pair for unit in units for pair in unit]
    return cohens_kappa([person for person, _ in pairs], [judge for _, judge in pairs])


def _raw(units: Sequence[Sequence[Pair]]) -> Interval | None:
    tallies = [(sum(a == b for a, b in unit), len(unit)) for unit in units]
    agreed, total = sum(a for a, _ in tallies), sum(n for _, n in tallies)
    if total == len(units):
        return wilson(agreed, total)
    return bootstrap_interval(tallies, lambda drawn: sum(a for a, _ in drawn) / sum(n for _, n in drawn))
