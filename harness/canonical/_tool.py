"""Keys of tool calls: what was asked of which version of a tool."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from harness.canonical._json import canonical_json, content_hash
from harness.canonical._rules import RULES
from harness.errors import CanonicalError

_TEXT_FORMS: dict[type, Any] = {
    date: date.isoformat,
    datetime: datetime.isoformat,
    time: time.isoformat,
    timedelta: lambda value: f"{value.days}d{value.seconds}s{value.microseconds}us",
    Decimal: str,
    UUID: str,
}


def tool_key(name: str, version: str | None, arguments: Mapping[str, Any]) -> str:
    """The key of a tool call.

    Args:
        name: The tool's name.
        version: Its version tag or the hash of its source; declared inputs from the environment belong in
            ``arguments``.
        arguments: Bound arguments, defaults applied. Beyond JSON: sets (in any order), dates, times, ``Decimal``,
            bytes, ``UUID``, paths, enums, dataclasses, pydantic models, NaN and infinities, each told apart by type.

    Raises:
        CanonicalError: An argument is of another type; the call cannot be cached.
    """
    try:
        tagged = _tagged(dict(arguments))
        canonical = canonical_json([name, version, tagged])
    except RecursionError:
        raise CanonicalError(f"the arguments of tool {name!r} refer to themselves or nest too deeply") from None
    return f"{RULES}:{content_hash(b'tool1' + chr(10).encode() + canonical)}"


def _tagged(value: Any) -> Any:
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"⟦float⟧": repr(value)}
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, (list, tuple)):
        return [_tagged(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"⟦set⟧": sorted((_tagged(item) for item in value), key=canonical_json)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"⟦bytes⟧": content_hash(bytes(value))}
    return _typed(value)


def _typed(value: Any) -> Any:
    kind = type(value)
    if kind in _TEXT_FORMS:
        return {f"⟦{kind.__name__}⟧": _TEXT_FORMS[kind](value)}
    if isinstance(value, PurePath):
        return {"⟦path⟧": value.as_posix()}
    if isinstance(value, Enum):
        return {"⟦enum⟧": [_name(kind), value.name]}
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"⟦object⟧": [_name(kind), _mapping(fields)]}
    # Looked up by name, so that keys need no import of pydantic.
    dump = getattr(kind, "model_dump", None)
    if callable(dump):
        return {"⟦object⟧": [_name(kind), _tagged(dump(value))]}
    raise CanonicalError(f"an argument of type {_name(kind)!r} has no canonical form, so the call cannot be cached")


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    if all(isinstance(key, str) for key in value):
        return {key.replace("⟦", "⟦⟦"): _tagged(item) for key, item in value.items()}
    pairs = [[_tagged(key), _tagged(item)] for key, item in value.items()]
    return {"⟦map⟧": sorted(pairs, key=canonical_json)}


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
