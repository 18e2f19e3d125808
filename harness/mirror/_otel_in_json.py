"""OTLP/JSON as files hold it: one request a file, or one a line, as hostile as a file can be.

Source: the JSON encoding of OTLP 1.x and OpenTelemetry's file exporter. Names of fields are read in both spellings that
protobuf's JSON knows, ids in hex (OTLP) and base64 (protobuf), 64-bit numbers as text and as numbers.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from harness.mirror._observation import TOO_DEEP, fit, plain

LARGEST: Final = 512 * 2**20
"""Most bytes of one request that is spread over several lines."""
_DEEP: Final = 200
_DIGITS: Final = 400
_VALUES: Final = 100
_BOM: Final = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_HUMP = re.compile("[A-Z]")
_HEX = re.compile("[0-9a-fA-F]+")
LAST: Final = 253_402_214_400 * 10**9
"""Nanoseconds beyond which no date is, less a day for time zones."""
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Piece:
    """One JSON value of a file, or what cannot be read."""

    line: int
    """Where it begins, from 1."""
    value: Any = None
    reason: str = ""
    """Why it cannot be read; empty for a value."""
    size: int = 0
    """Bytes."""


def pieces(lines: Iterable[bytes]) -> Iterator[Piece]:
    """The JSON values of a file, one by one: each on a line of its own, or spread over several.

    A line that is broken costs what stands on it and nothing else.
    """
    held = _Held()
    for number, raw in enumerate(lines, 1):
        line = raw.removeprefix(_BOM) if number == 1 else raw
        if not line.strip():
            continue
        value = _alone(line)
        if value is not _MISSING and (not held.lines or _is_request(value)):
            if held.lines:
                yield Piece(held.first, reason="it is cut off", size=held.size)
                held = _Held()
            yield Piece(number, value, size=len(line))
            continue
        if not held.lines and not line.lstrip().startswith((b"{", b"[")):
            yield Piece(number, reason="it is no JSON", size=len(line))
            continue
        held.add(number, line)
        if held.depth <= 0 or held.size > LARGEST:
            yield held.piece()
            held = _Held()
    if held.lines:
        yield held.piece()


class _Held:
    """Lines of which none is a value by itself."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.first = self.size = self.depth = 0

    def add(self, number: int, line: bytes) -> None:
        self.first = self.first or number
        self.lines.append(line)
        self.size += len(line)
        for found in _TOKEN.finditer(line):
            self.depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(found[0], 0)

    def piece(self) -> Piece:
        if self.size > LARGEST:
            reason = f"it goes on for more than {LARGEST // 2**20} MiB; write one request a line"
            return Piece(self.first, reason=reason, size=self.size)
        value = _alone(b"".join(self.lines))
        if value is not _MISSING:
            return Piece(self.first, value, size=self.size)
        return Piece(self.first, reason="it is cut off" if self.depth > 0 else "it is no JSON", size=self.size)


def _alone(data: bytes) -> Any:
    """The JSON value that bytes are, what nests too deeply in it as null; ``_MISSING`` when they are none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return _lenient(data)
    except RecursionError:
        pass
    except ValueError:
        return _MISSING
    try:
        return _lenient(_shallow(data))
    except (ValueError, RecursionError):
        return _MISSING


def _lenient(data: bytes) -> Any:
    # NaN, lone surrogates, bytes that are no UTF-8: other programs write them, and a span is more than that one value.
    return json.loads(data.decode("utf-8", "replace"), parse_int=_integer)


def _integer(text: str) -> int | str:
    """Digits beyond all reason stay text: turning them into a number takes quadratic time."""
    return int(text) if len(text) <= _DIGITS else text


def _shallow(data: bytes) -> bytes:
    """The text with null for every value that nests deeper than anything real."""
    kept: list[bytes] = []
    depth = start = 0
    for found in _TOKEN.finditer(data):
        if found[0] in {b"[", b"{"}:
            depth += 1
            if depth == _DEEP:
                kept += [data[start : found.start()], b"null"]
        elif found[0] in {b"]", b"}"}:
            if depth == _DEEP:
                start = found.end()
            depth -= 1
    return b"".join([*kept, data[start:]]) if depth < _DEEP else data


def _is_request(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(field_of(value, "resourceSpans"), list)


def field_of(holder: Any, name: str) -> Any:
    """A field of a message by its JSON name or the one of its definition; ``None`` without it."""
    if not isinstance(holder, Mapping):
        return None
    found = holder.get(name)
    return found if found is not None else holder.get(_HUMP.sub(lambda hump: f"_{hump[0].lower()}", name))


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; nothing for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class Raw:
    """A span as it stands in a request."""

    span: Mapping[str, Any]
    resource: Mapping[str, Any]
    """Attributes of what made it, decoded."""
    scope: str
    """Name of the library that made it."""


def spans_in(value: Any) -> Iterator[Raw]:
    """The spans of a request, or of a list of requests."""
    requests = objects(value) if isinstance(value, list) else [value]
    for group in [group for one in requests for group in objects(field_of(one, "resourceSpans"))]:
        resource = attributes_of(field_of(group, "resource"))
        scoped = field_of(group, "scopeSpans")
        for part in objects(field_of(group, "instrumentationLibrarySpans") if scoped is None else scoped):
            scope = field_of(part, "scope") or field_of(part, "instrumentationLibrary")
            name = field_of(scope, "name")
            for span in objects(field_of(part, "spans")):
                yield Raw(span, resource, name if isinstance(name, str) else "")


def attributes_of(holder: Any) -> dict[str, Any]:
    """The attributes of a span, an event or a resource, the first of a name counts.

    A name that is no text is read as its JSON text.
    """
    found: dict[str, Any] = {}
    for pair in objects(field_of(holder, "attributes")):
        name = pair.get("key")
        if name is not None and name != "":
            found.setdefault(fit(name) if isinstance(name, str) else json.dumps(plain(name)), any_value(pair))
    return found


def any_value(pair: Mapping[str, Any]) -> Any:
    """The value of an attribute as a plain JSON value; what nests too deeply is a note."""
    try:
        return plain(_any(pair.get("value"), 0))
    except RecursionError:
        return TOO_DEEP


def _any(value: Any, depth: int) -> Any:
    if depth > _VALUES:
        raise RecursionError
    for name, read in _SCALARS.items():
        found = field_of(value, name)
        if found is not None:
            return read(found)
    listed, table = field_of(value, "arrayValue"), field_of(value, "kvlistValue")
    if listed is not None:
        inner = field_of(listed, "values")
        return [_any(item, depth + 1) for item in inner] if isinstance(inner, list) else []
    if table is not None:
        pairs = objects(field_of(table, "values"))
        return {str(pair.get("key")): _any(pair.get("value"), depth + 1) for pair in pairs}
    return None


def _whole(value: Any) -> Any:
    """A whole number out of its text; what is none stays as it is."""
    if isinstance(value, str) and len(value) <= _DIGITS and re.fullmatch(r"-?[0-9]+", value, re.ASCII):
        return int(value)
    return value


def _number(value: Any) -> Any:
    """A number out of its text; NaN and the infinities stay text, for JSON has none of them."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return value
    return found if found - found == 0 else str(value)


_SCALARS: Final[Mapping[str, Any]] = {
    "stringValue": lambda value: value if isinstance(value, str) else json.dumps(plain(value)),
    "boolValue": lambda value: value,
    "intValue": _whole,
    "doubleValue": _number,
    "bytesValue": lambda value: value,
}


def id_of(value: Any, size: int) -> str:
    """An id of ``size`` bytes as lower-case hex; empty when it is none, or all zero."""
    if not isinstance(value, str):
        return ""
    digits = value.strip()
    if len(digits) != 2 * size or not _HEX.fullmatch(digits):
        try:
            digits = base64.b64decode(digits.replace("-", "+").replace("_", "/"), validate=True).hex()
        except (binascii.Error, ValueError):
            return ""
    return digits.lower() if len(digits) == 2 * size and digits.strip("0") else ""


def time_of(value: Any) -> int | None:
    """Unix nanoseconds; ``None`` for zero (unset), what is before 1970, after the last date, or no number."""
    if isinstance(value, float) and value - value == 0:
        value = int(value)
    found = _whole(value)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found < LAST else None
