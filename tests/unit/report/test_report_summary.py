"""What a report is built from."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from harness.experiment import GateCheck
from harness.replay import Counts
from harness.report import build


def test_cases_diverge_first_at_named_steps(result):
    summary = build(result)

    (row,) = summary.divergences
    assert row.step == "draft"
    assert len(row.cases) == 9
    assert "parcel-late" not in row.cases, "its output is equal"
    assert "angry-third-mail" not in row.cases, "it stopped for want of a recording"


def test_failing_and_missing_cases_are_named_with_their_reason(result):
    found = {(one.case, one.kind): one.reason for one in build(result).problems}

    assert found["angry-third-mail", "missing"].startswith("draft: POST /chat/completions was never recorded")
    assert found["password-reset", "error"] == "ValueError: the reply has no greeting"
    assert found["gift-wrap", "score"] == "helpful: TimeoutError: the judge did not answer"
    assert found["wrong-item", "gate"] == "category.correct: yes to no (-1.000); expected returns"


def test_a_lowered_case_is_no_problem_while_the_gate_holds(result):
    passed = replace(
        result,
        verdicts={name: replace(one, word="inconclusive") for name, one in result.verdicts.items()},
        checks=(),
        verdict="inconclusive",
        exit_code=0,
    )

    assert not [one for one in build(passed).problems if one.kind == "gate"]


def test_a_state_is_that_of_the_worst_trial(result):
    first = next(trial for trial in result.trials if trial.case == "parcel-late")
    crashed = replace(first, trial=1, outcome=replace(first.outcome, error="ValueError: no"))
    (view,) = build(replace(result, trials=(first, crashed))).cases

    assert [trial.state for trial in view.trials] == ["equal", "error"]
    assert view.state == "error"


def test_outputs_are_compared_by_hash(result):
    summary = build(result)

    assert (summary.outputs_equal, summary.outputs_compared, summary.trials) == (6, 14, 16)
    assert dict(summary.states) == {"error": 1, "missing": 1, "differs": 8, "equal": 6}


def test_trials_without_a_result_are_counted_beside_each_score(result):
    missing = {row.name: row.missing for row in build(result).scores}

    assert missing == {"category.f1_macro": 2, "helpful": 3, "category.accuracy": 2, "agreement.kappa": 2}


def test_the_experiments_own_count_of_missing_results_wins(result):
    counted = replace(result.scores[0], detail={"missing": 7})

    assert build(replace(result, scores=(counted,))).scores[0].missing == 7


def test_scorers_of_the_gate_come_first(result):
    turned = replace(result, scores=tuple(reversed(result.scores)))

    assert build(turned).scores[0].name == "category.f1_macro"


def test_a_verdict_on_an_absent_score_has_a_row(result):
    row = next(row for row in build(replace(result, scores=())).scores if row.name == "helpful")

    assert (row.candidate.value, row.candidate.status, row.word) == (None, "undefined", "inconclusive")


def test_cases_are_compared_with_the_baselines_own(result):
    row = next(row for row in build(result).scores if row.name == "helpful")

    assert len(row.cases) == 13
    assert row.cases[0].case == "address-change"
    assert row.cases[0].difference == pytest.approx(-0.5)


def test_a_changed_output_is_shown_word_by_word(result):
    view = next(view for view in build(result).cases if view.case == "wrong-item")
    gone = [piece.text for piece in view.trials[0].difference if piece.kind == "gone"]
    new = [piece.text for piece in view.trials[0].difference if piece.kind == "new"]

    assert gone == ["returns", "Thank you for writing to us.", "within two working days"]
    assert new == ["orders", "Hello,", "by Friday"]


def test_content_that_is_gone_is_said_to_be(result):
    trial = next(trial for trial in result.trials if trial.case == "wrong-item")
    parent = replace(trial.outcome.parent, read=trial.outcome.run.read.__self__.__class__().read)
    view = build(replace(result, trials=(replace(trial, outcome=replace(trial.outcome, parent=parent)),))).cases[0]

    assert view.trials[0].difference == ()
    assert "is gone" in view.trials[0].note


def test_a_sum_of_which_nothing_is_known_is_unknown(result):
    counts = Counts(provider_calls=2, unknown_spent=2, unpriced_spent=2)
    trial = result.trials[0]
    spending = build(replace(result, trials=(replace(trial, outcome=replace(trial.outcome, counts=counts)),))).spending

    assert spending.tokens_spent is None
    assert spending.cost_spent is None
    assert spending.unknown_usage == 2


def test_a_replay_without_calls_spent_nothing(equal):
    spending = build(equal).spending

    assert (spending.tokens_spent, spending.cost_spent) == (0, Decimal(0))
    assert spending.cost_saved == Decimal("0.020844")


def test_the_headline_gives_the_deciding_numbers(result):
    assert build(result).headline == (
        "category.f1_macro 0.981 to 0.708, difference -0.273, interval -0.462 to -0.071, margin 0.050"
    )


def test_the_headline_of_an_equal_replay(equal):
    summary = build(equal)

    assert summary.headline == "6 of 6 outputs equal to the recording, byte for byte"
    assert summary.outcome == "gate passed"


def test_the_headline_names_the_failed_rule(result):
    check = GateCheck(name="measured", passed=False, reason="3 of 16 trials finished, 90% needed")
    summary = build(replace(result, verdict="not_measurable", exit_code=4, checks=(check,)))

    assert summary.headline == "measured: 3 of 16 trials finished, 90% needed"
    assert summary.outcome == "gate fails closed"


def test_a_gate_that_was_only_to_be_reported_says_so(result):
    assert build(replace(result, exit_code=0)).outcome == "gate failed, reported only"


def test_a_large_run_is_bounded_and_says_so(large):
    summary = large
    shown = sum(bool(trial.difference) for view in summary.cases for trial in view.trials)

    assert 0 < shown <= 500
    assert summary.left_out.startswith("The report is bounded: differences of ")
