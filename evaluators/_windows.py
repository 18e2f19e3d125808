"""Cutting a long text into windows that an embedding model takes whole."""

from __future__ import annotations

import re

_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"[A-Za-z]+")
BUDGET = 200
"""Estimated tokens of a window; small models read 256."""


def windows(text: str, *, budget: int = BUDGET) -> list[str]:
    """Slices of a text, in order, that together hold every word of it; none is longer than the budget.

    The estimate leans to the high side: four Latin letters are a token, and so is every other character.
    """
    slices: list[str] = []
    start = end = -1
    used = 0
    for begin, stop, cost in _pieces(text, budget):
        if start >= 0 and used + cost > budget:
            slices.append(text[start:end])
            start = -1
        if start < 0:
            start, used = begin, 0
        end = stop
        used += cost
    if start >= 0:
        slices.append(text[start:end])
    return slices


def _pieces(text: str, budget: int) -> list[tuple[int, int, int]]:
    """Begin, end and cost of each word; a word beyond the budget comes in parts."""
    found = []
    for word in _WORD.finditer(text):
        cost = estimate(word.group())
        if cost <= budget:
            found.append((word.start(), word.end(), cost))
            continue
        for begin in range(word.start(), word.end(), budget):
            stop = min(begin + budget, word.end())
            found.append((begin, stop, estimate(text[begin:stop])))
    return found


def estimate(text: str) -> int:
    """About how many tokens a text has, spaces not counted."""
    letters = sum(-(-len(run) // 4) for run in _LETTERS.findall(text))
    others = sum(not character.isspace() for character in _LETTERS.sub("", text))
    return letters + others
