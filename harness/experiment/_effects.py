"""What a change did to each score, beside what the same fork does with nothing changed.

Effects are given the recorded prefix: what comes before the fork step is as recorded in all of them. The figures
follow from the scores alone, and always come out the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from harness.experiment._values import ControlTrial, TrialResult
from harness.score import Score
from harness.statistics import Interval, further_draw, mean_interval, pooled_deviation

JitterWord = Literal["within jitter", "beyond jitter", "unknown"]
LEAST_CONTROLS = 2
"""Fewer control forks give no measure of their spread."""
LEAST_UNITS = 6
"""Fewer independent units give no word for the whole set."""
_LEVEL = 0.05
_NOISE = 1e-9
"""Differences below this are the rounding of floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEffect:
    """One score of one case: fork, recording and controls, averaged over the case's trials."""

    case: str
    group: str | None
    recorded: float
    fork: float
    controls: tuple[float, ...]
    """Of all trials, in order of trial, then number."""
    spread: float | None
    """Standard deviation of the controls among themselves; ``None`` without two of one trial."""
    reach: float | None
    """How far from the mean of what nothing changed in (recording and controls) one further such run would lie with
    95 %; ``None`` when they do not vary or are too few."""
    shift: float
    """Fork minus that mean."""
    word: JitterWord
    reason: str

    @property
    def effect(self) -> float:
        """Fork minus recorded."""
        return self.fork - self.recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerEffect:
    """One score over all cases."""

    name: str
    evaluator: str
    cases: tuple[CaseEffect, ...]
    """Most moved first."""
    unmeasured: int
    """Cases with controls that have no number on one of the sides."""
    effect: Interval | float
    """Fork minus recorded, the mean over units (groups, else cases) with its 95 % interval where there is one."""
    jitter: Interval | float
    """Controls minus recorded: how far nothing at all moves the score."""
    net: Interval | float
    """Fork minus controls."""
    word: JitterWord
    """Of ``net``."""
    reason: str

    def count(self, word: JitterWord) -> int:
        """How many cases have this word."""
        return sum(case.word == word for case in self.cases)


def effects(trials: Sequence[TrialResult]) -> tuple[ScorerEffect, ...]:
    """Effect and jitter per scorer and case, in order of the scores; empty when no trial has control forks."""
    with_controls = [trial for trial in trials if trial.controls]
    names: dict[str, str] = {}
    for trial in with_controls:
        for score in trial.scores:
            if score.number is not None:
                names.setdefault(score.name, score.evaluator)
    rows = (_scorer(name, evaluator, with_controls) for name, evaluator in names.items())
    return tuple(row for row in rows if row is not None)


def _scorer(name: str, evaluator: str, trials: Sequence[TrialResult]) -> ScorerEffect | None:
    by_case: defaultdict[str, list[TrialResult]] = defaultdict(list)
    for trial in trials:
        by_case[trial.case].append(trial)
    found = [_case(name, mine) for mine in by_case.values()]
    cases = [case for case in found if case is not None]
    if not cases:
        return None
    yes_or_no = all(isinstance(score.value, bool) for trial in trials for score in trial.scores if score.name == name)
    bounds = (-1.0, 1.0) if yes_or_no else None
    with_draws = [case for case in cases if case.controls]
    net = _over_units([(case, case.fork - fmean(case.controls)) for case in with_draws], bounds)
    word, reason = _over_all(net, len(_units([(case, 0.0) for case in with_draws])))
    return ScorerEffect(
        name=name,
        evaluator=evaluator,
        cases=tuple(sorted(cases, key=lambda case: (-abs(case.shift), case.case))),
        unmeasured=len(found) - len(cases),
        effect=_over_units([(case, case.effect) for case in cases], bounds),
        jitter=_over_units([(case, fmean(case.controls) - case.recorded) for case in with_draws], bounds),
        net=net,
        word=word,
        reason=reason,
    )


def _case(name: str, trials: Sequence[TrialResult]) -> CaseEffect | None:
    """One case; trials that lack a number on one side are left out, ``None`` when all do."""
    forks, recorded, groups, controls = [], [], [], []
    for trial in trials:
        ours, theirs = _number(trial.scores, name), trial.recorded_scores.get(name)
        before = None if theirs is None else theirs.number
        if ours is None or before is None:
            continue
        drawn = [one for control in trial.controls if (one := _number(control.scores, name)) is not None]
        forks.append(ours)
        recorded.append(before)
        controls.append(drawn)
        groups.append([before, *drawn])
    if not forks:
        return None
    shift = fmean(fork - fmean(draws) for fork, draws in zip(forks, groups, strict=True))
    further = further_draw(groups)
    alike = all(control.equal is True for trial in trials for control in trial.controls)
    word, reason = _word(
        shift,
        further,
        moved=any(abs(fork - before) > _NOISE for fork, before in zip(forks, recorded, strict=True)),
        draws=min(map(len, controls)),
        alike=alike,
        least=min(len(trial.controls) for trial in trials),
    )
    return CaseEffect(
        case=trials[0].case,
        group=trials[0].group,
        recorded=fmean(recorded),
        fork=fmean(forks),
        controls=tuple(one for drawn in controls for one in drawn),
        spread=pooled_deviation(controls),
        reach=further.high if further else None,
        shift=shift,
        word=word,
        reason=reason,
    )


def _word(
    shift: float, further: Interval | None, *, moved: bool, draws: int, alike: bool, least: int
) -> tuple[JitterWord, str]:
    """The word of one case, and the numbers it rests on.

    Args:
        shift: Fork minus the mean of what nothing changed in.
        further: Where a further run with nothing changed would lie; ``None`` when they do not vary.
        moved: Whether the fork's score differs from the recorded one in any trial.
        draws: Least number of control scores in a trial.
        alike: Whether every control gave the recorded output, byte for byte.
        least: Least number of control forks in a trial.
    """
    if draws < LEAST_CONTROLS:
        short = f"{draws} scored control fork{'s' * (draws != 1)} of {least}"
        return "unknown", f"K is too small: {short}, {LEAST_CONTROLS} are needed for a spread"
    if further is not None:
        inside = abs(shift) <= further.high
        told = f"{abs(shift):.4g} from the mean without the change, a further run lies within {further.high:.4g}"
        return ("within jitter" if inside else "beyond jitter"), told
    if not moved and abs(shift) <= _NOISE:
        return "within jitter", "the fork, the recording and all controls have the same score"
    if alike:
        return (
            "beyond jitter",
            f"all {draws} controls gave the recorded output byte for byte, the fork did not",
        )
    chance = 1 / (draws + 2)
    if chance <= _LEVEL:
        return "beyond jitter", f"no control moved; by chance the one that did is the fork in 1 of {draws + 2}"
    needed = round(1 / _LEVEL) - 2
    return "unknown", f"K is too small: no control moved, which {draws} of them leave to chance; {needed} would tell"


def _over_all(net: Interval | float, units: int) -> tuple[JitterWord, str]:
    if units < LEAST_UNITS:
        return "unknown", f"{units} independent cases with controls, {LEAST_UNITS} are needed"
    if isinstance(net, float):
        if abs(net) <= _NOISE:
            return "within jitter", "no case moved against its controls"
        return "unknown", "every case moved by the same amount, which gives no interval"
    interval = f"95 % interval {net.low:+.4g} to {net.high:+.4g} over {net.n}"
    if net.low <= 0 <= net.high:
        return "within jitter", f"fork minus controls {net.value:+.4g}, {interval} holds 0"
    return "beyond jitter", f"fork minus controls {net.value:+.4g}, {interval} leaves out 0"


def _over_units(values: Sequence[tuple[CaseEffect, float]], bounds: tuple[float, float] | None) -> Interval | float:
    means = _units(values)
    if not means:
        return 0.0
    # All equal to 0 is no spread at all, not a proportion to put an interval around.
    found = mean_interval(means, bounds=bounds) if any(abs(mean) > _NOISE for mean in means) else None
    return fmean(means) if found is None else found


def _units(values: Sequence[tuple[CaseEffect, float]]) -> list[float]:
    """One value per independent unit: the group where there is one, else the case."""
    units: defaultdict[tuple[str | None, str], list[float]] = defaultdict(list)
    for case, value in values:
        units[case.group, case.case if case.group is None else ""].append(value)
    return [fmean(numbers) for numbers in units.values()]


def _number(scores: Sequence[Score], name: str) -> float | None:
    return next((score.number for score in scores if score.name == name), None)


def output_word(fork_equal: bool | None, controls: Sequence[ControlTrial]) -> tuple[JitterWord, str]:
    """What the outputs alone say of one case: whether the change, or chance as well, gives another one."""
    known = [control.equal for control in controls if control.equal is not None]
    if fork_equal is None or not known:
        return "unknown", "there is nothing to compare"
    if fork_equal:
        return "within jitter", "the fork's output is the recorded one"
    differing = sum(equal is False for equal in known)
    if differing:
        return "within jitter", f"{differing} of {len(known)} controls differ from the recorded output as well"
    if len(known) < LEAST_CONTROLS:
        return "unknown", f"K is too small: {len(known)} control, {LEAST_CONTROLS} are needed"
    return "beyond jitter", f"all {len(known)} controls gave the recorded output, the fork did not"
