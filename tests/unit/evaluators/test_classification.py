"""Classification: the numbers are scikit-learn's, and 0/0 is never silently 0."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from evaluators.classification import Classification
from harness.errors import EvaluatorError
from harness.score import Score, Summarizer, TrialScores

GOLD = ["billing", "refund", "billing", "spam"]
PREDICTED = ["billing", "refund", "legal", "legal"]
LABELS = ["billing", "legal", "refund", "spam"]


def trials(evaluator: Classification, gold: list[object], predicted: list[object]) -> list[TrialScores]:
    return [
        TrialScores(
            case=f"case-{index}",
            trial=0,
            group=None,
            labels={},
            scores=tuple(evaluator.evaluate({"category": got}, {"category": want})),
        )
        for index, (want, got) in enumerate(zip(gold, predicted, strict=True))
    ]


def summary(evaluator: Classification, gold: list[object], predicted: list[object]) -> dict[str, Score]:
    found = evaluator.summarize(trials(evaluator, gold, predicted))
    assert len({score.name for score in found}) == len(found)
    return {score.name.removeprefix("classification."): score for score in found}


def test_a_trial_yields_its_label_and_whether_it_is_correct():
    label, correct = Classification(name="category").evaluate({"category": "refund"}, {"category": "billing"})
    assert (label.name, label.value) == ("category.label", "refund")
    assert (correct.name, correct.value) == ("category.correct", False)
    assert correct.reason == "expected 'billing', got 'refund'"


def test_an_output_without_a_label_is_wrong_and_not_left_out():
    found = summary(Classification(), ["a", "b"], ["a", None])
    assert found["accuracy"].value == 0.5
    assert found["accuracy"].detail["no_label"] == 1
    assert found["recall[b]"].value == 0.0
    assert found["precision.micro"].value == 1.0
    for output in (None, "text", {"other": 1}):
        assert Classification().evaluate(output, {"category": "a"})[1].value is False


def test_a_case_that_expects_nothing_is_skipped():
    (score,) = Classification().evaluate({"category": "a"}, {"other": "a"})
    assert (score.status, score.value) == ("skipped", None)
    assert "'category'" in str(score.reason)


def test_c023_each_setting_of_undefined_gives_its_own_macro_precision_and_says_so():
    f1 = [2 / 3, 0.0, 1.0, 0.0]
    for undefined, macro in (("zero", 0.5), ("one", 0.75), ("status", 2 / 3)):
        found = summary(Classification(undefined=undefined), GOLD, PREDICTED)
        assert found["precision.macro"].value == pytest.approx(macro)
        assert found["precision.macro"].detail["undefined"] == undefined
        assert found["precision.macro"].detail["undefined_labels"] == ["spam"]
        assert "'spam'" in str(found["precision.macro"].reason)
        assert [found[f"f1[{label}]"].value for label in LABELS] == pytest.approx(f1)


def test_c023_a_zero_denominator_is_a_status_with_a_reason():
    found = summary(Classification(), GOLD, PREDICTED)
    assert found["precision[spam]"].status == "undefined"
    assert found["precision[spam]"].value is None
    assert found["precision[spam]"].reason == "nothing was predicted as 'spam': 0/0"
    assert found["recall[legal]"].status == "undefined"
    assert found["precision[legal]"].value == 0.0


def test_c023_labels_go_by_name_so_an_absent_one_keeps_its_own_figures():
    labels = ["cat", "dog", "fox"]
    found = summary(Classification(labels=labels), ["cat", "fox", "fox"], ["cat", "fox", "cat"])
    assert found["recall[dog]"].detail["support"] == 0
    assert found["f1[dog]"].status == "undefined"
    assert found["recall[fox]"].value == 0.5
    assert found["accuracy"].detail["confusion"] == [[1, 0, 0], [0, 0, 0], [1, 0, 1]]


def test_an_expected_label_outside_the_declared_ones_is_an_error_that_names_it():
    with pytest.raises(EvaluatorError, match="'bird'"):
        Classification(labels=["cat", "dog"]).evaluate({"category": "cat"}, {"category": "bird"})


def test_a_predicted_label_outside_the_declared_ones_is_wrong_and_counted():
    found = summary(Classification(labels=["cat", "dog"]), ["cat", "dog"], ["cat", "bird"])
    assert found["accuracy"].value == 0.5
    assert found["accuracy"].detail["unknown_label"] == 1
    assert "f1[bird]" not in found


def test_labels_that_are_not_strings_go_by_their_json_text():
    label, correct = Classification(field="$.codes[1]").evaluate({"codes": [9, 2]}, {"codes": [0, 2.0]})
    assert (label.value, correct.value) == ("2", True)


def test_intervals_hold_the_value_and_trials_of_one_case_are_one_unit():
    evaluator = Classification()
    once = summary(evaluator, GOLD * 5, PREDICTED * 5)
    assert once["accuracy"].n == 20
    for name in ("accuracy", "f1.macro", "precision.micro", "recall.weighted"):
        score = once[name]
        assert score.low <= score.value <= score.high
        assert score.low < score.high
    repeated = [
        TrialScores(case=trial.case, trial=k, group=None, labels={}, scores=trial.scores)
        for trial in trials(evaluator, GOLD * 5, PREDICTED * 5)
        for k in range(4)
    ]
    again = {score.name: score for score in evaluator.summarize(repeated)}
    assert again["classification.accuracy"].n == 20
    width = again["classification.accuracy"].high - again["classification.accuracy"].low
    assert width > 0.3


def test_failed_trials_are_counted_beside_the_figures():
    evaluator = Classification()
    failed = TrialScores(
        case="x",
        trial=0,
        group=None,
        labels={},
        scores=(Score(name="classification", status="failed", reason="boom"),),
    )
    found = evaluator.summarize([*trials(evaluator, GOLD, PREDICTED), failed])
    assert found[0].detail["missing"] == 1
    assert found[0].n == 4


def test_nothing_to_compare_is_undefined():
    (score,) = Classification().summarize([])
    assert (score.status, score.n) == ("undefined", 0)


def test_it_speaks_of_the_whole_set():
    assert isinstance(Classification(), Summarizer)


names = st.sampled_from(["a", "b", "c", "d"])


@settings(max_examples=30, deadline=None)
@given(
    pairs=st.lists(st.tuples(names, names), min_size=1, max_size=30),
    labels=st.one_of(st.none(), st.just(["d", "c", "b", "a", "never"])),
    undefined=st.sampled_from(["status", "zero", "one"]),
)
def test_every_number_equals_scikit_learns(pairs, labels, undefined):
    gold, predicted = [want for want, _ in pairs], [got for _, got in pairs]
    filler = {"status": math.nan, "zero": 0.0, "one": 1.0}[undefined]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = summary(Classification(labels=labels, undefined=undefined), gold, predicted)
    used = labels or sorted({*gold, *predicted})

    def same(score: Score, value: float) -> None:
        if math.isnan(value):
            assert score.status == "undefined"
        else:
            assert score.value == pytest.approx(value)

    for average in ("macro", "micro", "weighted"):
        numbers = precision_recall_fscore_support(gold, predicted, labels=used, average=average, zero_division=filler)
        for figure, value in zip(("precision", "recall", "f1"), numbers, strict=False):
            same(found[f"{figure}.{average}"], value)
    rows = precision_recall_fscore_support(gold, predicted, labels=used, average=None, zero_division=filler)
    for figure, values in zip(("precision", "recall", "f1"), rows, strict=False):
        for label, value in zip(used, values, strict=True):
            same(found[f"{figure}[{label}]"], value)
    assert found["accuracy"].value == pytest.approx(accuracy_score(gold, predicted))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"field": ""}, "field"),
        ({"field": "a["}, "field"),
        ({"labels": "abc"}, "labels"),
        ({"labels": ["a", "a"]}, "labels"),
        ({"undefined": 0}, "undefined"),
        ({"name": " "}, "name"),
    ],
)
def test_a_bad_option_is_named(options, named):
    with pytest.raises(EvaluatorError, match=f"option '{named}'"):
        Classification(**options)


def test_the_version_follows_the_options_and_not_the_name():
    assert Classification().version == Classification(name="other").version
    assert Classification().version != Classification(undefined="zero").version
