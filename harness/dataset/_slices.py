"""Cutting content into slices, so that a growing conversation is stored as its growth.

Requests and snapshots of one run repeat each other: every turn sends the whole conversation again. Cut at the
same places, equal beginnings become equal slices, and a chain of slices is stored as a pointer to its prefix.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_OPEN, _CLOSE = b"[{", b"]}"
LARGE = 512
"""A container longer than this is cut between its entries."""
_SMALL = 96
"""A shorter slice is joined with what follows it: the record of a slice would outweigh it."""


def split(data: bytes) -> list[bytes]:
    """Slices whose concatenation is ``data``, whatever ``data`` is.

    Cuts depend only on what stands before them (and on a container being large), so two texts with a common
    beginning share all slices but the last of it. Text that is not JSON is one slice.
    """
    if len(data) <= LARGE or data[:1] not in (b"[", b"{"):
        return [data]
    slices, start = [], 0
    for cut, hard in _cuts(data):
        if cut - start >= _SMALL or (hard and cut > start):
            slices.append(data[start:cut])
            start = cut
    slices.append(data[start:])
    return slices


def _cuts(data: bytes) -> list[tuple[int, bool]]:
    """(offset, hard) of every place between the entries of large containers, in order.

    The end of a large container is a hard cut: what follows it (tool schemas, parameters) is the same in
    every turn and must not be joined with the last entry, which is new in every turn.
    """
    stack: list[tuple[int, list[tuple[int, bool]]]] = []
    done: list[tuple[int, bool]] = []
    for match in _TOKEN.finditer(data):
        token, offset = match.group(), match.start()
        if token in _OPEN:
            stack.append((offset, []))
        elif token in _CLOSE:
            if not stack:
                return []
            start, cuts = stack.pop()
            if offset - start > LARGE:
                (stack[-1][1] if stack else done).extend([*cuts, (offset, True)])
        elif token == b"," and stack:
            stack[-1][1].append((offset, False))
    return [] if stack else done
