"""Two experiments side by side."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageError
from harness.experiment._values import ExperimentResult, TrialResult
from harness.record import Recording
from harness.score import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePair:
    """One summary score in both."""

    name: str
    first: Score | None
    second: Score | None

    @property
    def difference(self) -> float | None:
        """Second minus first, where both are numbers."""
        before = self.first.number if self.first else None
        after = self.second.number if self.second else None
        return None if before is None or after is None else after - before


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two experiments on one dataset share and where they differ."""

    first: ExperimentResult
    second: ExperimentResult
    scores: tuple[ScorePair, ...]
    """In the first one's order, then what only the second has."""
    paired: int
    """Trials that both hold."""
    differing: tuple[tuple[str, int], ...]
    """Case and trial of those whose outputs differ, or where one has none."""
    unpaired: tuple[tuple[str, int], ...]
    """Case and trial that only one holds."""

    def runs(self, case: str, trial: int) -> tuple[Recording, Recording]:
        """The second and the first experiment's run of a trial that both hold, to be compared as any two runs."""
        first, second = (_trials(one)[case, trial] for one in (self.first, self.second))
        return second.outcome.run, first.outcome.run


def compare(first: ExperimentResult, second: ExperimentResult) -> Comparison:
    """Pair two experiments' scores and outputs.

    Raises:
        UsageError: They are of different datasets.
    """
    if first.dataset != second.dataset:
        raise UsageError(
            f"experiment {first.id} is of dataset {first.dataset!r} and {second.id} of {second.dataset!r}; "
            "compare two of the same dataset"
        )
    before, after = _trials(first), _trials(second)
    names = dict.fromkeys(score.name for score in (*first.scores, *second.scores))
    ours = {score.name: score for score in first.scores}
    theirs = {score.name: score for score in second.scores}
    both = sorted(before.keys() & after.keys())
    return Comparison(
        first=first,
        second=second,
        scores=tuple(ScorePair(name=name, first=ours.get(name), second=theirs.get(name)) for name in names),
        paired=len(both),
        differing=tuple(key for key in both if not _equal(before[key], after[key])),
        unpaired=tuple(sorted(before.keys() ^ after.keys())),
    )


def _trials(result: ExperimentResult) -> dict[tuple[str, int], TrialResult]:
    return {(trial.case, trial.trial): trial for trial in result.trials}


def _equal(before: TrialResult, after: TrialResult) -> bool:
    first, second = before.outcome.run.run.output_hash, after.outcome.run.run.output_hash
    return first is not None and first == second
