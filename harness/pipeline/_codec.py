"""Values as JSON with type tags, and back.

Plain JSON values stand for themselves. Everything else is ``{"$goldfork": TAG, "v": …}``. Types of the application
(pydantic models, dataclasses, enums) are found again only among modules that are already imported, so a snapshot
never causes an import. There is no pickle and no ``repr``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from harness.canonical import canonical_json
from harness.errors import GoldforkError

TAG = "$goldfork"
_DEPTH = 200


class NotReusable(GoldforkError):
    """A snapshot cannot be turned back into the value it was taken of."""


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


def _timedelta_text(value: timedelta) -> str:
    return f"{value.days},{value.seconds},{value.microseconds}"


def _timedelta(text: str) -> timedelta:
    days, seconds, microseconds = (int(part) for part in text.split(","))
    return timedelta(days, seconds, microseconds)


_TEXT: dict[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    date: ("date", date.isoformat, date.fromisoformat),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    timedelta: ("timedelta", _timedelta_text, _timedelta),
}
_FROM_TEXT: dict[str, Callable[[str], Any]] = {tag: read for tag, _, read in _TEXT.values()} | {"float": float}
_PATHS: dict[type, str] = {PosixPath: "", WindowsPath: "", PurePosixPath: "posix", PureWindowsPath: "windows"}
_FROM_PATH: dict[Any, type[PurePath]] = {None: Path, "posix": PurePosixPath, "windows": PureWindowsPath}
_WITH_CONTENT = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float, complex, BaseException)
"""What holds content besides its fields when a dataclass inherits from it."""


class Encoder:
    """Writes one value.

    With ``ordered``, a dict whose keys are not sorted is written as pairs, which keep their order; without, all
    dicts are written so that equal ones give equal bytes.
    """

    def __init__(self, *, ordered: bool = False) -> None:
        self.unsorted = False
        """Whether a dict was met whose order the unordered form loses."""
        self._ordered = ordered

    def encode(self, value: Any, depth: int = 0) -> Any:
        """The value as JSON with tags; raises ``NotReusable``, and whatever the application's classes raise."""
        if depth > _DEPTH:
            raise NotReusable("value is nested too deeply")
        kind = type(value)
        if value is None or kind is bool or kind is int or kind is str:
            return value
        if kind is float:
            plain_float = math.isfinite(value) and not value.is_integer()
            return value if plain_float else {TAG: "float", "v": repr(value)}
        if kind is list:
            return [self.encode(item, depth + 1) for item in value]
        if kind is dict:
            return self._dict(value, depth)
        tag, body = self._tagged(value, kind, depth)
        return {TAG: tag, **body}

    def _dict(self, value: Mapping[Any, Any], depth: int) -> Any:
        if TAG not in value and all(type(key) is str for key in value):
            fields = {key: self.encode(item, depth + 1) for key, item in value.items()}
            if _are_sorted(fields):
                return fields
            self.unsorted = True
            return {TAG: "dict", "v": [list(pair) for pair in fields.items()]} if self._ordered else fields
        pairs = [[self.encode(k, depth + 1), self.encode(v, depth + 1)] for k, v in value.items()]
        in_order = sorted(pairs, key=lambda pair: canonical_json(pair[0]))
        self.unsorted = self.unsorted or in_order != pairs
        return {TAG: "dict", "v": pairs if self._ordered else in_order}

    def _tagged(self, value: Any, kind: type, depth: int) -> tuple[str, dict[str, Any]]:
        if kind in _codecs:
            codec = _codecs[kind]
            return "codec", {"type": codec.name, "v": self.encode(codec.encode(value), depth + 1)}
        if kind in _TEXT:
            tag, write, _ = _TEXT[kind]
            return tag, {"v": write(value)}
        if kind is datetime or kind is time:
            return kind.__name__, _moment(value)
        if kind is tuple:
            return "tuple", {"v": [self.encode(item, depth + 1) for item in value]}
        if kind in {set, frozenset}:
            items = [self.encode(item, depth + 1) for item in value]
            return kind.__name__, {"v": sorted(items, key=canonical_json)}
        if kind in _PATHS:
            return "path", {"v": str(value), **({"type": _PATHS[kind]} if _PATHS[kind] else {})}
        if issubclass(kind, Enum):
            return "enum", {"type": _name(kind), "v": _enum_body(value)}
        if dataclasses.is_dataclass(kind) and not issubclass(kind, _WITH_CONTENT):
            return "dataclass", {"type": _name(kind), **self._dataclass(value, kind, depth)}
        if _is_model(kind):
            return "model", {"type": _name(kind), **self._model(value, kind, depth)}
        raise NotReusable(f"{kind.__qualname__} has no codec")

    def _dataclass(self, value: Any, kind: Any, depth: int) -> dict[str, Any]:
        fields = {field.name: field.init for field in dataclasses.fields(kind)}
        given = [name for name, init in fields.items() if init]
        others = [name for name, init in fields.items() if not init and hasattr(value, name)]
        others += _attributes(value, fields)
        body = {"v": self._fields({name: getattr(value, name) for name in given}, depth)}
        return body | self._some(depth, state={name: getattr(value, name) for name in others})

    def _model(self, value: Any, kind: Any, depth: int) -> dict[str, Any]:
        held, extra, fields = vars(value), value.__pydantic_extra__ or {}, kind.model_fields
        # A model that was made without validation may lack fields.
        body = {"v": self._fields({name: held[name] for name in fields if name in held}, depth)}
        if extra:
            body["extra"] = self._dict(extra, depth + 1)
        if value.model_fields_set != {*fields, *extra}:
            # What was left out is left out again when the model is sent on with `exclude_unset`.
            body["set"] = sorted(value.model_fields_set)
        private = value.__pydantic_private__ or {}
        return body | self._some(
            depth, private=private, state={name: held[name] for name in _attributes(value, fields)}
        )

    def _fields(self, values: Mapping[str, Any], depth: int) -> Any:
        return {name: self.encode(item, depth + 1) for name, item in values.items()}

    def _some(self, depth: int, **groups: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._fields(values, depth) for name, values in groups.items() if values}


def _are_sorted(fields: Mapping[str, Any]) -> bool:
    keys = list(fields)
    if "".join(keys).isascii():
        return keys == sorted(keys)
    return keys == sorted(keys, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _moment(value: datetime | time) -> dict[str, Any]:
    """Text with offset; the zone, on which later arithmetic depends, where it is more than an offset."""
    body: dict[str, Any] = {"v": value.isoformat()}
    if value.fold:
        body["fold"] = 1
    zone = value.tzinfo
    if zone is not None and type(zone) is not timezone:
        body["zone"] = (zone.key if type(zone) is ZoneInfo else None) or _name(type(zone))
    return body


def _enum_body(value: Enum) -> Any:
    """The member's name; the number of a combination of flags, which is no member."""
    if type(value).__members__.get(value.name) is value:
        return value.name
    if isinstance(value, Flag):
        return value.value
    raise NotReusable(f"{value.name!r} is no member of {_name(type(value))}")


def _attributes(value: Any, fields: Iterable[str]) -> list[str]:
    """Names of the attributes that are set on an object and are not its fields; caches are not state."""
    return [
        name
        for name in getattr(value, "__dict__", {})
        if name not in fields and not isinstance(getattr(type(value), name, None), functools.cached_property)
    ]


def _is_model(kind: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def decode(value: Any) -> Any:
    """The value that was encoded; raises ``NotReusable``, and whatever the application's classes raise."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: decode(item) for key, item in value.items()}
    return _decode_tagged(value[TAG], value)


def _decode_tagged(tag: Any, value: Mapping[str, Any]) -> Any:
    body = value.get("v")
    if tag in _FROM_TEXT:
        return _FROM_TEXT[tag](str(body))
    if tag in {"datetime", "time"}:
        moment: Any = (
            (datetime if tag == "datetime" else time).fromisoformat(str(body)).replace(fold=value.get("fold", 0))
        )
        return moment.replace(tzinfo=ZoneInfo(value["zone"])) if "zone" in value else moment
    if tag == "path":
        return _FROM_PATH[value.get("type")](str(body))
    if tag in {"tuple", "set", "frozenset"}:
        items = [decode(item) for item in body or []]
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
    if tag == "dict":
        return {decode(key): decode(item) for key, item in body or []}
    if tag == "codec" and value.get("type") in _codec_names:
        return _codec_names[value["type"]].decode(decode(body))
    if tag in {"enum", "dataclass", "model"}:
        return _decode_typed(tag, _find(str(value.get("type"))), value)
    raise NotReusable(f"snapshot holds {tag!r}, which is not turned back into a value")


def _decode_typed(tag: str, kind: type, value: Mapping[str, Any]) -> Any:
    body = value["v"]
    if tag == "enum" and issubclass(kind, Enum):
        return kind(body) if type(body) is int and issubclass(kind, Flag) else kind[str(body)]
    if tag == "dataclass" and dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, body, value.get("state", {}))
    if tag == "model" and _is_model(kind):
        return _decode_model(kind, value)
    raise NotReusable(f"{_name(kind)} is no longer a {tag}")


def _decode_dataclass(kind: Any, body: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    given = {name: decode(item) for name, item in body.items()}
    made = kind(**given)
    for name, item in (given | {name: decode(item) for name, item in state.items()}).items():
        if name.startswith("__"):
            raise NotReusable(f"{_name(kind)} has no field {name!r}")
        if getattr(made, name, dataclasses.MISSING) is not item:
            # Past `frozen`, and past what `__post_init__` made of it.
            object.__setattr__(made, name, item)
    return made


def _decode_model(kind: Any, value: Mapping[str, Any]) -> Any:
    body, extra = value["v"], decode(value.get("extra", {}))
    private = {name: decode(item) for name, item in value.get("private", {}).items()}
    state = {name: decode(item) for name, item in value.get("state", {}).items()}
    unknown = {*body} - {*kind.model_fields} | {*private} - {*kind.__private_attributes__}
    unknown |= {name for name in state if name.startswith("__")}
    if unknown:
        raise NotReusable(f"{_name(kind)} has no field {min(unknown)!r}")
    made = kind.__new__(kind)
    # As a copy is made: a value that was valid, or was never validated, is not validated again.
    made.__setstate__(
        {
            "__dict__": {name: decode(body[name]) for name in kind.model_fields if name in body} | state,
            "__pydantic_extra__": extra if kind.model_config.get("extra") == "allow" else None,
            "__pydantic_fields_set__": set(value.get("set", [*kind.model_fields, *extra])),
            "__pydantic_private__": private if kind.__private_attributes__ else None,
        }
    )
    return made


def _find(name: str) -> type:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise NotReusable(f"type {name!r} is not imported here")
    return found


def without_tags(value: Any) -> Any:
    """An encoded value as plain JSON values."""
    if isinstance(value, list):
        return [without_tags(item) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: without_tags(item) for key, item in value.items()}
    tag, body = value[TAG], value.get("v")
    if tag == "dict":
        return {str(without_tags(key)): without_tags(item) for key, item in body or []}
    if tag == "float" and body not in {"nan", "inf", "-inf"}:
        return float(str(body))
    if tag in {"dataclass", "model"} and isinstance(body, dict):
        more = without_tags(value.get("extra", {})) | without_tags(value.get("state", {}))
        return without_tags(body) | more
    return without_tags(body)
