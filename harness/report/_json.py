"""The machine's form: the object that ``goldfork eval --json`` prints. Its keys only ever grow."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from harness.experiment import ScorerEffect
from harness.report._format import decimal
from harness.report.summary import ScoreRow, StepTally, Summary
from harness.statistics import Interval


def to_json(summary: Summary, *, reports: Iterable[str] = ()) -> dict[str, Any]:
    """The summary as JSON-ready data; unknown is ``None``, money a decimal string.

    Args:
        summary: What ``build`` made.
        reports: Paths of the report files written beside it.
    """
    spending, work = summary.spending, summary.work
    return {
        "experiment": summary.experiment,
        "dataset": summary.dataset,
        "version": summary.version,
        "mode": summary.mode,
        "cases": len(summary.cases),
        "trials": summary.trials,
        "provider_calls": work.provider_calls,
        "outputs_equal": summary.outputs_equal,
        "tokens": {"spent": spending.tokens_spent, "saved": spending.tokens_saved},
        "unknown_usage": {"spent": spending.known.unknown_spent, "saved": spending.known.unknown_saved},
        "cost": {
            "spent": decimal(spending.cost_spent),
            "saved": decimal(spending.cost_saved),
            "currency": spending.currency,
        },
        "steps": {"reused": work.steps_reused, "run": work.steps_run},
        "tools": {"answered": work.tools_answered, "called": work.tools_called, "dry": work.tools_dry},
        "scores": {row.name: _score(row) for row in summary.scores},
        "verdicts": {row.name: _verdict(row) for row in summary.scores if row.word is not None},
        "verdict": summary.verdict,
        "exit_code": summary.exit_code,
        "reports": [str(path) for path in reports],
        "change": summary.change,
        "first_divergence": {row.step: list(row.cases) for row in summary.divergences},
        "settled": {row.step: _tally(row) for row in summary.tallies},
        "controls": _controls(summary),
        "effects": {row.name: _effect(row) for row in summary.effects},
        "blocked": _tools(summary, "not executed"),
        "expired": [
            {**row, "action": action}
            for word, action in (("expired, kept", "kept"), ("expired, called anew", "refreshed"))
            for row in _tools(summary, word)
        ],
        "jitter_calls": _tools(summary, "may come out otherwise"),
        "undeclared": list(summary.undeclared),
        "drift": list(summary.drift),
    }


def _tools(summary: Summary, word: str) -> list[dict[str, Any]]:
    return [
        {"step": row.step, "times": row.times, "cases": list(row.cases), "told": row.told}
        for row in summary.tools
        if row.word == word
    ]


def _tally(row: StepTally) -> dict[str, int]:
    names = ("settled", "rerun", "dry", "added", "removed", "differs", "first")
    return {name: getattr(row, name) for name in names}


def _controls(summary: Summary) -> dict[str, Any] | None:
    if not summary.controls:
        return None
    counts = summary.control_counts
    tokens, cost = counts.tokens, counts.cost
    return {
        "per_trial": summary.controls,
        "provider_calls": counts.provider_calls,
        "tokens": {"spent": tokens[0], "saved": tokens[1]},
        "cost": {"spent": decimal(cost[0]), "saved": decimal(cost[1]), "currency": counts.currency},
        "outputs": {view.case: view.jitter[0] for view in summary.cases if view.jitter is not None},
    }


def _effect(row: ScorerEffect) -> dict[str, Any]:
    return {
        "given": "the recorded prefix",
        "word": row.word,
        "reason": row.reason,
        "effect": _interval(row.effect),
        "jitter": _interval(row.jitter),
        "net": _interval(row.net),
        "unmeasured": row.unmeasured,
        "cases": [
            {
                "case": case.case,
                "recorded": case.recorded,
                "fork": case.fork,
                "effect": case.effect,
                "controls": list(case.controls),
                "spread": case.spread,
                "shift": case.shift,
                "reach": case.reach,
                "word": case.word,
                "reason": case.reason,
            }
            for case in row.cases
        ],
    }


def _interval(value: Interval | float) -> dict[str, float | None]:
    if isinstance(value, float):
        return {"value": value, "low": None, "high": None}
    return {"value": value.value, "low": value.low, "high": value.high}


def render_json(summary: Summary) -> str:
    """The same object as an indented document."""
    return json.dumps(to_json(summary), indent=2, allow_nan=False) + "\n"


def _score(row: ScoreRow) -> dict[str, Any]:
    side = row.candidate
    return {"value": side.value, "low": side.low, "high": side.high, "n": row.n, "missing": row.missing}


def _verdict(row: ScoreRow) -> dict[str, Any]:
    return {
        "word": row.word,
        "basis": row.basis,
        "difference": row.difference,
        "low": row.low,
        "high": row.high,
        "margin": row.margin,
    }
