"""Tests of a difference, and the correction for several of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from harness.statistics._intervals import check_counts


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Exact two-sided p of McNemar's test; 1.0 when no item tells the two apart.

    Args:
        only_a: Items that only a got right.
        only_b: Items that only b got right.
    """
    check_counts(only_a=only_a, only_b=only_b)
    n = only_a + only_b
    tail = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1))
    return min(1.0, float(2 * tail / 2**n))


def mean_p_value(values: Sequence[float]) -> float | None:
    """Two-sided p of "the mean is 0" by the t test; on paired differences this is the paired t test.

    Returns:
        ``None`` for fewer than two values; 1.0 when all are 0; ``None`` when all are equal and not 0, as they
        carry no spread to test against.
    """
    n = len(values)
    if n < 2:
        return None
    if min(values) == max(values):
        return 1.0 if values[0] == 0 else None
    from scipy.stats import t

    statistic = fmean(values) / (stdev(values) / math.sqrt(n))
    return float(2 * t.sf(abs(statistic), n - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values, in the order given; reject where one is at most the level."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted
