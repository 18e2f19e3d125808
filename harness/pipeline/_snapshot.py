"""Snapshots: any value as canonical JSON with type tags, and back.

Plain JSON values stand for themselves. Everything else is ``{"$goldfork": TAG, "v": …}``. Types of the application
(pydantic models, dataclasses, enums) are found again only among modules that are already imported, so a snapshot
never causes an import. There is no pickle and no ``repr``.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

from harness.canonical import canonical_json, content_hash, from_canonical
from harness.errors import CanonicalError, GoldforkError
from harness.session import RunState

TAG = "$goldfork"
_DEPTH = 200


class NotReusable(GoldforkError):
    """A snapshot cannot be turned back into the value it was taken of."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Canonical bytes of a value and their hash."""

    data: bytes
    hash: str


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type of the application are written and read."""

    type: type
    name: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_codecs: dict[type, Codec] = {}
_codec_names: dict[str, Codec] = {}


def register_codec(kind: type, *, name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """Teach snapshots a type: ``encode`` gives something serialisable, ``decode`` the value again."""
    _codecs[kind] = _codec_names[name] = Codec(kind, name, encode, decode)


def snapshot(value: Any, run: RunState | None = None) -> Snapshot | None:
    """Take a snapshot, or return ``None`` when the value cannot be serialised.

    Args:
        value: Any value.
        run: The run it is taken in, whose credentials are starred out: a provider may have echoed one.
    """
    try:
        data = canonical_json(_encode(value, 0))
    except (CanonicalError, NotReusable):
        return None
    if run is not None:
        data = run.masked(data)
    return Snapshot(data, content_hash(data))


def output_snapshot(value: Any, run: RunState | None = None) -> Snapshot | None:
    """A snapshot that says of itself whether it decodes to an equal value of the same type."""
    taken = snapshot(value, run)
    if taken is None or (run is not None and run.secrets and snapshot(value) != taken):
        return taken
    try:
        again = restore(taken.data)
        exact = type(again) is type(value) and bool(again == value)
    except (NotReusable, TypeError, ValueError):
        exact = False
    if exact:
        return taken
    data = canonical_json({TAG: "inexact", "v": from_canonical(taken.data)})
    return Snapshot(data, content_hash(data))


def restore(data: bytes) -> Any:
    """The value a snapshot was taken of.

    Raises:
        NotReusable: Its type is not imported here, or it never decoded to an equal value.
    """
    try:
        return _decode(from_canonical(data))
    except CanonicalError as error:
        raise NotReusable(f"snapshot cannot be read: {error}") from error


def plain(data: bytes) -> Any:
    """A snapshot as plain JSON values, type tags dropped: what evaluators and reports see."""
    return _plain(from_canonical(data))


def _encode(value: Any, depth: int) -> Any:
    if depth > _DEPTH:
        raise NotReusable("value is nested too deeply")
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str:
        return value
    if kind is float:
        plain_float = math.isfinite(value) and not value.is_integer()
        return value if plain_float else {TAG: "float", "v": repr(value)}
    if kind is list:
        return [_encode(item, depth + 1) for item in value]
    if kind is dict:
        return _encode_dict(value, depth)
    tagged = _encode_tagged(value, kind, depth)
    if tagged is None:
        raise NotReusable(f"{kind.__qualname__} has no codec")
    return {TAG: tagged[0], **tagged[1]}


def _encode_dict(value: Mapping[Any, Any], depth: int) -> Any:
    if TAG not in value and all(type(key) is str for key in value):
        return {key: _encode(item, depth + 1) for key, item in value.items()}
    return {TAG: "dict", "v": [[_encode(k, depth + 1), _encode(v, depth + 1)] for k, v in value.items()]}


def _timedelta_text(value: timedelta) -> str:
    return f"{value.days},{value.seconds},{value.microseconds}"


def _timedelta(text: str) -> timedelta:
    days, seconds, microseconds = (int(part) for part in text.split(","))
    return timedelta(days, seconds, microseconds)


_TEXT: dict[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    timedelta: ("timedelta", _timedelta_text, _timedelta),
}
_FROM_TEXT: dict[str, Callable[[str], Any]] = {tag: read for tag, _, read in _TEXT.values()} | {
    "float": float,
    "path": Path,
}


def _encode_tagged(value: Any, kind: type, depth: int) -> tuple[str, dict[str, Any]] | None:
    if kind in _codecs:
        codec = _codecs[kind]
        return "codec", {"type": codec.name, "v": _encode(codec.encode(value), depth + 1)}
    if kind in _TEXT:
        tag, write, _ = _TEXT[kind]
        return tag, {"v": write(value)}
    if kind is tuple:
        return "tuple", {"v": [_encode(item, depth + 1) for item in value]}
    if kind in {set, frozenset}:
        return kind.__name__, {"v": sorted((_encode(item, depth + 1) for item in value), key=canonical_json)}
    if isinstance(value, PurePath):
        return "path", {"v": str(value)}
    if isinstance(value, Enum):
        return "enum", {"type": _name(kind), "v": value.name}
    if dataclasses.is_dataclass(value):
        fields = {f.name: _encode(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value) if f.init}
        return "dataclass", {"type": _name(kind), "v": fields}
    if _is_model(kind):
        fields = {name: _encode(getattr(value, name), depth + 1) for name in kind.model_fields}  # type: ignore[attr-defined]  # a pydantic model, seen without importing pydantic
        return "model", {"type": _name(kind), "v": fields}
    return None


def _is_model(kind: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: _decode(item) for key, item in value.items()}
    return _decode_tagged(value[TAG], value)


def _decode_tagged(tag: Any, value: Mapping[str, Any]) -> Any:
    body = value.get("v")
    if tag in _FROM_TEXT:
        try:
            return _FROM_TEXT[tag](str(body))
        except (ValueError, ArithmeticError) as error:
            raise NotReusable(f"{tag} {body!r} cannot be read") from error
    if tag in {"tuple", "set", "frozenset"}:
        items = [_decode(item) for item in body or []]
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
    if tag == "dict":
        return {_decode(key): _decode(item) for key, item in body or []}
    if tag == "codec" and value.get("type") in _codec_names:
        return _codec_names[value["type"]].decode(_decode(body))
    if tag in {"enum", "dataclass", "model"}:
        return _decode_typed(tag, _find(str(value.get("type"))), body)
    raise NotReusable(f"snapshot holds {tag!r}, which is not turned back into a value")


def _decode_typed(tag: str, kind: type, body: Any) -> Any:
    if tag == "enum" and issubclass(kind, Enum):
        return kind[str(body)]
    if tag == "dataclass" and dataclasses.is_dataclass(kind):
        return kind(**{name: _decode(item) for name, item in body.items()})
    if tag == "model" and _is_model(kind):
        return kind.model_construct(**{name: _decode(item) for name, item in body.items()})  # type: ignore[attr-defined]  # as above
    raise NotReusable(f"{_name(kind)} is no longer a {tag}")


def _find(name: str) -> type:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise NotReusable(f"type {name!r} is not imported here")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: _plain(item) for key, item in value.items()}
    tag, body = value[TAG], value.get("v")
    if tag == "dict":
        return {str(_plain(key)): _plain(item) for key, item in body or []}
    if tag == "float" and body not in {"nan", "inf", "-inf"}:
        return float(str(body))
    return _plain(body)
