"""Splitting a JSON body into pieces that a conversation shares, and joining them byte for byte.

A body falls into a *layout* and the elements of its growing list: ``messages`` or ``input`` of a request, else the
list of objects that makes up most of it, such as the history in a step's snapshot. The layout holds the bytes
around that list; large values in it (each tool, long instructions) stand there by hash as *parts*. Two turns of one
conversation thus share layout, parts and all elements but the new ones.

An element is the slice between two commas, so joining with commas restores any spacing.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from harness.record._values import Hash

_GROWING = frozenset({"messages", "input"})
_PART_BYTES = 200
"""A value in the envelope longer than this becomes a part."""
_VERSION = b"\x01"
_LITERAL, _PART, _HOLE = 0, 1, 2
_HEAD = struct.Struct(">BI")
_space = re.compile(r"[ \t\n\r]*").match
_scan = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Prefix:
    """A body up to the end of its last element: where the conversation's next turn goes on."""

    data: bytes
    head: tuple[tuple[int, bytes], ...]
    """The layout's segments before the growing list."""
    parts: tuple[tuple[Hash, bytes], ...]
    """The values among them that stand there by hash."""
    depth: int
    """How many objects are open around the list."""


@dataclass(frozen=True, slots=True)
class Split:
    """A request body in pieces."""

    layout: bytes
    """The packed layout; equal for the turns of a conversation whose other parameters are equal."""
    parts: tuple[bytes, ...]
    """The values that the layout refers to by hash."""
    growing: tuple[bytes, ...]
    """The elements of the growing list, each with the space before it."""
    prefix: Prefix | None
    """Makes splitting the next turn quick; ``None`` without a growing list."""
    resumed: bool
    """Whether ``growing`` leaves out the elements of the prefix given."""


def split_body(body: bytes, after: Prefix | None = None) -> Split | None:
    """Split a body, or return ``None`` when it is no JSON object or list, or has nothing to share.

    Args:
        body: The bytes as sent.
        after: The prefix of an earlier turn; where the body begins with it, only the rest is looked at.

    Returns:
        Pieces that ``join_body`` turns back into the identical bytes; this has been checked.
    """
    if after is not None and body.startswith(after.data):
        found = _split(body, _Pieces(body[len(after.data) :], after), after)
        if found is not None:
            return found
    return _split(body, _Pieces(body, None), None)


def _split(body: bytes, pieces: _Pieces, after: Prefix | None) -> Split | None:
    try:
        pieces.read()
    except (ValueError, RecursionError, StopIteration, IndexError):
        return None
    if not pieces.parts and pieces.hole is None:
        return None
    if pieces.rejoined() != body[len(after.data) if after else 0 :]:
        return None
    layout = _VERSION + b"".join(_HEAD.pack(kind, len(data)) + data for kind, data in pieces.segments)
    prefix = None
    if pieces.hole is not None:
        end = len(body) - pieces.tail
        head = tuple(pieces.segments[: pieces.hole])
        named = {data.hex() for kind, data in head if kind == _PART}
        prefix = Prefix(body[:end], head, tuple((name, pieces.parts[name]) for name in sorted(named)), pieces.depth)
    return Split(layout, tuple(pieces.parts.values()), tuple(pieces.growing), prefix, after is not None)


def join_body(layout: bytes, growing: Sequence[bytes], read: Callable[[Hash], bytes]) -> bytes:
    """The body that ``split_body`` took apart.

    Args:
        layout: The packed layout.
        growing: The elements of the growing list, in order.
        read: Finds a part by hash.

    Raises:
        ValueError: These are not the bytes of a layout.
    """
    out: list[bytes] = []
    for kind, data in _segments(layout):
        if kind == _LITERAL:
            out.append(data)
        elif kind == _PART:
            out.append(read(data.hex()))
        else:
            out.append(b",".join(growing))
    return b"".join(out)


def layout_parts(layout: bytes) -> tuple[Hash, ...]:
    """The hashes that a layout refers to."""
    return tuple(data.hex() for kind, data in _segments(layout) if kind == _PART)


def _segments(layout: bytes) -> Iterable[tuple[int, bytes]]:
    if layout[:1] != _VERSION:
        raise ValueError(f"layout version {layout[:1]!r} is unknown")
    at = 1
    while at < len(layout):
        if at + _HEAD.size > len(layout):
            raise ValueError("layout is cut short")
        kind, size = _HEAD.unpack_from(layout, at)
        at += _HEAD.size
        if kind not in {_LITERAL, _PART, _HOLE} or at + size > len(layout):
            raise ValueError("layout is damaged")
        yield kind, layout[at : at + size]
        at += size


class _Pieces:
    """One pass over a body, or over what follows a prefix; positions are characters."""

    def __init__(self, body: bytes, after: Prefix | None) -> None:
        self._bytes = body
        self._text = ""
        self._after = after
        self._done = 0
        self._depth = 0
        self.depth = 0
        """How many objects are open around the growing list."""
        self.segments: list[tuple[int, bytes]] = list(after.head) if after else []
        self.parts: dict[Hash, bytes] = dict(after.parts) if after else {}
        self.growing: list[bytes] = []
        self.hole: int | None = None
        """Where the growing list stands among the segments."""
        self.tail = 0
        """Bytes after its last element."""

    def read(self) -> None:
        """Walk over the body, or on from the end of an element of its growing list.

        Raises:
            ValueError: This is no JSON; ``IndexError`` and ``RecursionError`` mean the same.
        """
        self._text = self._bytes.decode("utf-8")
        if self._after is not None:
            self._resume(self._after.depth)
        else:
            at = self._skip(0)
            if self._text[at] == "{":
                self._object(at)
            elif not self._list(at):
                raise ValueError("neither object nor list of objects")
        self._literal(len(self._text))

    def _resume(self, depth: int) -> None:
        self._depth = depth
        if self._text[0] == ",":
            at = self._elements(1)
        else:
            self._mark_hole(0)
            at = self._expect("]", self._skip(0))
        for _ in range(depth):
            at = self._members(self._next(at))

    def rejoined(self) -> bytes:
        """The bytes that were read, from the pieces."""
        growing = b",".join(self.growing)
        start = 0
        if self._after is not None:
            start, growing = self.hole or 0, b"," + growing if self.growing else b""
        out = []
        for kind, data in self.segments[start:]:
            out.append(data if kind == _LITERAL else self.parts[data.hex()] if kind == _PART else growing)
        return b"".join(out)

    def _object(self, at: int) -> int:
        self._depth += 1
        return self._members(self._skip(self._expect("{", at)))

    def _members(self, at: int) -> int:
        """From a member of an object to the object's end."""
        while self._text[at] != "}":
            key, at = _scan(self._text, at)
            at = self._skip(self._expect(":", self._skip(at)))
            at = self._next(self._value(key, at))
        self._depth -= 1
        return at + 1

    def _next(self, at: int) -> int:
        """From the end of a member's value to the next member, or to the end of the object."""
        at = self._skip(at)
        if self._text[at] == ",":
            return self._skip(at + 1)
        if self._text[at] != "}":
            raise ValueError("no JSON object")
        return at

    def _value(self, key: str, at: int) -> int:
        """Walk over one value; returns its end."""
        if self._depth == 1 and self._text[at] == "[":
            if key in _GROWING and (end := self._list(at)):
                return end
            if key == "tools":
                return self._tools(at + 1)
        _, end = _scan(self._text, at)
        if self.hole is None and end - at > max(len(self._text) // 2, _PART_BYTES):
            if self._text[at] == "{":
                return self._object(at)
            if self._text[at] == "[" and self._list(at):
                return end
        self._part(at, end)
        return end

    def _list(self, at: int) -> int:
        """Take a list of objects as the growing one; returns its end, 0 when it is none or there is one already."""
        if self.hole is not None or self._text[self._skip(self._expect("[", at))] != "{":
            return 0
        self._literal(at + 1)
        return self._elements(at + 1)

    def _elements(self, at: int) -> int:
        while True:
            _, end = _scan(self._text, self._skip(at))
            after = self._skip(end)
            if self._text[after] != ",":
                self.growing.append(self._slice(at, end))
                self._mark_hole(end)
                return self._expect("]", after)
            self.growing.append(self._slice(at, after))
            at = after + 1

    def _mark_hole(self, end: int) -> None:
        self.hole = len(self.segments)
        self.depth = self._depth
        self.tail = len(self._slice(end, len(self._text)))
        self.segments.append((_HOLE, b""))
        self._done = end

    def _tools(self, at: int) -> int:
        at = self._skip(at)
        while self._text[at] != "]":
            _, end = _scan(self._text, at)
            self._part(at, end)
            at = self._skip(end)
            if self._text[at] == ",":
                at = self._skip(at + 1)
        return at + 1

    def _part(self, start: int, end: int) -> None:
        if end - start <= _PART_BYTES:
            return
        self._literal(start)
        data = self._slice(start, end)
        digest = sha256(data)
        self.parts[digest.hexdigest()] = data
        self.segments.append((_PART, digest.digest()))
        self._done = end

    def _literal(self, end: int) -> None:
        if end > self._done:
            self.segments.append((_LITERAL, self._slice(self._done, end)))
            self._done = end

    def _slice(self, start: int, end: int) -> bytes:
        if len(self._text) == len(self._bytes):
            return self._bytes[start:end]
        return self._text[start:end].encode("utf-8")

    def _skip(self, at: int) -> int:
        match = _space(self._text, at)
        return match.end() if match else at

    def _expect(self, char: str, at: int) -> int:
        if self._text[at] != char:
            raise ValueError("no JSON object")
        return at + 1
