"""How a run beside its parent is shown: the same value for a person and for a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from harness.cli._app import console, visible
from harness.record import Recording
from harness.replay import Difference, RunDiff, ToolCallDiff, ValueChange, meaning_by, measured
from harness.report import PlaceView, difference_view, word_difference
from harness.settings import load_settings

_PLACES = 8
"""Places of one difference that a terminal shows."""
_CALLS = 10
_STYLES = {"gone": "red strike", "new": "green", "left_out": "dim", "same": ""}


def print_diff(diff: RunDiff, *, steps: bool = True) -> None:
    """Print the steps, the first divergence, and what differs: JSON path, words, tool calls.

    Args:
        diff: The comparison.
        steps: Whether to list the steps that are equal as well.
    """
    out = console()
    if steps:
        out.print(_steps(diff))
    _print_divergence(diff)


def _steps(diff: RunDiff) -> Table:
    told = any(step.settled for step in diff.steps)
    table = Table(box=None, header_style="bold")
    for title in ("step", "state", "output", *(("settled",) if told else ())):
        table.add_column(title)
    words = {True: "equal", False: "[yellow]differs[/]", None: "-"}
    for step in diff.steps:
        word = "equal but for ids" if step.renamed else words[step.equal]
        row = (Text(visible(step.address)), step.state, word)
        table.add_row(*row, *((step.settled or "-",) if told else ()))
    return table


def _print_divergence(diff: RunDiff) -> None:
    out = console()
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
    found = [*(step.difference for step in diff.steps), diff.difference]
    reasons = [difference_view(difference).unmeasured for difference in found if difference is not None]
    for reason in dict.fromkeys(filter(None, reasons)):
        out.print(visible(f"difference in meaning: not measured, {reason}"), markup=False)


def _print_difference(where: str, difference: Difference, *, brief: bool = False) -> None:
    """One difference; ``brief`` leaves the words out, which the steps before have shown."""
    out = console()
    view = difference_view(difference)
    out.print(visible(f"{where}: {view.told}"), markup=False)
    for place, told in zip(difference.places[:_PLACES], view.places, strict=False):
        out.print(_place(place, told, words=not brief))
    more = difference.more + max(0, len(difference.places) - _PLACES)
    if more:
        out.print(f"  and {more} more places", markup=False)
    if view.semantic:
        out.print(visible(f"  {view.semantic}"), markup=False)


def _place(place: ValueChange, told: PlaceView, *, words: bool) -> Text:
    line = Text(visible(f"  {told.path}: {told.kind}"))
    if words and isinstance(place.before, str) and isinstance(place.after, str) and place.kind == "text":
        line.append("  ")
        for piece in word_difference(place.before, place.after):
            text = visible(piece.text).replace("\n", " ")
            marks = {"gone": ("[-", "-]"), "new": ("{+", "+}"), "left_out": ("[", "]"), "same": ("", "")}[piece.kind]
            line.append(f"{marks[0]}{text}{marks[1]}", style=_STYLES[piece.kind])
    elif told.values and words:
        line.append(visible(f"  {told.values}"))
    return line


def _call_lines(calls: Sequence[ToolCallDiff]) -> Iterator[str]:
    for call in calls[:_CALLS]:
        path = f"{call.scope}/{call.name}" if call.scope else call.name
        places = ", ".join(place.path for place in call.places[:_PLACES]) if call.kind == "arguments" else ""
        before, after = (None if at is None else at + 1 for at in (call.before, call.after))
        moved = f"call {before} became call {after}" if call.kind == "order" else ""
        yield visible(f"tool call {path}: {call.kind}{' at ' if places else ''}{places}{', ' if moved else ''}{moved}")
    if len(calls) > _CALLS:
        yield f"and {len(calls) - _CALLS} more tool calls"


def with_meaning(diff: RunDiff, run: Recording, parent: Recording | None) -> RunDiff:
    """The comparison with the difference in meaning, measured as the setting ``embedder`` says."""
    return measured(diff, run, parent, meaning=meaning_by(load_settings().embedder))
