"""Extraction: items pair once, repeats count, and nothing found where nothing is to be found is correct by rule."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from evaluators.extraction import Extraction
from harness.errors import EvaluatorError
from harness.score import Score, TrialScores

SEARCH = {"name": "search", "args": {"q": "tea", "n": 1}}


def scored(gold: object, found: object, **options: object) -> dict[str, Score]:
    scores = Extraction(**options).evaluate({"entities": found}, {"entities": gold})
    return {score.name.removeprefix("extraction."): score for score in scores}


def numbers(gold: object, found: object, **options: object) -> tuple[float | None, ...]:
    scores = scored(gold, found, **options)
    return tuple(scores[figure].number for figure in ("precision", "recall", "f1"))


def summary(pairs: list[tuple[list, list]], **options: object) -> dict[str, Score]:
    evaluator = Extraction(**options)
    trials = [
        TrialScores(
            case=f"case-{index}",
            trial=0,
            group=None,
            labels={},
            scores=tuple(evaluator.evaluate({"entities": found}, {"entities": gold})),
        )
        for index, (gold, found) in enumerate(pairs)
    ]
    return {score.name.removeprefix("extraction."): score for score in evaluator.summarize(trials)}


@pytest.mark.parametrize(
    ("gold", "found", "expected"),
    [
        ([], [], (1.0, 1.0, 1.0)),
        ([], ["x"], (0.0, None, 0.0)),
        (["x"], [], (None, 0.0, 0.0)),
        (["x", "x"], ["x"], (1.0, 0.5, 2 / 3)),
    ],
)
def test_c023_sets(gold, found, expected):
    assert numbers(gold, found) == pytest.approx(expected)


def test_c023_the_rule_for_nothing_is_stated():
    scores = scored([], [])
    assert scores["f1"].reason == "nothing to find and nothing found: correct by rule"
    assert scores["f1"].detail["empty"] is True
    assert scored([], ["x"])["recall"].status == "undefined"


def test_c023_micro_figures_come_from_summed_counts_and_empty_trials_are_counted_apart():
    found = summary([([], []), (["a", "b"], ["a"]), (["c"], ["c", "d", "e"])])
    assert found["precision.micro"].value == pytest.approx(2 / 4)
    assert found["recall.micro"].value == pytest.approx(2 / 3)
    assert found["f1.micro"].value == pytest.approx(4 / 7)
    assert found["f1.micro"].detail["empty"] == 1
    assert str(found["f1.micro"].reason).startswith("1 of 3 trials had nothing to find")
    assert found["f1.micro"].low <= found["f1.micro"].value <= found["f1.micro"].high


def test_a_set_of_empty_trials_has_no_micro_figure():
    found = summary([([], []), ([], [])])
    assert found["f1.micro"].status == "undefined"
    assert found["f1.micro"].detail["empty"] == 2


@pytest.mark.parametrize(
    ("gold", "found", "expected"),
    [
        ([SEARCH, SEARCH], [SEARCH, SEARCH], (1.0, 1.0, 1.0)),
        ([SEARCH, SEARCH], [SEARCH], (1.0, 0.5, 2 / 3)),
        ([SEARCH], [SEARCH] * 3, (1 / 3, 1.0, 0.5)),
        ([], [SEARCH], (0.0, None, 0.0)),
        ([SEARCH], [{"args": {"n": 1.0, "q": "tea"}, "name": "search"}], (1.0, 1.0, 1.0)),
        (["blue"], ["blue"] * 4, (0.25, 1.0, 0.4)),
    ],
)
def test_c024_multisets(gold, found, expected):
    assert numbers(gold, found) == pytest.approx(expected)


def test_a_set_merges_repeats():
    assert numbers(["x", "x"], ["x"], items="set") == (1.0, 1.0, 1.0)


def test_c024_the_best_assignment_pairs_both_where_first_come_pairs_one():
    gold, found = ["Anna Meier", "Anna Maier"], ["Anna Meier", "Anna Meyer"]
    assert numbers(gold, found, fuzzy=85) == (1.0, 1.0, 1.0)
    assert numbers(gold, found, fuzzy=95) == (0.5, 0.5, 0.5)
    # one equal pair would leave the other two alone; two looser pairs find both
    assert numbers(["abcd", "abcdefghijklmnop"], ["abcd", "abyyyyyy"], fuzzy=33) == (1.0, 1.0, 1.0)
    assert numbers(["abcd", "abcdefgh"], ["abcd", "ab"], fuzzy=60) == (1.0, 1.0, 1.0)


def test_fuzzy_compares_the_texts_of_objects_and_nothing_else():
    gold = [{"name": "Anna Meier", "amount": 500}]
    assert numbers(gold, [{"name": "Anna Meyer", "amount": 500}], fuzzy=85)[2] == 1.0
    assert numbers(gold, [{"name": "Anna Meier", "amount": 5000}], fuzzy=85)[2] == 0.0
    assert numbers(gold, [{"name": "Anna Meier"}], fuzzy=85)[2] == 0.0


def test_the_detail_shows_what_was_missed_and_what_was_made_up():
    detail = scored(["a", "b"], ["b", "c"])["f1"].detail
    assert (detail["pairs"], detail["missed"], detail["extra"]) == ([["b", "b"]], ["a"], ["c"])


@pytest.mark.parametrize("output", [None, "text", {"entities": "a"}, {"entities": None}, {}])
def test_an_output_without_a_list_is_never_correct(output):
    for gold in (["a"], []):
        precision, recall, f1 = Extraction().evaluate(output, {"entities": gold})
        assert f1.value == 0.0
        assert f1.reason == "the output has no list at 'entities'"
        assert precision.status == "undefined"
        assert recall.value == (0.0 if gold else None)


def test_a_case_that_expects_nothing_there_is_skipped():
    assert {score.status for score in Extraction().evaluate({"entities": []}, {})} == {"skipped"}


def test_an_expectation_that_is_no_list_is_an_error():
    with pytest.raises(EvaluatorError, match="str at 'entities'"):
        Extraction().evaluate({"entities": []}, {"entities": "a"})


@pytest.mark.parametrize(
    ("options", "named"),
    [({"fuzzy": 0.9}, "fuzzy"), ({"fuzzy": True}, "fuzzy"), ({"items": "list"}, "items"), ({"field": 3}, "field")],
)
def test_a_bad_option_is_named(options, named):
    with pytest.raises(EvaluatorError, match=f"option '{named}'"):
        Extraction(**options)


letters = st.lists(st.sampled_from("abcde"), max_size=6)


@settings(max_examples=30, deadline=None)
@given(pairs=st.lists(st.tuples(letters, letters), min_size=1, max_size=6))
def test_micro_figures_of_sets_equal_scikit_learns(pairs):
    gold = [[letter in want for letter in "abcde"] for want, _ in pairs]
    found = [[letter in got for letter in "abcde"] for _, got in pairs]
    if not any(itertools.chain(*gold)) or not any(itertools.chain(*found)):
        return
    expected = precision_recall_fscore_support(gold, found, average="micro", zero_division=0)
    scores = summary(pairs, items="set")
    for figure, value in zip(("precision", "recall", "f1"), expected, strict=False):
        assert scores[f"{figure}.micro"].value == pytest.approx(value)


@settings(max_examples=30, deadline=None)
@given(gold=letters, found=letters)
def test_fuzzy_at_100_equals_equality_and_order_is_nothing(gold, found):
    assert numbers(gold, found) == numbers(gold[::-1], sorted(found), fuzzy=100)
