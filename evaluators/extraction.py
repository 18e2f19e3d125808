"""Extraction: which of the expected items did the output find."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

from evaluators._counts import FIGURES, Counts, Figure, draws, interval, ratio
from evaluators._items import Match, match
from evaluators._options import choice, content_version, number, text
from evaluators._paths import MISSING, parse_path
from harness.errors import EvaluatorError
from harness.score import Score, TrialScores

_REVISION = 1
_EMPTY = "nothing to find and nothing found: correct by rule"
_WHY = {"precision": "nothing was found", "recall": "nothing was to be found", "f1": "nothing to find or found"}


class Extraction:
    """Compares a list of items (strings or objects) with the expected list.

    Items pair when their canonical JSON is equal (1 and 1.0 are, key order is nothing), or with ``fuzzy`` when
    their texts are similar enough; each pairs once, and as many as possible do. Per trial it yields
    precision, recall and F1; over the set the same from summed counts (micro). Where nothing is expected and
    nothing found, the trial is correct by rule: 1 for all three; such trials are counted apart and add nothing to
    the summed counts. An output without a list finds nothing, and is never correct by that rule.
    """

    def __init__(
        self,
        *,
        field: str = "entities",
        fuzzy: float | None = None,
        items: Literal["multiset", "set"] = "multiset",
        name: str = "extraction",
    ) -> None:
        """Take the options.

        Args:
            field: Where the list stands in output and expected output: ``entities``, ``$.reply.items``, ``$``.
            fuzzy: Smallest rapidfuzz ratio (1 to 100, 90 say) at which two texts count as the same item.
            items: ``multiset`` counts repeated items as often as they stand; ``set`` once.
            name: Prefix of the scores' names.

        Raises:
            EvaluatorError: An option cannot be used.
        """
        self.name = text("extraction", "name", name)
        self._path = parse_path("extraction", "field", field)
        self._fuzzy = None if fuzzy is None else number("extraction", "fuzzy", fuzzy, low=1, high=100)
        if self._fuzzy is not None and self._fuzzy <= 1:
            raise EvaluatorError("evaluator 'extraction': option 'fuzzy' goes from 1 to 100; write 90, not 0.9")
        self._items: Literal["multiset", "set"] = choice("extraction", "items", items, ("multiset", "set"))
        options = {"field": field, "fuzzy": self._fuzzy, "items": self._items}
        self.version = content_version("extraction", _REVISION, options)

    def evaluate(self, output: Any, expected_output: Any) -> list[Score]:
        """Scores ``<name>.precision``, ``<name>.recall`` and ``<name>.f1``; the pairs stand in the detail.

        Raises:
            EvaluatorError: What the case expects there is no list.
        """
        gold = self._path.of(expected_output)
        if gold is MISSING or gold is None:
            reason = f"the case expects nothing at {self._path.text!r}"
            return [Score(name=f"{self.name}.{f}", status="skipped", reason=reason) for f in FIGURES]
        if not isinstance(gold, list | tuple):
            raise EvaluatorError(
                f"evaluator {self.name!r}: the case expects {type(gold).__name__} at {self._path.text!r}; "
                "write a list of strings or objects"
            )
        found = self._path.of(output)
        broken = None if isinstance(found, list | tuple) else f"the output has no list at {self._path.text!r}"
        pairing = match(
            list(gold),
            [] if broken else list(found),
            fuzzy=self._fuzzy,
            repeats=self._items == "multiset",
        )
        return [self._trial(figure, pairing, broken) for figure in FIGURES]

    def _trial(self, figure: Figure, pairing: Match, broken: str | None) -> Score:
        tp, fp, fn = pairing.counts
        value = ratio(figure, tp, fp, fn)
        reason = broken
        empty = broken is None and tp + fp + fn == 0
        if empty:
            value, reason = 1.0, _EMPTY
        elif value is None and broken is not None and figure == "f1":
            value = 0.0
        elif value is None:
            reason = f"{_WHY[figure]}: 0/0" if broken is None else f"{broken}; {_WHY[figure]}: 0/0"
        return Score(
            name=f"{self.name}.{figure}",
            value=value,
            status="undefined" if value is None else "scored",
            reason=reason,
            detail={
                "tp": tp,
                "fp": fp,
                "fn": fn,
                "empty": empty,
                "pairs": [list(pair) for pair in pairing.pairs],
                "missed": list(pairing.missed),
                "extra": list(pairing.extra),
            },
        )

    def summarize(self, trials: Sequence[TrialScores]) -> Sequence[Score]:
        """``<name>.precision.micro``, ``….recall.micro`` and ``….f1.micro``, from counts summed over trials."""
        units: defaultdict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
        empty = missing = 0
        for trial in trials:
            detail = next((s.detail for s in trial.scores if "tp" in s.detail), None)
            if detail is None:
                missing += any(s.status == "failed" for s in trial.scores) or not trial.scores
                continue
            empty += bool(detail["empty"])
            counts = (detail["tp"], detail["fp"], detail["fn"])
            units["group" if trial.group else "case", trial.group or trial.case].append(counts)
        sums = [_summed(unit) for unit in units.values()]
        about = {"trials": sum(map(len, units.values())), "empty": empty, "missing": missing}
        return self._micro(sums, about)

    def _micro(self, sums: Sequence[tuple[int, int, int]], about: dict[str, int]) -> list[Score]:
        tp, fp, fn = _summed(sums)
        rows: list[Counts] = [([a], [b], [c]) for a, b, c in sums]
        drawn = draws(rows, filler=float("nan")) if rows else {}
        found = []
        for figure in FIGURES:
            value = ratio(figure, tp, fp, fn)
            between = interval(value, drawn.get((figure, "micro"), ()), n=len(rows))
            detail: dict[str, Any] = {"tp": tp, "fp": fp, "fn": fn, **about}
            if between:
                detail["interval"] = between.method
            found.append(
                Score(
                    name=f"{self.name}.{figure}.micro",
                    value=value,
                    status="undefined" if value is None else "scored",
                    reason=_about(figure, value, about),
                    low=between.low if between else None,
                    high=between.high if between else None,
                    n=len(rows),
                    detail=detail,
                )
            )
        return found


def _about(figure: Figure, value: float | None, about: dict[str, int]) -> str | None:
    reason = [] if value is not None else [f"{_WHY[figure]} in any trial: 0/0"]
    if about["empty"]:
        reason.append(
            f"{about['empty']} of {about['trials']} trials had nothing to find and nothing found; "
            "by rule each is correct in the means, and adds nothing to these counts"
        )
    return "; ".join(reason) or None


def _summed(counts: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    tp, fp, fn = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0)
    return tp, fp, fn
