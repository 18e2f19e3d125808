"""Classification: is the label the expected one, and precision, recall and F1 over the whole set."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evaluators._counts import AVERAGES, FIGURES, Average, Counts, Figure, draws, interval, ratio
from evaluators._options import choice, content_version, refuse, text
from evaluators._paths import MISSING, parse_path
from harness.canonical import canonical_json
from harness.errors import EvaluatorError
from harness.score import Score, TrialScores
from harness.statistics import Interval, bootstrap_interval, wilson

Undefined = Literal["status", "zero", "one"]
Pair = tuple[str, str | None]
"""Expected and predicted label; ``None`` for an output that has none."""

_REVISION = 1
_FILLER: Mapping[Undefined, float] = {"status": math.nan, "zero": 0.0, "one": 1.0}
_NO_LABEL = "\x00no label"
"""Stands for a missing prediction where scikit-learn wants a string; no label of the set equals it."""
_WHY: Mapping[Figure, str] = {
    "precision": "nothing was predicted as",
    "recall": "no case expects",
    "f1": "nothing expects or predicts",
}


class Classification:
    """Compares one label of the output with the expected one.

    Per trial it yields the label and whether it is correct; over the set, accuracy and precision, recall and F1
    by scikit-learn: macro, micro and weighted average, then each label's own, with the confusion matrix in the
    detail. A label that is not a string goes by its JSON text. An output without the label is wrong, not left
    out. Intervals are over groups where cases have them, else over cases.
    """

    def __init__(
        self,
        *,
        field: str = "category",
        labels: Sequence[str] | None = None,
        undefined: Undefined = "status",
        name: str = "classification",
    ) -> None:
        """Take the options.

        Args:
            field: Where the label stands in output and expected output: ``category``, ``$.triage.category``,
                ``$`` for the value itself.
            labels: All labels there are, in the report's order; those seen, sorted, when ``None``.
            undefined: What 0/0 becomes: a score of status ``undefined`` that no average contains (``status``),
                or a plain 0 (``zero``) or 1 (``one``), which the averages contain.
            name: Prefix of the scores' names.

        Raises:
            EvaluatorError: An option cannot be used.
        """
        self.name = text("classification", "name", name)
        self._path = parse_path("classification", "field", field)
        self._labels = None if labels is None else _checked(labels)
        self._undefined: Undefined = choice("classification", "undefined", undefined, tuple(_FILLER))
        options = {"field": field, "labels": self._labels, "undefined": self._undefined}
        self.version = content_version("classification", _REVISION, options)

    def evaluate(self, output: Any, expected_output: Any) -> list[Score]:
        """Scores ``<name>.label`` and ``<name>.correct``.

        Raises:
            EvaluatorError: The case expects a label that is not one of ``labels``.
        """
        wanted = self._path.of(expected_output)
        if wanted is MISSING or wanted is None:
            reason = f"the case expects nothing at {self._path.text!r}"
            return [Score(name=f"{self.name}.correct", status="skipped", reason=reason)]
        expected = label_text(wanted)
        if self._labels is not None and expected not in self._labels:
            raise EvaluatorError(
                f"evaluator {self.name!r}: the case expects {expected!r}, which is not one of its labels "
                f"({', '.join(self._labels)}); correct the case or the option 'labels'"
            )
        got = self._path.of(output)
        predicted = None if got is MISSING or got is None else label_text(got)
        detail = {"expected": expected, "predicted": predicted}
        if predicted is None:
            reason = f"the output has nothing at {self._path.text!r}"
            label = Score(name=f"{self.name}.label", status="skipped", reason=reason, detail=detail)
        else:
            reason = f"expected {expected!r}, got {predicted!r}"
            label = Score(name=f"{self.name}.label", value=predicted, detail=detail)
        correct = predicted == expected
        return [
            label,
            Score(
                name=f"{self.name}.correct",
                value=correct,
                reason=None if correct else reason,
                detail=detail,
            ),
        ]

    def summarize(self, trials: Sequence[TrialScores]) -> Sequence[Score]:
        """Accuracy, the averages, then each label's own figures."""
        units, missing = _units(trials)
        pairs = [pair for unit in units for pair in unit]
        if not pairs:
            reason = "no trial has a label to compare"
            return [Score(name=f"{self.name}.accuracy", status="undefined", reason=reason, n=0)]
        labels = self._labels or _seen(pairs)
        return [
            self._accuracy(units, labels, missing),
            *self._averages(units, labels),
            *self._each_label(units, labels),
        ]

    def _accuracy(self, units: Sequence[Sequence[Pair]], labels: Sequence[str], missing: int) -> Score:
        pairs = [pair for unit in units for pair in unit]
        detail = {
            "labels": list(labels),
            "confusion": _confusion(pairs, labels),
            "no_label": sum(got is None for _, got in pairs),
            "unknown_label": sum(got is not None and got not in labels for _, got in pairs),
            "undefined": self._undefined,
            "trials": len(pairs),
            "missing": missing,
        }
        value, between = _accuracy(units)
        return self._score("accuracy", value, between, n=len(units), detail=detail)

    def _averages(self, units: Sequence[Sequence[Pair]], labels: Sequence[str]) -> list[Score]:
        pairs = [pair for unit in units for pair in unit]
        values = {how: _by_sklearn(pairs, labels, how, _FILLER[self._undefined]) for how in AVERAGES}
        drawn = draws([_rows(unit, labels) for unit in units], filler=_FILLER[self._undefined])
        total = _count(pairs, labels)
        found = []
        for how in AVERAGES:
            for figure in FIGURES:
                value = values[how][figure]
                empty = [] if how == "micro" else _empty(figure, total, labels)
                found.append(
                    self._score(
                        f"{figure}.{how}",
                        value,
                        interval(value, drawn[figure, how], n=len(units)),
                        n=len(units),
                        reason=self._about(figure, empty, len(labels)),
                        detail={
                            "undefined": self._undefined,
                            "undefined_labels": empty,
                            "labels": len(labels),
                        },
                    )
                )
        return found

    def _about(self, figure: Figure, empty: Sequence[str], labels: int) -> str | None:
        if not empty:
            return None
        names = ", ".join(repr(label) for label in empty)
        if self._undefined == "status":
            return f"over {labels - len(empty)} of {labels} labels: {_WHY[figure]} {names} (0/0, left out)"
        return f"{_WHY[figure]} {names}: 0/0, counted as {_FILLER[self._undefined]:g} as the options say"

    def _each_label(self, units: Sequence[Sequence[Pair]], labels: Sequence[str]) -> list[Score]:
        pairs = [pair for unit in units for pair in unit]
        found = []
        for label, counts in zip(labels, _count(pairs, labels), strict=True):
            detail = {"label": label, **counts.as_dict()}
            for figure in FIGURES:
                value = ratio(figure, *counts.as_tuple())
                reason = None
                if value is None:
                    reason = f"{_WHY[figure]} {label!r}: 0/0"
                    if self._undefined != "status":
                        value = _FILLER[self._undefined]
                        reason += f", counted as {value:g} as the options say"
                found.append(self._score(f"{figure}[{label}]", value, None, n=len(units), reason=reason, detail=detail))
        return found

    def _score(
        self,
        suffix: str,
        value: float | None,
        between: Interval | None,
        *,
        n: int,
        reason: str | None = None,
        detail: Mapping[str, Any],
    ) -> Score:
        extra = {**detail, "interval": between.method} if between else detail
        return Score(
            name=f"{self.name}.{suffix}",
            value=value,
            status="undefined" if value is None else "scored",
            reason=reason,
            low=between.low if between else None,
            high=between.high if between else None,
            n=n,
            detail=extra,
        )


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """One label against all others."""

    tp: int
    fp: int
    fn: int

    def as_tuple(self) -> tuple[int, int, int]:
        """True positives, false positives, false negatives."""
        return self.tp, self.fp, self.fn

    def as_dict(self) -> dict[str, int]:
        """JSON-ready, with the support (how often the label is expected)."""
        return {"tp": self.tp, "fp": self.fp, "fn": self.fn, "support": self.tp + self.fn}


def label_text(value: Any) -> str:
    """A label's name: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else canonical_json(value).decode()


def _checked(labels: object) -> list[str]:
    wanted = "write a list of different, non-empty strings"
    if not isinstance(labels, list | tuple) or not labels:
        raise refuse("classification", "labels", labels, wanted)
    if not all(isinstance(label, str) and label for label in labels) or len(set(labels)) < len(labels):
        raise refuse("classification", "labels", labels, wanted)
    return list(labels)


def _units(trials: Sequence[TrialScores]) -> tuple[list[list[Pair]], int]:
    """Pairs by group, else by case; and how many trials failed."""
    units: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)
    missing = 0
    for trial in trials:
        pair = next((found for score in trial.scores if (found := _pair(score)) is not None), None)
        if pair is not None:
            units["group" if trial.group else "case", trial.group or trial.case].append(pair)
        elif any(score.status == "failed" for score in trial.scores) or not trial.scores:
            missing += 1
    return list(units.values()), missing


def _pair(score: Score) -> Pair | None:
    if not score.name.endswith(".correct") or score.status != "scored":
        return None
    return score.detail["expected"], score.detail["predicted"]


def _seen(pairs: Sequence[Pair]) -> list[str]:
    return sorted({label for pair in pairs for label in pair if label is not None})


def _count(pairs: Sequence[Pair], labels: Sequence[str]) -> list[LabelCounts]:
    tp, fp, fn = (dict.fromkeys(labels, 0) for _ in range(3))
    for want, got in pairs:
        if want == got:
            tp[want] += 1
            continue
        fn[want] += 1
        if got in fp:
            fp[got] += 1
    return [LabelCounts(tp[label], fp[label], fn[label]) for label in labels]


def _rows(pairs: Sequence[Pair], labels: Sequence[str]) -> Counts:
    counts = _count(pairs, labels)
    return [c.tp for c in counts], [c.fp for c in counts], [c.fn for c in counts]


def _accuracy(units: Sequence[Sequence[Pair]]) -> tuple[float, Interval | None]:
    """The share of correct trials: Wilson's interval where trials are independent, else a bootstrap of units."""
    tallies = [(sum(want == got for want, got in unit), len(unit)) for unit in units]
    right, total = (sum(column) for column in zip(*tallies, strict=True))
    if total == len(units):
        return right / total, wilson(right, total)
    return right / total, bootstrap_interval(tallies, _share)


def _share(tallies: Sequence[tuple[int, int]]) -> float:
    return sum(right for right, _ in tallies) / sum(total for _, total in tallies)


def _empty(figure: Figure, total: Sequence[LabelCounts], labels: Sequence[str]) -> list[str]:
    return [label for label, counts in zip(labels, total, strict=True) if ratio(figure, *counts.as_tuple()) is None]


def _by_sklearn(
    pairs: Sequence[Pair], labels: Sequence[str], how: Average, filler: float
) -> dict[Figure, float | None]:
    from sklearn.metrics import precision_recall_fscore_support

    found = precision_recall_fscore_support(
        [want for want, _ in pairs],
        [_NO_LABEL if got is None else got for _, got in pairs],
        labels=list(labels),
        average=how,
        zero_division=filler,
    )
    values = (float(value) for value in found[:3])
    return {figure: None if math.isnan(value) else value for figure, value in zip(FIGURES, values, strict=True)}


def _confusion(pairs: Sequence[Pair], labels: Sequence[str]) -> list[list[int]]:
    """Rows are expected labels, columns predicted ones, both in order of ``labels``."""
    seen = Counter(pairs)
    return [[seen[want, got] for got in labels] for want in labels]
