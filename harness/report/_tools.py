"""What forks and replays did with tools, over all trials: effects kept dry, old results, calls that may vary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.experiment import TrialResult
from harness.report.summary import ToolTally, ToolWord

_Row = tuple[tuple[ToolWord, str], str, Any]
"""What of which step, in which case, and the detail that is added up."""


def tool_tallies(trials: Iterable[TrialResult]) -> tuple[ToolTally, ...]:
    """One row for each step and what became of its calls, most calls first within each word."""
    found: dict[tuple[ToolWord, str], list[tuple[str, Any]]] = {}
    for trial in trials:
        for key, case, detail in _rows(trial):
            found.setdefault(key, []).append((case, detail))
    order: list[ToolWord] = ["not executed", "expired, kept", "expired, called anew", "may come out otherwise"]
    tallies = [_tally(word, step, rows) for (word, step), rows in found.items()]
    return tuple(sorted(tallies, key=lambda row: (order.index(row.word), -row.times)))


def _rows(trial: TrialResult) -> Iterator[_Row]:
    outcome = trial.outcome
    for call in outcome.blocked:
        step = str(call.get("step") or call.get("tool", "?")).partition("#")[0]
        yield ("not executed", step), trial.case, str(call.get("answered_by", "nothing"))
    for call in outcome.expired:
        word: ToolWord = "expired, kept" if call.get("action") == "kept" else "expired, called anew"
        yield (word, str(call.get("step", "?")).partition("#")[0]), trial.case, call
    for line in outcome.jitter:
        step, _, told = line.partition(": ")
        yield ("may come out otherwise", step.partition("#")[0]), trial.case, told


def _tally(word: ToolWord, step: str, rows: list[tuple[str, Any]]) -> ToolTally:
    told: dict[ToolWord, Callable[[list[Any]], str]] = {
        "not executed": lambda found: f"answered by {_counted(found)}",
        "expired, kept": _age,
        "expired, called anew": _age,
        "may come out otherwise": _counted,
    }
    cases = tuple(dict.fromkeys(case for case, _ in rows))
    details = [detail for _, detail in rows]
    return ToolTally(word=word, step=step, times=len(rows), cases=cases, told=told[word](details))


def _counted(found: list[Any]) -> str:
    counts = Counter(map(str, found)).most_common()
    if len(counts) == 1:
        return counts[0][0]
    return ", ".join(f"{text} ({count})" for text, count in counts[:3]) + (", …" if len(counts) > 3 else "")


def _age(found: list[Mapping[str, Any]]) -> str:
    oldest = max(float(call.get("age_s", 0)) for call in found)
    ttl = min(float(call.get("ttl_s", 0)) for call in found)
    return f"up to {_span(oldest)} old, good for {_span(ttl)}"


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:g} s"
