"""Intervals of proportions, means, differences, and of any figure by bootstrap."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import TypeVar

Unit = TypeVar("Unit")


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval."""

    value: float
    low: float
    high: float
    n: int
    """Units it rests on; for a difference of two groups, both together."""
    confidence: float
    method: str
    """How it was made, in words a report can print: ``Wilson``, ``percentile bootstrap, …, seed 0``."""


def z_value(confidence: float) -> float:
    """The standard normal quantile that leaves half of 1 - confidence above it."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence!r} is not between 0 and 1")
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def check_counts(**counts: float) -> None:
    """Refuse negative counts by name."""
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name} is {count}: a count is not negative")


def wilson(successes: float, n: int, *, confidence: float = 0.95) -> Interval | None:
    """Wilson's score interval of a proportion; ``None`` for n = 0.

    Args:
        successes: How many of ``n``; may be fractional when it stands for n times a mean on a 0 to 1 scale.
        n: Number of independent units.
        confidence: Coverage, 0 to 1.

    Raises:
        ValueError: ``successes`` is not between 0 and ``n``.
    """
    check_counts(successes=successes, failures=n - successes)
    z = z_value(confidence)
    if n == 0:
        return None
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes == 0 else max(0.0, (centre - half) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + half) / scale)
    return Interval(p, low, high, n, confidence, "Wilson")


def clopper_pearson(successes: int, n: int, *, confidence: float = 0.95) -> Interval | None:
    """The exact (conservative) interval of a proportion; ``None`` for n = 0.

    Raises:
        ValueError: ``successes`` is not between 0 and ``n``.
    """
    check_counts(successes=successes, failures=n - successes)
    tail = (1 - confidence) / 2
    z_value(confidence)
    if n == 0:
        return None
    from scipy.stats import beta

    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.ppf(1 - tail, successes + 1, n - successes))
    return Interval(successes / n, low, high, n, confidence, "Clopper-Pearson")


def mean_interval(
    values: Sequence[float],
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Interval | None:
    """The mean with Student's t interval; ``None`` for fewer than two values.

    Args:
        values: One value per independent unit (average the trials of a case first).
        confidence: Coverage, 0 to 1.
        bounds: Ends of the scale, beyond which the interval does not reach; ignored where a value does. Equal
            values carry no spread to estimate; inside known ends they get Wilson's interval, which is conservative
            there, otherwise none. ``None``: no known ends.
    """
    n = len(values)
    if n < 2:
        return None
    mean = fmean(values)
    if min(values) == max(values):
        return _all_equal(values[0], n, confidence, bounds)
    from scipy.stats import t

    half = float(t.ppf(0.5 + confidence / 2, n - 1)) * stdev(values) / math.sqrt(n)
    low, high = mean - half, mean + half
    if low == high:
        # Values so close together that their spread is lost in the rounding of the mean.
        return _all_equal(mean, n, confidence, bounds)
    if bounds is not None and bounds[0] <= min(values) and max(values) <= bounds[1]:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Interval(mean, low, high, n, confidence, "Student t")


def _all_equal(value: float, n: int, confidence: float, bounds: tuple[float, float] | None) -> Interval | None:
    if bounds is None or not bounds[0] <= value <= bounds[1] or bounds[0] == bounds[1]:
        return None
    start, width = bounds[0], bounds[1] - bounds[0]
    unit = wilson(n * (value - start) / width, n, confidence=confidence)
    if unit is None:
        return None
    low, high = start + width * unit.low, start + width * unit.high
    return Interval(value, low, high, n, confidence, "Wilson (all values are equal)")


def newcombe(successes_a: int, n_a: int, successes_b: int, n_b: int, *, confidence: float = 0.95) -> Interval | None:
    """The difference of two independent proportions, a - b, by Newcombe's hybrid score method (his 10).

    Returns:
        ``None`` when either group is empty.
    """
    a = wilson(successes_a, n_a, confidence=confidence)
    b = wilson(successes_b, n_b, confidence=confidence)
    if a is None or b is None:
        return None
    d = a.value - b.value
    low = d - math.hypot(a.value - a.low, b.high - b.value)
    high = d + math.hypot(a.high - a.value, b.value - b.low)
    return Interval(d, low, high, n_a + n_b, confidence, "Newcombe")


def newcombe_paired(both: int, only_a: int, only_b: int, neither: int, *, confidence: float = 0.95) -> Interval | None:
    """The difference a - b of two proportions over the *same* items, by Newcombe's paired score method.

    Args:
        both: Items that a and b got right.
        only_a: Items that only a got right.
        only_b: Items that only b got right.
        neither: Items that neither got right.
        confidence: Coverage, 0 to 1.

    Returns:
        ``None`` without items.
    """
    check_counts(both=both, only_a=only_a, only_b=only_b, neither=neither)
    n = both + only_a + only_b + neither
    a = wilson(both + only_a, n, confidence=confidence)
    b = wilson(both + only_b, n, confidence=confidence)
    if a is None or b is None:
        return None
    phi = _phi(both, only_a, only_b, neither)
    d = (only_a - only_b) / n
    left, right = (a.value - a.low, b.high - b.value), (a.high - a.value, b.value - b.low)
    low = d - math.sqrt(max(0.0, left[0] ** 2 - 2 * phi * left[0] * left[1] + left[1] ** 2))
    high = d + math.sqrt(max(0.0, right[0] ** 2 - 2 * phi * right[0] * right[1] + right[1] ** 2))
    return Interval(d, max(-1.0, low), min(1.0, high), n, confidence, "Newcombe, paired")


def _phi(both: int, only_a: int, only_b: int, neither: int) -> float:
    """Correlation of the two outcomes, continuity-corrected where positive; 0 when a margin is empty."""
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    if margins == 0:
        return 0.0
    product = float(both * neither - only_a * only_b)
    if product > 0:
        product = max(product - (both + only_a + only_b + neither) / 2, 0.0)
    return product / math.sqrt(margins)


def bootstrap_values(
    units: Sequence[Unit],
    statistic: Callable[[Sequence[Unit]], float | None],
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> list[float]:
    """The statistic of ``resamples`` draws of as many units, with replacement; undefined ones are left out.

    Args:
        units: The independent units: cases, or groups of cases, never single trials of one case.
        statistic: A figure of a list of units, ``None`` where it is undefined.
        seed: Makes the draws repeatable; store it with the figure.
        resamples: How many draws.
    """
    draw = random.Random(seed)  # noqa: S311 - repeatable draws, not secrets
    values = []
    for _ in range(resamples if units else 0):
        value = statistic(draw.choices(units, k=len(units)))
        if value is not None:
            values.append(value)
    return values


def bootstrap_interval(
    units: Sequence[Unit],
    statistic: Callable[[Sequence[Unit]], float | None],
    *,
    seed: int = 0,
    resamples: int = 2000,
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Interval | None:
    """The percentile bootstrap interval of a statistic over units.

    Args:
        units: The independent units: cases, or groups of cases.
        statistic: A figure of a list of units, ``None`` where it is undefined.
        seed: Makes the draws repeatable; it is part of ``Interval.method``.
        resamples: How many draws.
        confidence: Coverage, 0 to 1.
        bounds: Ends of the statistic's scale; as in ``mean_interval``, for draws that are all equal.

    Returns:
        ``None`` for fewer than two units, an undefined statistic, or one that is undefined in most draws.
    """
    value = statistic(units) if len(units) > 1 else None
    if value is None:
        return None
    draws = bootstrap_values(units, statistic, seed=seed, resamples=resamples)
    method = f"percentile bootstrap, {resamples} resamples, seed {seed}"
    if len(draws) < resamples:
        method += f", {resamples - len(draws)} undefined"
    if 2 * len(draws) <= resamples:
        return None
    return percentile_interval(value, draws, n=len(units), confidence=confidence, method=method, bounds=bounds)


def percentile_interval(
    value: float,
    draws: Sequence[float],
    *,
    n: int,
    method: str,
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Interval | None:
    """The percentile interval of bootstrap draws of a figure.

    Args:
        value: The figure on the data themselves.
        draws: The figure on each resample.
        n: Units that were drawn from.
        method: How the draws were made, seed included.
        confidence: Coverage, 0 to 1.
        bounds: Ends of the figure's scale; as in ``mean_interval``, for draws that are all equal.

    Returns:
        ``None`` without draws, for fewer than two units, or for draws that are (nearly) all equal without ``bounds``.
    """
    z_value(confidence)
    ordered = sorted(draws)
    if not ordered or n < 2:
        return None
    if ordered[0] == ordered[-1]:
        return _all_equal(value, n, confidence, bounds)
    tail = (1 - confidence) / 2
    low, high = _quantile(ordered, tail), _quantile(ordered, 1 - tail)
    return Interval(value, low, high, n, confidence, method) if low < high else _all_equal(value, n, confidence, bounds)


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
