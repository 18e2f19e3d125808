"""The shape that machines rely on; it only ever grows."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

from harness.replay import Counts
from harness.report import build, render_json, to_json

KEYS = [
    "experiment", "dataset", "version", "mode", "cases", "trials", "provider_calls", "outputs_equal", "tokens",
    "unknown_usage", "cost", "steps", "tools", "scores", "verdicts", "verdict", "exit_code", "reports",
    "change", "first_divergence", "settled", "controls", "effects", "blocked", "expired", "jitter_calls",
    "undeclared", "drift",
]  # fmt: skip


def test_the_keys_are_pinned(result):
    data = to_json(build(result), reports=["report.html"])

    assert list(data) == KEYS
    assert data["tokens"] == {"spent": 6592, "saved": 30464}
    assert data["cost"] == {"spent": "0.009888", "saved": "0.045696", "currency": "USD"}
    assert data["steps"] == {"reused": 32, "run": 16}
    assert data["tools"] == {"answered": 16, "called": 0, "dry": 16}
    assert data["scores"]["helpful"] == {"value": 0.731, "low": 0.64, "high": 0.81, "n": 13, "missing": 3}
    assert data["verdicts"]["helpful"] == {
        "word": "inconclusive",
        "basis": "statistics",
        "difference": -0.169,
        "low": -0.29,
        "high": -0.02,
        "margin": 0.05,
    }
    assert (data["cases"], data["trials"], data["outputs_equal"], data["provider_calls"]) == (16, 16, 6, 16)
    assert (data["verdict"], data["exit_code"], data["reports"]) == ("regressed", 1, ["report.html"])


def test_a_score_without_verdict_is_not_among_the_verdicts(result):
    assert set(to_json(build(result))["verdicts"]) == {"category.f1_macro", "helpful"}


def test_unknown_is_null(result):
    trial = result.trials[0]
    counts = Counts(provider_calls=1, unknown_spent=1, unknown_saved=1, unpriced_spent=1, unpriced_saved=1)
    data = to_json(build(replace(result, trials=(replace(trial, outcome=replace(trial.outcome, counts=counts)),))))

    assert data["tokens"] == {"spent": None, "saved": None}
    assert data["unknown_usage"] == {"spent": 1, "saved": 1}
    assert data["cost"] == {"spent": None, "saved": None, "currency": "USD"}
    assert data["scores"]["agreement.kappa"] == {"value": None, "low": None, "high": None, "n": 0, "missing": 0}


def test_money_has_no_exponent(result):
    trial = result.trials[0]
    counts = replace(trial.outcome.counts, cost_spent=Decimal("1E-7"), cost_saved=Decimal("1E+3"))
    data = to_json(build(replace(result, trials=(replace(trial, outcome=replace(trial.outcome, counts=counts)),))))

    assert (data["cost"]["spent"], data["cost"]["saved"]) == ("0.0000001", "1000")


def test_hostile_text_goes_through_unaltered(hostile, hostile_strings):
    data = json.loads(render_json(build(hostile)))

    assert data["dataset"] == hostile_strings[1]
    assert {score["value"] for score in data["scores"].values()} == set(hostile_strings)
