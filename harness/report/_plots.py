"""Where the marks of the plots stand; the page's template draws them as SVG."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from harness.report._format import one_line
from harness.report.summary import CaseDifference, ScoreRow, Spending

WIDTH = 760.0
ROW = 44.0
_NAMES = 190.0
_GAP = 36.0
_EDGE = 28.0
_TOP = 34.0
_CASE_ROW = 20.0
_CASES = 40
_PLOTTED = 6


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from data to x coordinates."""

    low: float
    high: float
    left: float
    right: float

    def x(self, value: float) -> float:
        """The coordinate of a value, kept within the axis."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + min(1.0, max(0.0, share)) * (self.right - self.left), 1)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """At most seven round values."""
        step = _round_step((self.high - self.low) / 4)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(Tick(self.x(index * step), f"{index * step:.6g}") for index in range(first, last + 1))


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its interval; ``low`` and ``high`` are ``None`` without one."""

    x: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One scorer in the interval plot."""

    row: ScoreRow
    y: float
    candidate: Mark | None
    baseline: Mark | None
    difference: Mark | None
    margin: tuple[float, float] | None
    """Left and right end of the band in which a difference counts as none."""


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Scorers on a common scale: values on the left, differences on the right."""

    rows: tuple[IntervalRow, ...]
    values: Axis
    differences: Axis | None
    height: float


@dataclass(frozen=True, slots=True)
class CaseDot:
    """One case in the dot plot."""

    case: CaseDifference
    y: float
    x: float


@dataclass(frozen=True, slots=True)
class CasePlot:
    """The changed cases of one scorer, most lowered first."""

    names: tuple[str, ...]
    """Summary scores that rest on these case numbers."""
    dots: tuple[CaseDot, ...]
    axis: Axis
    height: float
    zero: float
    unchanged: int
    not_drawn: int


@dataclass(frozen=True, slots=True)
class Share:
    """Spent beside saved as parts of one bar; widths in percent of the bar."""

    spent: float
    saved: float


def interval_plots(rows: tuple[ScoreRow, ...]) -> tuple[IntervalPlot, ...]:
    """Scores between 0 and 1 share one plot; each other score has a scale of its own."""
    numbers = [row for row in rows if _points([row])]
    shared = [row for row in numbers if all(0 <= point <= 1 for point in _points([row]))]
    others = [[row] for row in numbers if row not in shared]
    return tuple(_interval_plot(group) for group in ([shared] if shared else []) + others)


def case_plots(rows: tuple[ScoreRow, ...]) -> tuple[CasePlot, ...]:
    """One plot per scorer with changed cases; scores that rest on the same case numbers share one."""
    shared: defaultdict[tuple[CaseDifference, ...], list[str]] = defaultdict(list)
    for row in rows:
        if any(case.changed for case in row.cases):
            shared[row.cases].append(row.name)
    return tuple(_case_plot(tuple(names), cases) for cases, names in list(shared.items())[:_PLOTTED])


def share(spent: float | None, saved: float | None) -> Share | None:
    """How a bar divides, ``None`` when a part is unknown or both are nothing."""
    if spent is None or saved is None or spent + saved <= 0:
        return None
    return Share(100 * spent / (spent + saved), 100 * saved / (spent + saved))


def shares(spending: Spending) -> tuple[Share | None, Share | None]:
    """The bars of tokens and of money."""
    cost = (
        None if spending.cost_spent is None else float(spending.cost_spent),
        None if spending.cost_saved is None else float(spending.cost_saved),
    )
    return share(spending.tokens_spent, spending.tokens_saved), share(*cost)


def short(text: str) -> str:
    """A name that fits the column of names."""
    return one_line(text, 26)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None


def _points(rows: Iterable[ScoreRow]) -> list[float]:
    found: list[float] = []
    for row in rows:
        for side in filter(None, (row.candidate, row.baseline)):
            value = _number(side.value)
            if value is not None:
                found += [point for point in (value, side.low, side.high) if point is not None]
    return found


def _interval_plot(rows: list[ScoreRow]) -> IntervalPlot:
    points = _points(rows)
    within = all(0 <= point <= 1 for point in points)
    low, high = (0.0, 1.0) if within else _padded(min(points), max(points))
    reach = [
        abs(value)
        for row in rows
        if row.difference is not None
        for value in (row.difference, row.low, row.high, row.margin)
        if value is not None
    ]
    middle = _NAMES + (WIDTH - _NAMES) * 0.52
    values = Axis(low, high, _NAMES, (middle if reach else WIDTH) - _EDGE)
    differences = None
    if reach:
        limit = max(reach) * 1.15 or 1.0
        differences = Axis(-limit, limit, middle + _GAP - _EDGE, WIDTH - _EDGE)
    drawn = tuple(_interval_row(row, _TOP + ROW * (index + 0.5), values, differences) for index, row in enumerate(rows))
    return IntervalPlot(drawn, values, differences, _TOP + ROW * len(rows) + 26)


def _interval_row(row: ScoreRow, y: float, values: Axis, differences: Axis | None) -> IntervalRow:
    candidate = row.candidate
    baseline = row.baseline
    margin = None
    difference = None
    if differences is not None and row.difference is not None:
        difference = _mark(differences, row.difference, row.low, row.high)
        if row.margin is not None:
            margin = differences.x(-row.margin), differences.x(row.margin)
    return IntervalRow(
        row,
        y,
        _mark(values, _number(candidate.value), candidate.low, candidate.high),
        _mark(values, _number(baseline.value), baseline.low, baseline.high) if baseline else None,
        difference,
        margin,
    )


def _mark(axis: Axis, value: float | None, low: float | None, high: float | None) -> Mark | None:
    if value is None:
        return None
    if low is None or high is None:
        return Mark(axis.x(value), None, None)
    return Mark(axis.x(value), axis.x(low), axis.x(high))


def _case_plot(names: tuple[str, ...], cases: tuple[CaseDifference, ...]) -> CasePlot:
    changed = drawn = tuple(case for case in cases if case.changed)
    if len(changed) > _CASES:
        drawn = changed[: _CASES // 2] + changed[-_CASES // 2 :]
    limit = max(abs(case.difference) for case in drawn)
    axis = Axis(-limit, limit, _NAMES + _EDGE, WIDTH - 3 * _EDGE)
    dots = tuple(
        CaseDot(case, _TOP + _CASE_ROW * (index + 0.5), axis.x(case.difference)) for index, case in enumerate(drawn)
    )
    height = _TOP + _CASE_ROW * len(drawn) + 8
    return CasePlot(names, dots, axis, height, axis.x(0), len(cases) - len(changed), len(changed) - len(drawn))


def _padded(low: float, high: float) -> tuple[float, float]:
    room = (high - low) * 0.1 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
