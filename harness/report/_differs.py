"""A difference in words: what the terminal, the HTML page, the comment and the machine's form all say of it."""

from __future__ import annotations

from typing import Any

from harness.replay import Difference, RunDiff, StepDiff, ToolCallDiff, ValueChange
from harness.report.summary import DifferenceView, PlaceView

PLACES = 20
"""Places of one difference that a report names."""
_VALUE = 80
"""Characters of a value that is not a text."""
_TOLD = {"formatting": "differs in formatting alone", "content": "differs", "gone": "differs"}
_STEP = ("key", "name", "scope", "occurrence", "state", "input_hash", "output_hash", "equal", "renamed")


def difference_view(difference: Difference) -> DifferenceView:
    """What is said of a difference wherever it is shown."""
    note = f": {difference.note}" if difference.note else ""
    worded = any(place.kind == "text" for place in difference.places)
    return DifferenceView(
        kind=difference.kind,
        told=f"{_TOLD.get(difference.kind, difference.kind)}{note}",
        places=tuple(PlaceView(place.path, place.kind, _values(place)) for place in difference.places[:PLACES]),
        more=difference.more + max(0, len(difference.places) - PLACES),
        semantic=difference.semantic.told if worded else "",
        unmeasured=difference.semantic.note if worded and difference.semantic.cosine is None else "",
    )


def _values(place: ValueChange) -> str:
    if place.kind not in {"value", "added", "removed"}:
        return ""
    return f"{_short(place.before)} -> {_short(place.after)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 3]}..."


def diff_json(diff: RunDiff) -> dict[str, Any]:
    """A comparison of two runs for machines (docs/json.md)."""
    return {
        "steps": [_step_json(step) for step in diff.steps],
        "first_divergence": diff.first_divergence,
        "output_equal": diff.output_equal,
        "output": difference_json(diff.difference),
        "tool_calls": [_call_json(call) for call in diff.tool_calls],
    }


def difference_json(difference: Difference | None) -> dict[str, Any] | None:
    """One difference for machines."""
    if difference is None:
        return None
    semantic = difference.semantic
    return {
        "kind": difference.kind,
        "places": [_place_json(place) for place in difference.places],
        "more": difference.more,
        "note": difference.note or None,
        "semantic": {"cosine": semantic.cosine, "lexical": semantic.lexical, "note": semantic.note},
    }


def _step_json(step: StepDiff) -> dict[str, Any]:
    return {
        **{key: getattr(step, key) for key in _STEP},
        "settled": step.settled,
        "difference": difference_json(step.difference),
    }


def _call_json(call: ToolCallDiff) -> dict[str, Any]:
    return {
        "name": call.name,
        "scope": call.scope,
        "kind": call.kind,
        "before": call.before,
        "after": call.after,
        "arguments": [_place_json(place) for place in call.places],
    }


def _place_json(place: ValueChange) -> dict[str, Any]:
    return {"path": place.path, "kind": place.kind, "before": place.before, "after": place.after}
