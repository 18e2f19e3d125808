"""Pairing expected items with found ones: equal by canonical form, or similar enough, as many pairs as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.canonical import canonical_json


@dataclass(frozen=True, slots=True)
class Match:
    """Which expected items were found."""

    pairs: tuple[tuple[Any, Any], ...]
    """Expected item and the found one it was paired with."""
    missed: tuple[Any, ...]
    """Expected, not found."""
    extra: tuple[Any, ...]
    """Found, not expected."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """True positives, false positives, false negatives."""
        return len(self.pairs), len(self.extra), len(self.missed)


def match(gold: Sequence[Any], found: Sequence[Any], *, fuzzy: float | None, repeats: bool) -> Match:
    """Pair items, each at most once.

    Args:
        gold: Expected items, JSON values.
        found: Items of the output, JSON values.
        fuzzy: Smallest rapidfuzz ratio (0 to 100) of two texts that count as one; equal only when ``None``.
        repeats: Whether an item that stands twice counts twice; else each side is a set.
    """
    if not repeats:
        gold, found = _distinct(gold), _distinct(found)
    return _equal(gold, found) if fuzzy is None else _similar(gold, found, fuzzy)


def _distinct(items: Sequence[Any]) -> list[Any]:
    return list({canonical_json(item): item for item in items}.values())


def _equal(gold: Sequence[Any], found: Sequence[Any]) -> Match:
    left = Counter(canonical_json(item) for item in found)
    pairs, missed = [], []
    for item in gold:
        key = canonical_json(item)
        if left[key] > 0:
            left[key] -= 1
            pairs.append((item, item))
        else:
            missed.append(item)
    extra = []
    for item in reversed(found):
        key = canonical_json(item)
        if left[key] > 0:
            left[key] -= 1
            extra.append(item)
    return Match(tuple(pairs), tuple(missed), tuple(reversed(extra)))


def _similar(gold: Sequence[Any], found: Sequence[Any], fuzzy: float) -> Match:
    """The most pairs there can be; among those, the most similar ones."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    if not gold or not found:
        return Match((), tuple(gold), tuple(found))
    likeness = np.array([[similarity(a, b) for b in found] for a in gold])
    one_more_pair = 100.0 * (min(len(gold), len(found)) + 1)
    worth = np.where(likeness >= fuzzy, likeness + one_more_pair, 0.0)
    rows, columns = linear_sum_assignment(worth, maximize=True)
    chosen = {int(r): int(c) for r, c in zip(rows, columns, strict=True) if likeness[r, c] >= fuzzy}
    taken = set(chosen.values())
    return Match(
        tuple((gold[row], found[column]) for row, column in sorted(chosen.items())),
        tuple(item for row, item in enumerate(gold) if row not in chosen),
        tuple(item for column, item in enumerate(found) if column not in taken),
    )


def similarity(a: Any, b: Any) -> float:
    """0 to 100: rapidfuzz's ratio of texts; of objects and lists that of their least similar texts.

    Whatever is not text must be equal, so 500 and 5000 never pair.
    """
    from rapidfuzz import fuzz

    if isinstance(a, str) and isinstance(b, str):
        return float(fuzz.ratio(a, b))
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return min((similarity(a[key], b[key]) for key in a), default=100.0)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return min((similarity(x, y) for x, y in zip(a, b, strict=True)), default=100.0)
    return 100.0 if canonical_json(a) == canonical_json(b) else 0.0
