"""Whether nothing changed is said against what the numbers are compared with: the baseline, else the recording."""

from dataclasses import replace

import pytest

from harness.dataset import Gate
from harness.experiment import EvalOptions, LoadedEvaluator
from harness.experiment._encoding import trial_from_dict, trial_to_dict
from harness.experiment._gate import rule
from harness.experiment._identity import hashes_of, unchanged
from harness.experiment._values import TrialHashes
from harness.replay import StepDiff
from harness.score import Score


def loaded(*asks, step=None):
    return LoadedEvaluator(name="x", version="1", step=step, asks=asks, call=len, subject=None)


def with_steps(trial, **outputs):
    steps = tuple(
        StepDiff(
            key=name, name=name, scope="", occurrence=0, kind="tool" if name == "search" else "agent", state="run",
            input_hash="i", output_hash=output, parent_output_hash=output, equal=True,
        )
        for name, output in outputs.items()
    )  # fmt: skip
    return replace(trial, outcome=replace(trial.outcome, diff=replace(trial.outcome.diff, steps=steps)))


def paired(trial, other):
    return replace(trial, baseline_hashes=hashes_of(other.outcome))


def test_a_baseline_of_other_outputs_is_not_equal_because_the_recording_is(make_trial):
    """A live or fork experiment was accepted at 0.9; the replay equals the recording and scores 0.5."""
    now = paired(make_trial(values={"x": 0.5}), make_trial(output="better", values={"x": 0.9}))
    assert now.equal is True
    found = rule(
        [now],
        [Score(name="x", value=0.5, evaluator="x")],
        baseline={"x": Score(name="x", value=0.9, evaluator="x")},
        evaluators=[loaded("output")],
        gate=Gate(scorers=["x"]),
        margins={},
        options=EvalOptions(strict=True),
    )
    verdict = found.verdicts["x"]
    assert (verdict.word, verdict.basis, found.word, found.exit_code) == ("inconclusive", "none", "inconclusive", 3)
    assert verdict.difference == pytest.approx(-0.4)


def test_outputs_equal_to_the_baseline_are_identical_whatever_was_recorded(make_trial):
    accepted = make_trial(output="better")
    now = paired(make_trial(output="better"), accepted)
    assert now.equal is False
    assert unchanged(now, loaded("output"))


def test_a_trial_that_the_baseline_lacks_proves_nothing(make_trial):
    trial = make_trial()
    assert unchanged(trial, None)
    assert not unchanged(replace(trial, baseline_hashes=TrialHashes()), None)


@pytest.mark.parametrize("changes", [{"error": "KeyError: 1"}, {"misses": ["no recording"]}])
def test_a_trial_without_an_output_has_no_pair(make_trial, changes):
    assert not unchanged(make_trial(**changes), loaded("output"))


def test_an_evaluator_of_one_step_is_compared_by_that_step(make_trial):
    accepted = with_steps(make_trial(output="old"), look="a", draft="b")
    now = paired(with_steps(make_trial(output="new"), look="a", draft="c"), accepted)
    assert unchanged(now, loaded("output", step="look"))
    assert not unchanged(now, loaded("output", step="draft"))
    assert not unchanged(now, loaded("output", step="gone"))


def test_an_evaluator_of_the_whole_run_is_compared_by_every_step_and_tool(make_trial):
    accepted = with_steps(make_trial(), look="a", search="b")
    same = paired(with_steps(make_trial(), search="b", look="a"), accepted)
    other = paired(with_steps(make_trial(), look="a", search="c"), accepted)
    assert unchanged(same, loaded("run"))
    assert unchanged(other, loaded("output"))
    assert not unchanged(other, loaded("run"))


def test_a_resumed_trial_keeps_what_it_is_compared_with(make_trial):
    trial = paired(make_trial(), with_steps(make_trial(output="old"), look="a"))
    again = trial_from_dict(trial_to_dict(trial), run=trial.outcome.run, parent=None)
    assert again.baseline_hashes == trial.baseline_hashes
