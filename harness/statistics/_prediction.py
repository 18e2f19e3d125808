"""Where one further draw would lie, given some draws of the same thing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from harness.statistics._intervals import Interval


def pooled_deviation(groups: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation within groups, pooled over them; ``None`` when no group has two draws.

    Args:
        groups: The draws of each group, whose own mean they are measured from.
    """
    freedom = sum(len(draws) - 1 for draws in groups if draws)
    if freedom < 1:
        return None
    squares = 0.0
    for draws in groups:
        if draws and min(draws) != max(draws):
            mean = fmean(draws)
            squares += sum((draw - mean) ** 2 for draw in draws)
    return math.sqrt(squares / freedom)


def further_draw(groups: Sequence[Sequence[float]], *, confidence: float = 0.95) -> Interval | None:
    """Where one further draw of every group would lie beside the group's mean, averaged over the groups.

    Student's t prediction interval with a deviation pooled over the groups: a new draw that comes from elsewhere falls
    outside more often than 1 - ``confidence``.

    Args:
        groups: The draws of each group, one at least; every group gets one further draw.
        confidence: Coverage, 0 to 1.

    Returns:
        An interval around 0; ``None`` without two degrees of freedom, or when the draws do not vary.

    Raises:
        ValueError: A group is empty.
    """
    if not all(groups):
        raise ValueError("a group without draws has no mean to compare with")
    deviation = pooled_deviation(groups)
    freedom = sum(len(draws) - 1 for draws in groups)
    if not deviation or freedom < 2:
        return None
    from scipy.stats import t

    variance = sum(1 + 1 / len(draws) for draws in groups) / len(groups) ** 2
    half = float(t.ppf(0.5 + confidence / 2, freedom)) * deviation * math.sqrt(variance)
    n = sum(len(draws) for draws in groups)
    return Interval(0.0, -half, half, n, confidence, "Student t, one further draw")
