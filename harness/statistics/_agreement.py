"""How far two raters agree beyond chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from harness.statistics._intervals import wilson, z_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Kappa:
    """Agreement of two raters on the same items, beside what chance alone would give."""

    value: float | None
    """``None`` when chance agreement is 1 (both raters used one and the same label) or n is 0."""
    low: float | None
    high: float | None
    """Ends of the interval; ``None`` where kappa or its interval is undefined."""
    n: int
    agreement: float | None
    """Share of items on which both say the same."""
    chance: float | None
    """Share expected of two raters who keep their own label frequencies and look at nothing."""
    method: str = "Fleiss, Cohen and Everitt 1969"


def chance_agreement(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """How often two raters with these label frequencies would agree by chance; ``None`` without items.

    Raises:
        ValueError: The raters did not rate the same number of items.
    """
    n = _paired(first, second)
    if n == 0:
        return None
    ours, theirs = Counter(first), Counter(second)
    return sum(count * theirs[label] for label, count in ours.items()) / (n * n)


def cohens_kappa(first: Sequence[Hashable], second: Sequence[Hashable], *, confidence: float = 0.95) -> Kappa:
    """Cohen's kappa of two raters over the same items, in the same order, with its large-n interval.

    Full agreement has no spread; its lower end is then Wilson's for the agreement, chance held fixed.

    Raises:
        ValueError: The raters did not rate the same number of items.
    """
    n = _paired(first, second)
    chance = chance_agreement(first, second)
    if n == 0 or chance is None:
        return Kappa(value=None, low=None, high=None, n=0, agreement=None, chance=None)
    agreed = sum(a == b for a, b in zip(first, second, strict=True))
    agreement = agreed / n
    if chance == 1:
        return Kappa(value=None, low=None, high=None, n=n, agreement=agreement, chance=chance)
    kappa = (agreement - chance) / (1 - chance)
    if agreed == n:
        bound = wilson(n, n, confidence=confidence)
        low = (bound.low - chance) / (1 - chance) if bound else None
        return Kappa(
            value=1.0,
            low=low,
            high=1.0,
            n=n,
            agreement=1.0,
            chance=chance,
            method="Wilson, chance held fixed",
        )
    half = z_value(confidence) * _kappa_error(first, second, agreement, chance)
    return Kappa(
        value=kappa,
        low=max(-1.0, kappa - half),
        high=min(1.0, kappa + half),
        n=n,
        agreement=agreement,
        chance=chance,
    )


def _kappa_error(first: Sequence[Hashable], second: Sequence[Hashable], agreement: float, chance: float) -> float:
    """Standard error of kappa away from 0 (Fleiss, Cohen and Everitt 1969)."""
    n = len(first)
    ours, theirs = Counter(first), Counter(second)
    diagonal = off = 0.0
    wrong = 1 - agreement
    for (a, b), count in Counter(zip(first, second, strict=True)).items():
        if a == b:
            margins = (ours[a] + theirs[a]) / n
            diagonal += count / n * ((1 - chance) - margins * wrong) ** 2
        else:
            off += count / n * ((theirs[a] + ours[b]) / n) ** 2
    spread = diagonal + wrong**2 * off - (agreement * chance - 2 * chance + agreement) ** 2
    return float(math.sqrt(max(0.0, spread) / n) / (1 - chance) ** 2)


def _paired(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    if len(first) != len(second):
        raise ValueError(f"the raters rated {len(first)} and {len(second)} items; join them by id first")
    return len(first)
