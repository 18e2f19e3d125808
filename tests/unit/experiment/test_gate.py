"""What the exit code says (C-030, the part that needs no process)."""

from dataclasses import replace

import pytest

from harness.dataset import Gate
from harness.experiment import EvalOptions, LoadedEvaluator
from harness.experiment._gate import rule, trial_scores
from harness.experiment._summary import summarise
from harness.replay import StepDiff
from harness.score import Score


def loaded(name, *asks):
    return LoadedEvaluator(name=name, version="1", step=None, asks=asks, call=len, subject=None)


def ruling(trials, *, gate=None, evaluators=None, baseline=(), **options):
    names = dict.fromkeys(score.evaluator for trial in trials for score in trial.scores)
    evaluators = evaluators or [loaded(name, "output") for name in names]
    return rule(
        trials,
        summarise([trial_scores(trial, {}) for trial in trials], evaluators),
        baseline={score.name: score for score in baseline},
        evaluators=evaluators,
        gate=gate or Gate(),
        margins={},
        options=EvalOptions(**options),
    )


def failed(name):
    return Score(name=name, status="failed", reason="boom", evaluator=name, version="1")


def test_unchanged_outputs_above_the_thresholds_pass(make_trial):
    found = ruling([make_trial(values={"x": 1.0})], gate=Gate(thresholds={"x": 0.9}))
    assert (found.word, found.exit_code) == ("equivalent", 0)
    assert all(check.passed for check in found.checks)


def test_below_the_threshold_is_one_and_report_only_makes_it_zero(make_trial):
    gate = Gate(thresholds={"x": 0.9})
    trials = [make_trial(values={"x": 0.5})]
    assert (ruling(trials, gate=gate).word, ruling(trials, gate=gate).exit_code) == ("regressed", 1)
    assert ruling(trials, gate=gate, report_only=True).exit_code == 0
    assert [check.name for check in ruling(trials, gate=gate).checks if not check.passed] == ["x"]


def test_a_low_score_outside_the_gate_fails_nothing(make_trial):
    assert ruling([make_trial(values={"x": 0.0})], gate=Gate()).exit_code == 0


def test_changed_outputs_are_inconclusive_and_fail_only_when_strict(make_trial):
    trials = [make_trial(output="new", values={"x": 1.0})]
    gate = Gate(scorers=["x"])
    assert (ruling(trials, gate=gate).word, ruling(trials, gate=gate).exit_code) == ("inconclusive", 0)
    assert ruling(trials, gate=gate, strict=True).exit_code == 3
    assert ruling(trials, gate=gate, strict=True, report_only=True).exit_code == 0


def test_every_item_errored_passes_no_check_and_is_never_reported_only(make_trial):
    """A provider that always errors satisfies no check, also no negative one."""
    trials = [make_trial(case, error="APIError: 500", scores=[failed("no_swearing")]) for case in "abc"]
    found = ruling(trials, gate=Gate(thresholds={"no_swearing": 0.5}), report_only=True)
    assert (found.word, found.exit_code) == ("not_measurable", 4)
    assert not any(check.passed for check in found.checks)
    assert "0 of 3 trials finished" in found.checks[0].reason


def test_an_empty_gate_still_fails_closed_when_nothing_ran(make_trial):
    assert ruling([make_trial(misses=["no recording"])]).exit_code == 4


def test_one_missing_trial_in_ten_is_left_out_but_proves_no_identity_and_two_are_too_many(make_trial):
    def trials(missing):
        good = [make_trial(f"good{k}", values={"x": 1.0}) for k in range(10 - missing)]
        return good + [make_trial(f"bad{k}", misses=["gone"], scores=[failed("x")]) for k in range(missing)]

    gate = Gate(scorers=["x"], min_measured=0.9)
    assert ruling(trials(1), gate=gate).word == "inconclusive"
    assert ruling(trials(2), gate=gate).word == "not_measurable"


def test_a_trial_that_now_raises_is_a_change(make_trial):
    trials = [make_trial(f"good{k}", values={"x": 1.0}) for k in range(19)]
    trials.append(make_trial("bad", error="KeyError: 'x'", scores=[failed("x")]))
    assert ruling(trials, gate=Gate(scorers=["x"])).word == "inconclusive"


def test_a_trial_that_now_raises_is_a_change_for_an_evaluator_of_one_step_too(make_trial):
    step = StepDiff(
        key="k", name="look", scope="", occurrence=0, kind="job", state="run",
        input_hash="a", output_hash="b", parent_output_hash="b", equal=True,
    )  # fmt: skip
    evaluator = replace(loaded("x", "output"), step="look")
    trials = [make_trial(f"good{k}", values={"x": 1.0}) for k in range(19)]
    trials.append(make_trial("bad", error="KeyError: 'x'", scores=[failed("x")]))
    trials = [
        replace(one, outcome=replace(one.outcome, diff=replace(one.outcome.diff, steps=(step,)))) for one in trials
    ]
    gate = Gate(scorers=["x"])
    assert ruling(trials[:19], gate=gate, evaluators=[evaluator]).word == "equivalent"
    assert ruling(trials, gate=gate, evaluators=[evaluator]).word == "inconclusive"


def test_an_uncalibrated_judge_never_gates(make_trial):
    class Judge:
        name, version = "tone", "1"

        def summarize(self, trials):
            return [Score(name="tone", value=0.1, detail={"calibrated": False})]

    evaluator = LoadedEvaluator(name="tone", version="1", step=None, asks=("output",), call=len, subject=Judge())
    found = ruling([make_trial(values={"tone": 0.1})], gate=Gate(thresholds={"tone": 0.9}), evaluators=[evaluator])
    assert (found.exit_code, found.verdicts["tone"].gating) == (0, False)
    assert "uncalibrated" in found.notes[0]


def test_an_evaluator_of_the_whole_run_is_not_identical_when_a_step_diverged(make_trial):
    """Equal outputs prove nothing about an evaluator that counts steps."""
    trial = make_trial(values={"steps": 3.0})
    diff = replace(trial.outcome.diff, first_divergence="search")
    trial = replace(trial, outcome=replace(trial.outcome, diff=diff))
    gate = Gate(scorers=["steps"])
    assert ruling([trial], gate=gate, evaluators=[loaded("steps", "run")]).word == "inconclusive"
    assert ruling([trial], gate=gate, evaluators=[loaded("steps", "output")]).word == "equivalent"


@pytest.mark.parametrize(
    ("values", "word"), [({"x": 1.0, "y": 0.0}, "regressed"), ({"x": 1.0, "y": 1.0}, "equivalent")]
)
def test_the_worst_gating_scorer_decides(make_trial, values, word):
    assert ruling([make_trial(values=values)], gate=Gate(thresholds={"x": 0.5, "y": 0.5})).word == word
