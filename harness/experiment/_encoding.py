"""Trials and scores as JSON-ready data, and back: what the store and the baseline keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from harness.experiment._values import ControlTrial, TrialHashes, TrialResult
from harness.record import Recording
from harness.replay import Counts, RunDiff, RunOutcome
from harness.score import Score
from harness.session import Change

_SCORE_FIELDS = ("name", "value", "status", "reason", "evaluator", "version", "low", "high", "n")
_OUTCOME_FIELDS = (
    "output",
    "error",
    "misses",
    "blocked",
    "undeclared",
    "drift",
    "jitter",
    "expired",
    "duration_ms",
    "metadata",
)
_TRIAL_FIELDS = (
    "case",
    "trial",
    "split",
    "group",
    "tags",
    "input",
    "expected_output",
    "recorded_output_hash",
)
_CONTROL_FIELDS = (
    "number",
    "arm",
    "run",
    "status",
    "output_hash",
    "equal",
    "first_divergence",
    "error",
    "drift",
)
_TUPLES = frozenset({"misses", "blocked", "undeclared", "drift", "jitter", "expired", "tags"})


def score_to_dict(score: Score) -> dict[str, Any]:
    """A score without what it does not have; detail that JSON cannot hold is written as text."""
    kept = {name: value for name in _SCORE_FIELDS if (value := getattr(score, name)) is not None}
    if score.detail:
        kept["detail"] = _jsonable(dict(score.detail))
    return kept


def score_from_dict(data: Mapping[str, Any]) -> Score:
    """The inverse of ``score_to_dict``; fields of a newer Goldfork are left out."""
    return Score(**{name: data[name] for name in (*_SCORE_FIELDS, "detail") if name in data})


def trial_to_dict(trial: TrialResult) -> dict[str, Any]:
    """All of a trial but the runs themselves, which the store holds."""
    outcome = trial.outcome
    data: dict[str, Any] = {name: getattr(trial, name) for name in _TRIAL_FIELDS}
    data["outcome"] = {
        **{name: getattr(outcome, name) for name in _OUTCOME_FIELDS},
        "run": outcome.run.run.id,
        "change": outcome.change.as_dict() if outcome.change else None,
        "counts": outcome.counts,
        "diff": outcome.diff,
    }
    data["scores"] = scores_to_list(trial.scores)
    data["baseline_scores"] = scores_to_list(trial.baseline_scores.values())
    data["baseline_hashes"] = trial.baseline_hashes
    data["evaluator_counts"] = trial.evaluator_counts
    data["controls"] = [_control_to_dict(control) for control in trial.controls]
    data["recorded_scores"] = scores_to_list(trial.recorded_scores.values())
    plain: dict[str, Any] = _jsonable(data)
    return plain


def trial_from_dict(data: Mapping[str, Any], *, run: Recording, parent: Recording | None) -> TrialResult:
    """The inverse of ``trial_to_dict``, given the run and what it was replayed from."""
    kept, hashes = data["outcome"], data.get("baseline_hashes")
    outcome = RunOutcome(
        run=run,
        parent=parent,
        change=Change.from_dict(kept["change"]) if kept["change"] else None,
        counts=_adapter(Counts).validate_python(kept["counts"]),
        diff=_adapter(RunDiff).validate_python(kept["diff"]),
        **{name: _field(name, kept) for name in _OUTCOME_FIELDS if name in kept},
    )
    return TrialResult(
        outcome=outcome,
        scores=scores_from_list(data["scores"]),
        baseline_scores={score.name: score for score in scores_from_list(data["baseline_scores"])},
        baseline_hashes=_adapter(TrialHashes).validate_python(hashes) if hashes else None,
        evaluator_counts=_adapter(Counts).validate_python(data["evaluator_counts"]),
        controls=tuple(_control_from_dict(one) for one in data.get("controls", ())),
        recorded_scores={score.name: score for score in scores_from_list(data.get("recorded_scores", ()))},
        **{name: _field(name, data) for name in _TRIAL_FIELDS},
    )


def _control_to_dict(control: ControlTrial) -> dict[str, Any]:
    kept = {name: getattr(control, name) for name in (*_CONTROL_FIELDS, "counts", "evaluator_counts")}
    return {**kept, "scores": scores_to_list(control.scores)}


def _control_from_dict(data: Mapping[str, Any]) -> ControlTrial:
    counts = {name: _adapter(Counts).validate_python(data[name]) for name in ("counts", "evaluator_counts")}
    return ControlTrial(
        scores=scores_from_list(data["scores"]), **counts, **{name: _field(name, data) for name in _CONTROL_FIELDS}
    )


def scores_to_list(scores: Iterable[Score]) -> list[dict[str, Any]]:
    """Several scores, in order."""
    return [score_to_dict(score) for score in scores]


def scores_from_list(data: Iterable[Mapping[str, Any]]) -> tuple[Score, ...]:
    """The inverse of ``scores_to_list``."""
    return tuple(score_from_dict(one) for one in data)


def _field(name: str, data: Mapping[str, Any]) -> Any:
    return tuple(data[name]) if name in _TUPLES else data[name]


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _jsonable(value: Any) -> Any:
    """JSON values of anything: an evaluator's detail may hold objects, whose text is kept."""
    return to_jsonable_python(value, fallback=str, inf_nan_mode="null")
