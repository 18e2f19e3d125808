"""The exact form of a request body: everything that can change the reply, and nothing that cannot."""

from __future__ import annotations

import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from harness.canonical._json import content_hash
from harness.canonical._rules import CARRIERS, CONTENT, LONG_BASE64, SCHEMA_MAPS, SCHEMA_VALUES

ORDER = "⟦order⟧"
"""Key under which a schema's exact form keeps the order of its properties, where it is not the sorted one."""

_DATA_URL = re.compile(r"data:(?P<type>[^,]*?);base64,(?P<data>[A-Za-z0-9+/_=\s-]*)", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_\r\n-]+=*[\r\n]*")
_SHORT = 8
_OPEN = "⟦".encode()
_MARKS = (b"\\u", b'data"', b"b64_json", b"url")
"""Without any of these bytes there is neither an escaped character nor an embedded file in a body."""


def exact_body(
    body: bytes, parsed: Mapping[str, Any], volatile: Sequence[tuple[str, str]]
) -> tuple[dict[str, Any], bool]:
    """The exact form of a body, and whether it names a URL whose content may change behind it.

    Args:
        body: The body as sent; what cannot be in it is not looked for.
        parsed: The parameters in it that count.
        volatile: Declared volatile values.
    """
    everywhere = bool(volatile) or any(mark in body for mark in _MARKS) or (not body.isascii() and _OPEN in body)
    if not everywhere and b'"properties"' not in body:
        return dict(parsed), False
    form = ExactForm(volatile)
    exact: dict[str, Any] = {}
    for name, value in parsed.items():
        if name not in CONTENT:
            exact[_escaped(name)] = form.schema(value, name)
        else:
            exact[name] = form.value(value, name) if everywhere else value
    return exact, form.remote


class ExactForm:
    """Rewrites a parsed body for the exact key; the result is JSON again.

    Text that our own marks could be mistaken for is escaped by doubling ``⟦``; declared volatile values become
    ``⟦name#i⟧``; embedded files become their media type, length and digest.
    """

    def __init__(self, volatile: Sequence[tuple[str, str]]) -> None:
        self.remote = False
        """Whether a URL was met whose content may change behind it."""
        self._places = _places(volatile)

    def value(self, value: Any, field: str = "") -> Any:
        """The exact form of a value that stands under ``field``."""
        if isinstance(value, str):
            return self._carried(value) if field in CARRIERS else self._text(value)
        if isinstance(value, dict):
            return {_escaped(key): self.value(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, field) for item in value]
        return value

    def schema(self, value: Any, field: str = "") -> Any:
        """The exact form of a value that may hold JSON schemas."""
        if isinstance(value, list):
            return [self.schema(item, field) for item in value]
        if not isinstance(value, dict):
            return self.value(value, field)
        made: dict[str, Any] = {}
        for key, item in value.items():
            if key in SCHEMA_MAPS and isinstance(item, dict):
                made[key] = {_escaped(name): self.schema(part) for name, part in item.items()}
            elif key in SCHEMA_VALUES:
                made[key] = self.value(item)
            else:
                made[_escaped(key)] = self.schema(item, key)
        names = value.get("properties")
        if isinstance(names, dict) and list(names) != sorted(names):
            made[ORDER] = [self._text(name) for name in names]
        return made

    def _carried(self, text: str) -> str:
        url = _DATA_URL.fullmatch(text)
        if url:
            data = _decoded(url["data"])
            if data is not None:
                return _digest(url["type"].lower(), data)
        elif text[:8].lower().startswith(("http://", "https://")):
            self.remote = True
        elif len(text) >= LONG_BASE64 and _BASE64.fullmatch(text):
            data = _decoded(text)
            if data is not None:
                return _digest("base64", data)
        return self._text(text)

    def _text(self, text: str) -> str:
        # A pattern of all values would cost more than the search, since a long run declares very many.
        present = frozenset(value for value in self._places if value in text)
        if not present:
            return _escaped(text)
        # The pattern has one group, so that every second piece is a declared value.
        pieces = _pattern(present).split(text)
        pieces[1::2] = [_placeholder(*self._places[piece]) for piece in pieces[1::2]]
        pieces[::2] = [_escaped(piece) for piece in pieces[::2]]
        return "".join(pieces)


def _escaped(text: str) -> str:
    return text if text.isascii() else text.replace("⟦", "⟦⟦")


def _digest(label: str, data: bytes) -> str:
    return f"⟦{_escaped(label)};{len(data)};sha256:{content_hash(data)}⟧"


def _decoded(text: str) -> bytes | None:
    """The bytes that base64 in either alphabet, padded or not, stands for; ``None`` if it is not clean base64."""
    plain = re.sub(r"\s", "", text).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None
    # Stray bits in the last character are lost in decoding: two texts must not become one.
    return data if base64.b64encode(data).decode().rstrip("=") == plain else None


def _places(volatile: Sequence[tuple[str, str]]) -> dict[str, tuple[str, int]]:
    """Name and number of each declared value, by its text; the first one counts."""
    counts: defaultdict[str, int] = defaultdict(int)
    places: dict[str, tuple[str, int]] = {}
    for name, text in volatile:
        if text:
            places.setdefault(text, (name, counts[name]))
        counts[name] += 1
    return places


def _placeholder(name: str, number: int) -> str:
    return f"⟦{name.replace('⟦', '').replace('⟧', '')}#{number}⟧"


@lru_cache(maxsize=256)
def _pattern(values: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(values, key=lambda text: (-len(text), text))
    return re.compile("(" + "|".join(_bounded(text) for text in longest_first) + ")")


def _bounded(text: str) -> str:
    """A short value counts only as a word of its own: the 7 of a dice roll is not the 7 of 1970."""
    if len(text) >= _SHORT:
        return re.escape(text)
    return rf"(?<![^\W_]){re.escape(text)}(?![^\W_])"
