"""Splitting a JSON request body into pieces that a conversation shares, and joining them byte for byte.

A body falls into a *layout* and the elements of its growing list (``messages``, or ``input`` when it is a list of
objects). The layout holds the bytes around that list; large values in it (each tool, long instructions) stand
there by hash as *parts*. Two turns of one conversation thus share layout, parts and all elements but the new ones.

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
class Split:
    """A request body in pieces."""

    layout: bytes
    """The packed layout; equal for the turns of a conversation whose other parameters are equal."""
    parts: tuple[bytes, ...]
    """The values that the layout refers to by hash."""
    growing: tuple[bytes, ...]
    """The elements of the growing list, each with the space before it; empty when there is no such list."""


def split(body: bytes) -> Split | None:
    """Split a request body, or return ``None`` when it is no JSON object, or has nothing to share.

    Args:
        body: The bytes as sent.

    Returns:
        Pieces that ``join`` turns back into the identical bytes; this has been checked.
    """
    try:
        pieces = _Pieces(body)
        pieces.read_object()
    except (ValueError, RecursionError, StopIteration, IndexError):
        return None
    if not pieces.parts and not pieces.growing:
        return None
    found = Split(pieces.layout(), tuple(pieces.parts.values()), tuple(pieces.growing))
    joined = join(found.layout, found.growing, pieces.parts.__getitem__)
    return found if joined == body else None


def join(layout: bytes, growing: Sequence[bytes], read: Callable[[Hash], bytes]) -> bytes:
    """The body that ``split`` took apart.

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
    """One pass over a body; positions are characters, equal to bytes when the body is ASCII."""

    def __init__(self, body: bytes) -> None:
        self._text = body.decode("utf-8")
        self._body = body if len(self._text) == len(body) else None
        self._segments: list[tuple[int, bytes]] = []
        self._done = 0
        self.parts: dict[Hash, bytes] = {}
        self.growing: list[bytes] = []

    def read_object(self) -> None:
        """Walk over the members of the top-level object."""
        at = self._skip(self._expect("{", self._skip(0)))
        while self._text[at] != "}":
            key, at = _scan(self._text, at)
            at = self._skip(self._expect(":", self._skip(at)))
            at = self._value(key, at)
            at = self._skip(at)
            if self._text[at] == ",":
                at = self._skip(at + 1)
            elif self._text[at] != "}":
                raise ValueError("no JSON object")
        self._literal(len(self._text))

    def layout(self) -> bytes:
        """The segments, packed."""
        return _VERSION + b"".join(_HEAD.pack(kind, len(data)) + data for kind, data in self._segments)

    def _value(self, key: str, at: int) -> int:
        """Walk over one value; returns its end."""
        if self._text[at] == "[" and (key == "tools" or (key in _GROWING and not self.growing)):
            if key in _GROWING and self._text[self._skip(at + 1)] == "{":
                return self._growing_list(at + 1)
            if key == "tools":
                return self._tools(at + 1)
        _, end = _scan(self._text, at)
        self._part(at, end)
        return end

    def _growing_list(self, at: int) -> int:
        self._literal(at)
        while True:
            _, end = _scan(self._text, self._skip(at))
            after = self._skip(end)
            if self._text[after] != ",":
                self.growing.append(self._slice(at, end))
                self._segments.append((_HOLE, b""))
                self._done = end
                return self._expect("]", after)
            self.growing.append(self._slice(at, after))
            at = after + 1

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
        self._segments.append((_PART, digest.digest()))
        self._done = end

    def _literal(self, end: int) -> None:
        if end > self._done:
            self._segments.append((_LITERAL, self._slice(self._done, end)))
            self._done = end

    def _slice(self, start: int, end: int) -> bytes:
        if self._body is not None:
            return self._body[start:end]
        return self._text[start:end].encode("utf-8")

    def _skip(self, at: int) -> int:
        match = _space(self._text, at)
        return match.end() if match else at

    def _expect(self, char: str, at: int) -> int:
        if self._text[at] != char:
            raise ValueError("no JSON object")
        return at + 1
