"""Canonical JSON: the one form that keys, content hashes and diffs are made from (RFC 8785)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import orjson

from harness.errors import CanonicalError

MAX_DEPTH = 254
"""Deepest nesting that has a canonical form: the fast encoder's own limit, so that both encoders agree."""
MAX_SAFE = 2**53 - 1
"""Largest integer that RFC 8785 can hold; beyond it a double would round."""

_INT_TAG = "⟦int⟧"
_TEXT_TAG = "⟦text⟧"
_TAGS = (_INT_TAG, _TEXT_TAG)
_SCALARS = frozenset({bool, type(None)})
_quote = json.encoder.encode_basestring


class RepeatedKeyError(CanonicalError):
    """An object gives one key twice."""


def content_hash(data: bytes) -> str:
    """SHA-256 of bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value in its one canonical form.

    The result is that of RFC 8785 (keys by UTF-16 code units, ECMAScript numbers, no Unicode normalisation) with
    one addition: an integer beyond 2^53-1, which RFC 8785 cannot hold, becomes the text ``⟦int⟧<digits>``, and text
    that itself begins with a tag gets ``⟦text⟧`` put before it. ``from_canonical`` is the inverse.

    Args:
        value: Dicts with text keys, lists, tuples (encoded as lists), text, numbers, booleans, ``None``.

    Raises:
        CanonicalError: NaN or an infinity, a lone surrogate, a key that is not text, a value of another type, a
            cycle, or nesting beyond ``MAX_DEPTH``.
    """
    return fast_json(value) or exact_json(value)


def fast_json(value: Any) -> bytes | None:
    """The canonical form where orjson's output is provably the same, else ``None``."""
    try:
        encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return None
    # orjson goes first: it refuses cycles and great depth, so that the check below always ends.
    return encoded if is_plain(value) else None


def is_plain(value: Any) -> bool:
    """Whether orjson encodes an (acyclic) value as RFC 8785 does.

    They part at keys beyond the basic plane (sorted by another unit), integral and very large or small floats
    (printed otherwise), NaN (printed as ``null``), tagged values, and types that orjson takes and JSON does not know.
    """
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str:
            if not item.isascii() and item.startswith(_TAGS):
                return False
        elif kind is dict:
            if not _are_plain_keys(item):
                return False
            stack.extend(item.values())
        elif kind is list or kind is tuple:
            stack.extend(item)
        elif kind not in _SCALARS and not _is_plain_number(item):
            return False
    return True


def _are_plain_keys(keys: Mapping[Any, Any]) -> bool:
    for key in keys:  # noqa: SIM110 - a generator costs twice the time, on every object of every request
        if type(key) is not str or not (key.isascii() or max(key) <= "\uffff"):
            return False
    return True


def _is_plain_number(value: object) -> bool:
    if type(value) is int:
        return -MAX_SAFE <= value <= MAX_SAFE
    return type(value) is float and 1e-5 <= abs(value) < 1e16 and not value.is_integer()


def exact_json(value: Any) -> bytes:
    """The canonical form of any value that has one, at the speed of Python; errors as in ``canonical_json``."""
    pieces: list[str] = []
    try:
        _write(value, pieces, 0)
        return "".join(pieces).encode()
    except UnicodeEncodeError as error:
        raise CanonicalError(
            "text with a lone surrogate has no canonical form; replace the half character before storing it"
        ) from error
    except RecursionError:
        raise CanonicalError("the value nests too deeply for the stack that is left") from None


def _write(value: Any, pieces: list[str], depth: int) -> None:
    if value is None or value is True or value is False:
        pieces.append("null" if value is None else "true" if value else "false")
    elif isinstance(value, str):
        pieces.append(_quote(_TEXT_TAG + value if value.startswith(_TAGS) else str(value)))
    elif isinstance(value, int):
        number = int(value)
        pieces.append(str(number) if -MAX_SAFE <= number <= MAX_SAFE else f'"{_INT_TAG}{_digits(number)}"')
    elif isinstance(value, float):
        pieces.append(_number(float(value)))
    elif isinstance(value, (dict, list, tuple)):
        if depth >= MAX_DEPTH:
            raise CanonicalError(f"the value nests deeper than {MAX_DEPTH} levels, so it has no canonical form")
        if isinstance(value, dict):
            _write_object(value, pieces, depth + 1)
        else:
            _write_array(value, pieces, depth + 1)
    else:
        raise CanonicalError(f"a value of type {type(value).__name__!r} has no canonical form; encode it first")


def _write_array(items: Sequence[Any], pieces: list[str], depth: int) -> None:
    mark = "["
    for item in items:
        pieces.append(mark)
        _write(item, pieces, depth)
        mark = ","
    pieces.append("[]" if mark == "[" else "]")


def _write_object(items: Mapping[Any, Any], pieces: list[str], depth: int) -> None:
    for key in items:
        if not isinstance(key, str):
            raise CanonicalError(f"the key {key!r} is not text, so its object has no canonical form")
    mark = "{"
    for key in sorted(items, key=_utf16):
        pieces.append(f"{mark}{_quote(str(key))}:")
        _write(items[key], pieces, depth)
        mark = ","
    pieces.append("{}" if mark == "{" else "}")


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError as error:
        raise CanonicalError("an integer of more than 4300 digits has no canonical form") from error


def _number(value: float) -> str:
    """A double as ECMAScript's Number::toString prints it."""
    if not math.isfinite(value):
        raise CanonicalError(f"the number {value!r} has no canonical form; JSON holds finite numbers only")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The value is 0.DIGITS times ten to the power of point.
    point = len(digits) - len(fraction) + int(exponent or 0)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def from_canonical(data: bytes) -> Any:
    """Read what ``canonical_json`` wrote, tagged integers included.

    Raises:
        CanonicalError: The bytes are not JSON, or a tag is followed by something that cannot follow it.
    """
    value = _decode(data, _canonical_decoder)
    return _untagged(value) if "⟦".encode() in data else value


def _untagged(value: Any) -> Any:
    if isinstance(value, str):
        if value.startswith(_INT_TAG):
            try:
                return int(value.removeprefix(_INT_TAG))
            except ValueError as error:
                raise CanonicalError(f"the text {value!r} is not canonical: no integer follows the tag") from error
        return value.removeprefix(_TEXT_TAG)
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    if isinstance(value, dict):
        return {key: _untagged(item) for key, item in value.items()}
    return value


def parse_json(data: bytes) -> Any:
    """Read JSON without loss: integers exactly, every key once.

    Raises:
        CanonicalError: Not JSON, not UTF-8, a key given twice, a number that no double holds, or nesting beyond
            ``MAX_DEPTH``.
    """
    return _decode(data, _decoder)


def parse_for_key(data: bytes) -> Any:
    """Like ``parse_json``, but 1.0 is read as 1: canonically the same, and open to the fast encoder."""
    return _decode(data, _key_decoder)


def _decode(data: bytes, decoder: json.JSONDecoder) -> Any:
    try:
        value = decoder.decode(data.decode())
    except RecursionError:
        raise CanonicalError(f"the JSON nests deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise CanonicalError(f"the text is not JSON: {error}") from error
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        level = deeper
    if any(isinstance(item, (dict, list)) for item in level):
        raise CanonicalError(f"the JSON nests deeper than {MAX_DEPTH} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"the JSON gives the key {twice!r} twice; which of the two counts is undefined")
    return made


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise CanonicalError(f"the number {text[:40]!r} is beyond what JSON readers hold")
    return value


def _shortest(text: str) -> float | int:
    value = _finite(text)
    return int(value) if value.is_integer() and abs(value) <= MAX_SAFE else value


def _double(text: str) -> float | int:
    """Untagged digits beyond 2^53-1 were a double: RFC 8785 prints those up to 1e21 without an exponent."""
    value = int(text)
    return value if -MAX_SAFE <= value <= MAX_SAFE else float(value)


def _constant(text: str) -> NoReturn:
    raise CanonicalError(f"the text is not JSON: {text} is no JSON number")


def _decoder_with(**hooks: Any) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, **hooks)


_decoder = _decoder_with(parse_float=_finite)
_key_decoder = _decoder_with(parse_float=_shortest)
_canonical_decoder = _decoder_with(parse_float=_finite, parse_int=_double)
