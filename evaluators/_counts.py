"""Precision, recall and F1 from counts, and their bootstrap over units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from harness.statistics import Interval, percentile_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Figure = Literal["precision", "recall", "f1"]
Average = Literal["macro", "micro", "weighted"]
Counts = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""Of one unit, per label: true positives, false positives, false negatives."""

FIGURES: tuple[Figure, ...] = ("precision", "recall", "f1")
AVERAGES: tuple[Average, ...] = ("macro", "micro", "weighted")
RESAMPLES = 2000
SEED = 0


def ratio(figure: Figure, tp: float, fp: float, fn: float) -> float | None:
    """One figure from counts, ``None`` for 0/0; F1 is 2TP / (2TP + FP + FN)."""
    above, below = {
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "f1": (2 * tp, 2 * tp + fp + fn),
    }[figure]
    return above / below if below else None


def draws(units: Sequence[Counts], *, filler: float) -> Mapping[tuple[Figure, Average], list[float]]:
    """Each figure and average on ``RESAMPLES`` draws of the units; draws where it is undefined are left out.

    Args:
        units: One entry per independent unit, all over the same labels.
        filler: What a label's 0/0 becomes; NaN leaves the label out of the averages.
    """
    import numpy as np

    table = np.asarray(units, dtype=np.float64)
    n = len(units)
    times = np.random.default_rng(SEED).multinomial(n, [1 / n] * n, size=RESAMPLES).astype(np.float64)
    tp, fp, fn = np.moveaxis(np.tensordot(times, table, axes=1), 1, 0)
    found: dict[tuple[Figure, Average], list[float]] = {}
    for figure in FIGURES:
        above, below = _fraction(figure, tp, fp, fn)
        each = _divide(above, below, filler)
        found[figure, "macro"] = _defined(_weighted_mean(each, np.ones_like(each)))
        found[figure, "micro"] = _defined(_divide(above.sum(axis=1), below.sum(axis=1), filler))
        found[figure, "weighted"] = _defined(_weighted_mean(each, tp + fn))
    return found


def interval(value: float | None, drawn: Sequence[float], *, n: int) -> Interval | None:
    """The percentile interval of one figure; ``None`` when it is undefined, there, or in most draws."""
    if value is None or 2 * len(drawn) <= RESAMPLES:
        return None
    method = f"percentile bootstrap over units, {RESAMPLES} resamples, seed {SEED}"
    if len(drawn) < RESAMPLES:
        method += f", {RESAMPLES - len(drawn)} undefined"
    return percentile_interval(value, drawn, n=n, method=method)


def _fraction(figure: Figure, tp: Array, fp: Array, fn: Array) -> tuple[Array, Array]:
    if figure == "precision":
        return tp, tp + fp
    if figure == "recall":
        return tp, tp + fn
    return 2 * tp, 2 * tp + fp + fn


def _divide(above: Array, below: Array, filler: float) -> Array:
    import numpy as np

    return np.divide(above, below, out=np.full_like(above, filler), where=below != 0)


def _weighted_mean(values: Array, weights: Array) -> Array:
    """Mean over labels of the defined values; undefined when none is, or their weights are all 0."""
    import numpy as np

    kept = np.where(np.isnan(values), 0.0, weights)
    return _divide((np.nan_to_num(values) * kept).sum(axis=1), kept.sum(axis=1), math.nan)


def _defined(values: Array) -> list[float]:
    import numpy as np

    return [float(value) for value in values[~np.isnan(values)]]
