"""Means over independent units, and what is missing from them."""

import pytest

from harness.experiment import LoadedEvaluator
from harness.experiment._summary import coverage, summarise
from harness.score import Score, TrialScores
from harness.statistics import mean_interval, wilson


def evaluator(name="m", subject=None):
    return LoadedEvaluator(name=name, version="1", step=None, asks=(), call=len, subject=subject)


def trial(case, number, *scores, group=None):
    return TrialScores(case=case, trial=number, group=group, labels={}, scores=scores)


def score(value=None, *, name="m", status="scored", reason=None):
    return Score(name=name, value=value, status=status, reason=reason, evaluator="m", version="1")


def only(trials, **kwargs):
    (found,) = summarise(trials, [evaluator(**kwargs)])
    return found


def test_trials_of_a_case_count_as_one_unit():
    """Ten equal repetitions of one case are not ten cases."""
    trials = [trial("a", k, score(True)) for k in range(10)] + [trial("b", 0, score(False))]
    found = only(trials)
    assert (found.value, found.n) == (0.5, 2)
    expected = wilson(1, 2)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_cases_of_a_group_count_as_one_unit():
    trials = [trial("a", 0, score(1.0), group="g"), trial("b", 0, score(0.0), group="g"), trial("c", 0, score(1.0))]
    found = only(trials)
    assert (found.value, found.n) == (0.75, 2)


def test_the_interval_is_students_over_the_units():
    values = [0.2, 0.4, 0.9]
    found = only([trial(str(k), 0, score(value)) for k, value in enumerate(values)])
    expected = mean_interval(values, bounds=None)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, expected.low, expected.high))


def test_only_bools_are_proportions():
    """Numbers that happen to be 0 and 1 may be on any scale."""
    numbers = only([trial(str(k), 0, score(float(k == 0))) for k in range(4)])
    expected = mean_interval([1.0, 0.0, 0.0, 0.0], bounds=None)
    assert (numbers.low, numbers.high) == pytest.approx((expected.low, expected.high))
    assert numbers.low < 0
    equal = only([trial(str(k), 0, score(1.0)) for k in range(4)])
    assert (equal.value, equal.low, equal.high) == (1.0, None, None)
    half = [trial("a", k, score(k == 0)) for k in range(2)] + [trial("b", 0, score(False))]
    bools = only(half)
    assert (bools.value, bools.low, bools.high) == (0.25, 0.0, 1.0)


def test_numbers_beyond_one_get_an_interval_too():
    found = only([trial("a", 0, score(120)), trial("b", 0, score(80))])
    assert found.value == 100
    assert found.low < 80
    assert found.high > 120


def test_failed_trials_are_counted_and_are_not_zeros():
    found = only([trial("a", 0, score(1.0)), trial("b", 0, score(status="failed", reason="boom"))])
    assert found.value == 1.0
    assert found.detail == {"missing": 1, "skipped": 0, "trials": 1}


def test_all_failed_is_a_failed_summary_with_the_reason():
    found = only([trial("a", 0, score(status="failed", reason="boom"))])
    assert (found.status, found.value, found.reason, found.n) == ("failed", None, "boom", 0)


def test_a_crash_is_missing_under_every_name_of_the_evaluator():
    """An evaluator that fails before it names its scores fails them all."""
    trials = [trial("a", 0, score(1.0, name="m.x"), score(2.0, name="m.y")), trial("b", 0, score(status="failed"))]
    for name in ("m.x", "m.y"):
        covered = coverage(trials, "m", name)
        assert (covered.measured, covered.missing) == (1, 1)


def test_what_does_not_apply_is_neither_measured_nor_missing():
    trials = [
        trial("a", 0, score(1.0)),
        trial("b", 0, score(status="skipped")),
        trial("c", 0, score(status="undefined")),
    ]
    covered = coverage(trials, "m", "m")
    assert (covered.measured, covered.missing, covered.skipped) == (1, 0, 2)


def test_labels_have_no_mean():
    assert summarise([trial("a", 0, score("billing"))], [evaluator()]) == ()


class Whole:
    name, version = "m", "1"

    def summarize(self, trials):
        return [Score(name="m", value=0.25), Score(name="m.whole", value=len(trials))]


class Broken:
    name, version = "m", "1"

    def summarize(self, trials):
        raise ZeroDivisionError("no pairs")


def test_an_evaluators_own_summary_wins_over_the_mean():
    found = summarise([trial("a", 0, score(1.0))], [evaluator(subject=Whole())])
    assert [(one.name, one.value, one.evaluator) for one in found] == [("m", 0.25, "m"), ("m.whole", 1, "m")]


def test_a_crash_in_summarize_is_a_failed_score():
    found = summarise([trial("a", 0, score(1.0))], [evaluator(subject=Broken())])
    assert [one.status for one in found] == ["scored", "failed"]
    assert "ZeroDivisionError: no pairs" in found[1].reason
