"""Word-level differences of two texts, bounded in time and size."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from harness.errors import CanonicalError
from harness.pipeline import plain
from harness.report.summary import Excerpt, Piece

SIDE = 6_000
"""Characters of each side that are compared."""
WORDS = 800
"""Words of each side that are compared, counted from the first difference."""
CONTEXT = 160
"""Characters of equal text kept on each side of a difference."""

_WORD = re.compile(r"\s+|\w+\s*|[^\w\s]\s*")
"""A word with the space behind it, so that spaces alone never match."""
_PAIRS = 30_000
"""Equal pairs of words up to which every word may anchor a match; beyond, only the rarer ones may."""


def readable(content: bytes) -> str:
    """A snapshot as a person reads it: strings bare, other JSON indented, anything else as text."""
    try:
        return shown(plain(content))
    except CanonicalError:
        return content.decode("utf-8", errors="replace")


def shown(value: object) -> str:
    """A JSON value as a person reads it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def excerpt(text: str, limit: int) -> Excerpt:
    """The first ``limit`` characters, and how many are left out."""
    return Excerpt(text[:limit], max(0, len(text) - limit))


def difference(before: str, after: str) -> tuple[Piece, ...]:
    """What has to go from ``before`` and come in to make ``after``, word by word.

    Long stretches of equal text are shortened, and what lies beyond the bounds is not compared; both are stated in
    pieces of kind ``left_out``. Equal texts give no pieces.
    """
    if before == after:
        return ()
    start = _common_start(before, after)
    end = _common_start(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    a, b = _WORD.findall(old[:SIDE])[:WORDS], _WORD.findall(new[:SIDE])[:WORDS]
    head = [Piece("same", before[:start])] if start else []
    pieces = list(_joined([*head, *_compare(a, b)]))
    rest = len(old) - sum(map(len, a)), len(new) - sum(map(len, b))
    if any(rest):
        text = f"{rest[0]:,} further characters before and {rest[1]:,} after are not compared"
        pieces.append(Piece("left_out", text))
    if end:
        pieces.append(Piece("same", before[len(before) - end :]))
    return tuple(_shortened(pieces))


def _common_start(before: str, after: str) -> int:
    """Length of the common beginning, back to the last word boundary."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    while low and (before[low - 1].isalnum() or before[low - 1] == "_"):
        low -= 1
    return low


def _compare(a: list[str], b: list[str]) -> Iterator[Piece]:
    often = Counter(b)
    pairs = sum(amount * often[word] for word, amount in Counter(a).items())
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=pairs > _PAIRS)
    gone = new = ""
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        same = "".join(a[a0:a1])
        if tag == "equal" and (same.strip() or not (gone or new)):
            yield from _pair(gone, new)
            gone = new = ""
            yield Piece("same", same)
        else:
            gone += "".join(a[a0:a1])
            new += "".join(b[b0:b1])
    yield from _pair(gone, new)


def _pair(gone: str, new: str) -> Iterator[Piece]:
    """Removed beside new text; the space that both end with has not changed."""
    room = min(len(gone) - len(gone.rstrip()), len(new) - len(new.rstrip()))
    space = next((gone[-size:] for size in range(room, 0, -1) if gone[-size:] == new[-size:]), "")
    if gone != space:
        yield Piece("gone", gone.removesuffix(space))
    if new != space:
        yield Piece("new", new.removesuffix(space))
    if space:
        yield Piece("same", space)


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for kind, group in groupby(pieces, key=lambda piece: piece.kind):
        yield Piece(kind, "".join(piece.text for piece in group))


def _shortened(pieces: list[Piece]) -> Iterator[Piece]:
    """Equal text is kept only near a difference."""
    for index, piece in enumerate(pieces):
        head = CONTEXT if index else 0
        tail = CONTEXT if index < len(pieces) - 1 else 0
        hidden = len(piece.text) - head - tail
        if piece.kind != "same" or hidden <= 40:
            yield piece
            continue
        if head:
            yield Piece("same", piece.text[:head])
        yield Piece("left_out", f"{hidden:,} equal characters")
        if tail:
            yield Piece("same", piece.text[-tail:])
