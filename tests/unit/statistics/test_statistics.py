"""Intervals, tests and agreement equal the published numbers, and say "no interval" where there is none."""

from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from harness.statistics import (
    bootstrap_interval,
    bootstrap_values,
    chance_agreement,
    clopper_pearson,
    cohens_kappa,
    holm,
    mcnemar_exact,
    mean_interval,
    mean_p_value,
    newcombe,
    newcombe_paired,
    percentile_interval,
    wilson,
)

LSAT = [576, 635, 558, 578, 666, 580, 555, 661, 651, 605, 653, 575, 545, 572, 594]
GPA = [3.39, 3.30, 2.81, 3.03, 3.44, 3.07, 3.00, 3.43, 3.36, 3.13, 3.12, 2.74, 2.76, 2.88, 2.96]
MICE_TREATED = [94, 197, 16, 38, 99, 141, 23]
MICE_CONTROL = [52, 104, 146, 10, 51, 30, 40, 27, 46]
SLEEP_FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
BENJAMINI_HOCHBERG = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
    0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000,
]  # fmt: skip


@pytest.mark.parametrize(
    ("x", "n", "by_wilson", "exact"),
    [
        (81, 263, (0.2553, 0.3662), (0.2527, 0.3676)),
        (15, 148, (0.0624, 0.1605), (0.0578, 0.1617)),
        (0, 20, (0.0, 0.1611), (0.0, 0.1684)),
        (1, 29, (0.0061, 0.1718), (0.0009, 0.1776)),
    ],
)
def test_intervals_of_a_proportion_equal_newcombes_table(x, n, by_wilson, exact):
    for interval, (low, high) in ((wilson(x, n), by_wilson), (clopper_pearson(x, n), exact)):
        assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)
        assert (interval.value, interval.n) == (x / n, n)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [((56, 70, 48, 80), 0.0524, 0.3339), ((9, 10, 3, 10), 0.1705, 0.8090), ((10, 10, 0, 20), 0.6791, 1.0)],
)
def test_difference_of_proportions_equals_newcombes_table(counts, low, high):
    interval = newcombe(*counts)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@pytest.mark.parametrize(("counts", "p"), [((6, 16), 0.05248), ((121, 59), 4.43e-06), ((150, 86), 3.716e-05)])
def test_mcnemar_equals_the_published_p(counts, p):
    assert mcnemar_exact(*counts) == pytest.approx(p, rel=2e-3)
    assert mcnemar_exact(*counts[::-1]) == mcnemar_exact(*counts)


@pytest.mark.parametrize(
    ("cells", "kappa"), [((20, 5, 10, 15), 0.4000), ((45, 15, 25, 15), 0.1304), ((25, 35, 5, 35), 0.2593)]
)
def test_kappa_equals_the_published_values(cells, kappa):
    first, second = raters(cells)
    found = cohens_kappa(first, second)
    assert round(found.value, 4) == kappa
    assert found.low < found.value < found.high
    assert found.agreement == (cells[0] + cells[3]) / sum(cells)
    assert found.chance == chance_agreement(first, second)
    assert found.n == sum(cells)


def raters(cells: tuple[int, int, int, int]) -> tuple[list[str], list[str]]:
    both, yes_no, no_yes, neither = cells
    first = ["yes"] * (both + yes_no) + ["no"] * (no_yes + neither)
    second = ["yes"] * both + ["no"] * yes_no + ["yes"] * no_yes + ["no"] * neither
    return first, second


def test_kappas_standard_error_equals_a_published_one():
    # Fleiss, Levin and Paik 2003, table 18.4: kappa 0.676 with standard error 0.088
    table = {("p", "p"): 75, ("p", "n"): 1, ("p", "o"): 4, ("n", "p"): 5, ("n", "n"): 4, ("n", "o"): 1,
             ("o", "p"): 0, ("o", "n"): 0, ("o", "o"): 10}  # fmt: skip
    pairs = [pair for pair, count in table.items() for _ in range(count)]
    found = cohens_kappa([a for a, _ in pairs], [b for _, b in pairs])
    assert found.value == pytest.approx(0.676, abs=5e-4)
    assert (found.high - found.low) / 2 / 1.959964 == pytest.approx(0.088, abs=5e-4)


def test_full_agreement_is_not_certain_and_one_label_has_no_kappa():
    full = cohens_kappa(["a", "b"] * 5, ["a", "b"] * 5)
    assert (full.value, full.high) == (1.0, 1.0)
    assert 0 < full.low < 1
    single = cohens_kappa(["a"] * 5, ["a"] * 5)
    assert (single.value, single.agreement, single.chance) == (None, 1.0, 1.0)
    assert cohens_kappa([], []).value is None
    with pytest.raises(ValueError, match="join them by id"):
        cohens_kappa(["a"], [])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=40))
def test_kappa_equals_scikit_learns(pairs):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found = cohens_kappa(first, second)
    if found.value is None:
        assert len({*first, *second}) == 1
    else:
        assert found.value == pytest.approx(cohen_kappa_score(first, second))


def test_the_paired_t_test_equals_the_sleep_data():
    differences = [a - b for a, b in zip(SLEEP_FIRST, SLEEP_SECOND, strict=True)]
    assert mean_p_value(differences) == pytest.approx(0.002833, abs=5e-7)
    interval = mean_interval(differences)
    assert (round(interval.low, 4), round(interval.high, 4)) == (-2.4599, -0.7001)


def test_a_mean_without_spread_has_no_test():
    assert mean_p_value([0.0, 0.0]) == 1.0
    assert mean_p_value([0.5, 0.5]) is None
    assert mean_p_value([1.0]) is None


def test_holm_rejects_three_of_benjamini_and_hochbergs_fifteen():
    adjusted = holm(BENJAMINI_HOCHBERG)
    assert sum(p <= 0.05 for p in adjusted) == 3
    assert adjusted[0] == pytest.approx(15 * 0.0001)
    assert holm(BENJAMINI_HOCHBERG[::-1]) == adjusted[::-1]
    assert adjusted == sorted(adjusted)
    assert holm([]) == []


def test_bootstrap_of_the_law_schools():
    def correlation(pairs):
        return pearson([x for x, _ in pairs], [y for _, y in pairs])

    schools = list(zip(LSAT, GPA, strict=True))
    assert correlation(schools) == pytest.approx(0.7764, abs=5e-5)
    assert stdev(bootstrap_values(schools, correlation, resamples=3200)) == pytest.approx(0.134, abs=0.005)


def pearson(x: list[float], y: list[float]) -> float | None:
    mx, my = fmean(x), fmean(y)
    above = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    below = math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))
    return above / below if below else None


def test_bootstrap_of_the_mice():
    assert fmean(MICE_TREATED) - fmean(MICE_CONTROL) == pytest.approx(30.63, abs=5e-3)
    treated = bootstrap_values(MICE_TREATED, fmean, seed=1, resamples=4000)
    control = bootstrap_values(MICE_CONTROL, fmean, seed=2, resamples=4000)
    error = stdev([a - b for a, b in zip(treated, control, strict=True)])
    assert error == pytest.approx(26.91, rel=0.03)


def test_the_seed_makes_a_bootstrap_repeatable_and_is_stored():
    values = [0, 1, 1, 0, 1, 1, 1, 0]
    first = bootstrap_interval(values, fmean, seed=7)
    assert first == bootstrap_interval(values, fmean, seed=7)
    assert first.method == "percentile bootstrap, 2000 resamples, seed 7"
    assert first.low < first.value < first.high
    assert bootstrap_values(values, fmean, seed=7) != bootstrap_values(values, fmean, seed=8)


def test_undefined_draws_are_counted_and_too_many_give_no_interval():
    def share(units):
        return sum(units) / len(units) if 1 in units else None

    assert "undefined" in bootstrap_interval([0, 0, 1], share).method
    assert bootstrap_interval([0] * 9 + [1], lambda units: share(units) if sum(units) > 1 else None) is None
    mostly = bootstrap_interval([0] * 9 + [1], lambda units: 1.0 if units.count(1) == 1 else None)
    assert mostly is None


def test_c027_exact_mcnemar():
    discordant = [(0, 0), (6, 1), (5, 0), (6, 0), (9, 2)]
    expected = [1, 0.125, 0.0625, 0.03125, 0.0654]
    assert [mcnemar_exact(*pair) for pair in discordant] == pytest.approx(expected, abs=5e-5)


def test_c027_the_paired_difference_is_shown_with_its_interval():
    interval = newcombe_paired(both=20, only_a=6, only_b=1, neither=3)
    assert interval.value == pytest.approx(5 / 30)
    assert interval.low < 0 < interval.value < interval.high
    unpaired = newcombe(26, 30, 21, 30)
    assert interval.high - interval.low < unpaired.high - unpaired.low
    swapped = newcombe_paired(both=20, only_a=1, only_b=6, neither=3)
    assert (swapped.low, swapped.high) == pytest.approx((-interval.high, -interval.low))
    assert newcombe_paired(0, 0, 0, 0) is None


def test_the_paired_interval_equals_a_published_one():
    # airway hyper-responsiveness before and after transplantation, Fagerland, Lydersen and Laake 2014
    interval = newcombe_paired(both=1, only_a=1, only_b=7, neither=12)
    assert (round(interval.low, 3), round(interval.high, 3)) == (-0.507, -0.026)


@pytest.mark.parametrize("interval", [mean_interval, lambda values: bootstrap_interval(values, fmean)])
def test_c027_no_interval_rather_than_nan_or_zero_width(interval):
    assert interval([]) is None
    assert interval([1]) is None
    mixed = interval([1, 1, 1, 0])
    assert mixed.low < mixed.value == 0.75 < mixed.high
    equal = interval([1] * 12)
    assert (equal.high, equal.method) == (1.0, "Wilson (all values are equal)")
    assert equal.low == pytest.approx(wilson(12, 12).low)


def test_an_interval_of_a_mean_stays_on_its_scale():
    inside = mean_interval([1.0, 1.0, 0.9, 0.2])
    assert (inside.high, inside.low) == (1.0, pytest.approx(mean_interval([1.0, 1.0, 0.9, 0.2], bounds=None).low))
    assert mean_interval([0.0, 0.0, 0.1], bounds=(0.0, 1.0)).low == 0.0
    assert mean_interval([0.0, 0.0, 2.0]).low < 0  # a scale that a value leaves is none


def test_a_spread_lost_in_rounding_gives_no_interval_of_no_width():
    close = [0.5] * 999 + [math.nextafter(0.5, 1)]
    assert mean_interval(close, bounds=None) is None
    nearly = percentile_interval(0.5, [0.5] * 999 + [0.6], n=9, method="m")
    assert nearly.low < 0.5 < nearly.high


def test_equal_values_without_known_ends_have_no_interval():
    assert mean_interval([250.0] * 5) is None
    assert mean_interval([0.5] * 5, bounds=None) is None
    assert mean_interval([0.0] * 5, bounds=(-1.0, 1.0)).high == pytest.approx(2 * wilson(2.5, 5).high - 1)
    assert percentile_interval(0.5, [], n=5, method="none") is None


def test_c027_the_false_alarm_rate_of_null_pairs_is_at_most_nominal():
    draw = random.Random(0)
    alarms = 0
    for _ in range(2000):
        first = sum(draw.random() < 0.5 for _ in range(14))
        alarms += mcnemar_exact(first, 14 - first) < 0.05
    assert alarms / 2000 <= 0.05


def test_three_repeats_can_never_convict_and_six_discordant_pairs_can():
    assert mcnemar_exact(5, 0) > 0.05
    assert mcnemar_exact(6, 0) == 0.03125


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_exact_interval_holds_the_estimate_and_mirrors(counts):
    x, n = counts
    for interval in (wilson, clopper_pearson):
        found, mirrored = interval(x, n), interval(n - x, n)
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high), abs=1e-9)


def test_impossible_arguments_are_refused():
    assert wilson(0, 0) is None
    assert clopper_pearson(0, 0) is None
    with pytest.raises(ValueError, match="successes is -1"):
        wilson(-1, 3)
    with pytest.raises(ValueError, match="failures is -1"):
        clopper_pearson(4, 3)
    with pytest.raises(ValueError, match="confidence 95"):
        wilson(1, 3, confidence=95)
