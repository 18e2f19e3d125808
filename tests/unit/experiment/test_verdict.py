"""The rules of a verdict, in their order."""

import pytest

from harness.experiment._verdict import Evidence, judge, worst
from harness.score import Score


def evidence(**changes):
    given = {
        "name": "f1",
        "candidate": Score(name="f1", value=0.8),
        "baseline": Score(name="f1", value=0.9),
        "measured": 10,
        "missing": 0,
        "min_measured": 0.9,
        "threshold": None,
        "margin": 0.05,
        "identical": False,
        "gating": True,
    }
    return Evidence(**{**given, **changes})


def test_identical_outputs_are_equivalent_without_a_test():
    verdict = judge(evidence(identical=True))
    assert (verdict.word, verdict.basis) == ("equivalent", "identity")


def test_changed_outputs_are_inconclusive_and_show_the_difference():
    verdict = judge(evidence())
    assert (verdict.word, verdict.basis) == ("inconclusive", "none")
    assert verdict.difference == pytest.approx(-0.1)
    assert (verdict.baseline, verdict.candidate, verdict.margin) == (0.9, 0.8, 0.05)
    assert "0.9 before, 0.8 now (-0.1)" in verdict.reason


@pytest.mark.parametrize(("threshold", "word"), [(0.81, "regressed"), (0.8, "inconclusive"), (0.5, "inconclusive")])
def test_a_value_below_the_threshold_regresses_and_one_at_it_does_not(threshold, word):
    assert judge(evidence(threshold=threshold)).word == word


def test_a_low_value_fails_even_when_nothing_changed():
    verdict = judge(evidence(identical=True, threshold=0.95))
    assert (verdict.word, verdict.basis) == ("regressed", "threshold")
    assert verdict.reason == "0.8 is below the gate's 0.95"


@pytest.mark.parametrize(("missing", "word"), [(1, "equivalent"), (2, "not_measurable")])
def test_a_scorer_measured_too_rarely_fails_closed(missing, word):
    verdict = judge(evidence(measured=10, missing=missing, identical=True))
    assert verdict.word == word


def test_a_high_value_does_not_hide_what_is_missing():
    verdict = judge(evidence(measured=1, missing=9, candidate=Score(name="f1", value=1.0), threshold=0.5))
    assert verdict.word == "not_measurable"
    assert "1 of 10 trials measured" in verdict.reason


def test_a_gate_on_a_name_that_nobody_yields_fails_closed():
    verdict = judge(evidence(candidate=None, measured=0))
    assert verdict.word == "not_measurable"
    assert "no evaluator yielded a score named 'f1'" in verdict.reason


def test_an_undefined_score_is_not_measurable():
    undefined = Score(name="f1", status="undefined", reason="0/0")
    assert judge(evidence(candidate=undefined)).word == "not_measurable"


def test_worst_comes_first():
    order = ["not_measurable", "regressed", "inconclusive", "equivalent", "improved"]
    for index, word in enumerate(order):
        assert worst(reversed(order[index:])) == word
