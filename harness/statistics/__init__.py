"""Intervals, tests and agreement: pure functions over counts and plain sequences.

An interval that the data cannot give is ``None`` ("no interval"), never NaN and never of zero width: that
holds for empty data, for one value, and for equal values on a scale without known ends. How an interval was
made, and with which seed, stands in ``Interval.method``.
"""

from harness.statistics._agreement import Kappa, chance_agreement, cohens_kappa
from harness.statistics._intervals import (
    Interval,
    bootstrap_interval,
    bootstrap_values,
    clopper_pearson,
    mean_interval,
    newcombe,
    newcombe_paired,
    percentile_interval,
    wilson,
)
from harness.statistics._prediction import further_draw, pooled_deviation
from harness.statistics._significance import holm, mcnemar_exact, mean_p_value

__all__ = [
    "Interval",
    "Kappa",
    "bootstrap_interval",
    "bootstrap_values",
    "chance_agreement",
    "clopper_pearson",
    "cohens_kappa",
    "further_draw",
    "holm",
    "mcnemar_exact",
    "mean_interval",
    "mean_p_value",
    "newcombe",
    "newcombe_paired",
    "percentile_interval",
    "pooled_deviation",
    "wilson",
]
