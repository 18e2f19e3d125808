"""Trials and scores survive the store."""

import json
from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from harness.experiment._encoding import score_from_dict, score_to_dict, trial_from_dict, trial_to_dict
from harness.replay import Counts, StepDiff, ValueChange
from harness.score import Score
from harness.session import Change

values = st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(value=values, reason=st.none() | st.text(min_size=1), detail=st.dictionaries(st.text(), values, max_size=3))
def test_a_score_is_the_same_afterwards(value, reason, detail):
    score = Score(name="x", value=value, reason=reason, evaluator="e", version="1", n=0, low=0.0, detail=detail)
    again = score_from_dict(json.loads(json.dumps(score_to_dict(score))))
    assert again == score
    assert type(again.value) is type(value)


def test_a_trial_is_the_same_afterwards(make_trial):
    trial = make_trial("a", 3, output="new", values={"x": False, "y": "label"}, group="g")
    step = StepDiff(
        key="k", name="s", scope="", occurrence=0, kind="job", state="run",
        input_hash=None, output_hash="a" * 64, parent_output_hash="b" * 64, equal=False,
    )  # fmt: skip
    change = ValueChange(path="$.a", kind="text", before="x", after=None)
    outcome = replace(
        trial.outcome,
        diff=replace(trial.outcome.diff, steps=(step,), output=(change,)),
        change=Change(kind="model", at="s", value="m"),
        counts=Counts(tokens_spent=3, cost_spent=Decimal("0.10")),
        blocked=({"tool": "send", "arguments": {"to": "x"}},),
        drift=("model served changed",),
    )
    trial = replace(trial, outcome=outcome, evaluator_counts=Counts(provider_calls=1))
    data = json.loads(json.dumps(trial_to_dict(trial)))
    assert trial_from_dict(data, run=outcome.run, parent=None) == trial


def test_detail_that_json_cannot_hold_is_kept_as_text(make_trial):
    trial = make_trial(scores=[Score(name="x", value=1, detail={"pair": {1, 2}, "odd": object, "no": float("nan")})])
    kept = trial_to_dict(trial)["scores"][0]["detail"]
    assert sorted(kept["pair"]) == [1, 2]
    assert kept["odd"] == "<class 'object'>"
    assert kept["no"] is None
