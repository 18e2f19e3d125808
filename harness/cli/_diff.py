"""How a run beside its parent is shown: the same value for a person and for a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from harness.cli._app import console, visible
from harness.replay import Difference, RunDiff, StepDiff, ToolCallDiff, ValueChange
from harness.report import word_difference

_PLACES = 8
"""Places of one difference that a terminal shows."""
_CALLS = 10
_KEYS = ("key", "name", "scope", "occurrence", "state", "input_hash", "output_hash", "equal")
_STYLES = {"gone": "red strike", "new": "green", "left_out": "dim", "same": ""}


def diff_json(diff: RunDiff) -> dict[str, Any]:
    """The machine form (docs/json.md)."""
    return {
        "steps": [_step_json(step) for step in diff.steps],
        "first_divergence": diff.first_divergence,
        "output_equal": diff.output_equal,
        "output": _difference_json(diff.difference),
        "tool_calls": [_call_json(call) for call in diff.tool_calls],
    }


def _step_json(step: StepDiff) -> dict[str, Any]:
    return {
        **{key: getattr(step, key) for key in _KEYS},
        "settled": step.settled,
        "difference": _difference_json(step.difference),
    }


def _difference_json(difference: Difference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    return {
        "kind": difference.kind,
        "places": [_place_json(place) for place in difference.places],
        "more": difference.more,
        "note": difference.note or None,
        "semantic": {"cosine": difference.semantic.cosine, "note": difference.semantic.note},
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


def print_diff(diff: RunDiff) -> None:
    """Print the steps, the first divergence, and what differs: JSON path, words, tool calls."""
    told = any(step.settled for step in diff.steps)
    table = Table(box=None, header_style="bold")
    for title in ("step", "state", "output", *(("settled",) if told else ())):
        table.add_column(title)
    words = {True: "equal", False: "[yellow]differs[/]", None: "-"}
    for step in diff.steps:
        row = (Text(visible(step.address)), step.state, words[step.equal])
        table.add_row(*row, *((step.settled or "-",) if told else ()))
    out = console()
    out.print(table)
    first = diff.first_divergence
    out.print(visible(f"first divergence: {first}") if first else "no step differs", markup=False)
    shown = False
    for step in diff.steps:
        if step.difference is not None:
            shown = True
            _print_difference(step.address, step.difference)
    if diff.difference is not None:
        _print_difference("output of the run", diff.difference, brief=shown)
    for line in _call_lines(diff.tool_calls):
        out.print(line, markup=False)
    told_apart = [step.difference for step in diff.steps if step.difference is not None] + [diff.difference]
    for note in dict.fromkeys(_unmeasured(difference) for difference in told_apart):
        if note:
            out.print(visible(f"difference in meaning: {note}"), markup=False)


def _unmeasured(difference: Difference | None) -> str:
    """Why the difference of two texts in meaning is not known; empty where there is no text, or it was measured."""
    if difference is None or difference.semantic.cosine is not None:
        return ""
    return difference.semantic.note if any(place.kind == "text" for place in difference.places) else ""


def _print_difference(where: str, difference: Difference, *, brief: bool = False) -> None:
    """One difference; ``brief`` leaves the words out, which the steps before have shown."""
    out = console()
    kinds = {"formatting": "differs in formatting alone", "content": "differs", "gone": "differs"}
    note = f": {difference.note}" if difference.note else ""
    out.print(visible(f"{where}: {kinds.get(difference.kind, difference.kind)}{note}"), markup=False)
    for place in difference.places[:_PLACES]:
        out.print(_place(place, words=not brief))
    more = difference.more + max(0, len(difference.places) - _PLACES)
    if more:
        out.print(f"  and {more} more places", markup=False)
    if difference.semantic.cosine is not None:
        out.print(
            visible(f"  in meaning: cosine {difference.semantic.cosine:.3f} {difference.semantic.note}"), markup=False
        )


def _place(place: ValueChange, *, words: bool) -> Text:
    line = Text(visible(f"  {place.path}: {place.kind}"))
    if not words:
        return line
    if isinstance(place.before, str) and isinstance(place.after, str) and place.kind == "text":
        line.append("  ")
        for piece in word_difference(place.before, place.after):
            text = visible(piece.text).replace("\n", " ")
            marks = {"gone": ("[-", "-]"), "new": ("{+", "+}"), "left_out": ("[", "]"), "same": ("", "")}[piece.kind]
            line.append(f"{marks[0]}{text}{marks[1]}", style=_STYLES[piece.kind])
    elif place.kind in {"value", "added", "removed"}:
        line.append(visible(f"  {_short(place.before)} -> {_short(place.after)}"))
    return line


def _short(value: Any, most: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _call_lines(calls: Sequence[ToolCallDiff]) -> Iterator[str]:
    for call in calls[:_CALLS]:
        path = f"{call.scope}/{call.name}" if call.scope else call.name
        places = ", ".join(place.path for place in call.places[:_PLACES]) if call.kind == "arguments" else ""
        before, after = (None if at is None else at + 1 for at in (call.before, call.after))
        moved = f"call {before} became call {after}" if call.kind == "order" else ""
        yield visible(f"tool call {path}: {call.kind}{' at ' if places else ''}{places}{', ' if moved else ''}{moved}")
    if len(calls) > _CALLS:
        yield f"and {len(calls) - _CALLS} more tool calls"
