"""How values stand on disk: ids, keys, times, text and JSON, the same for every database.

Text that a database cannot carry (NUL on PostgreSQL, lone surrogates anywhere) is escaped reversibly: the
substitute character U+001A and four hex digits. JSON is ASCII text, so it needs no escape of its own.
"""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Protocol

_UNCARRIED = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")
_CANONICAL_ID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_RULED_KEY: Final = re.compile(r"v([1-9]\d?):([0-9a-f]{64})").fullmatch
_HEX64 = re.compile("[0-9a-f]{64}").fullmatch

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode

TOO_DEEP = {"goldfork": "this value was nested too deeply to be stored"}
"""Stands in the place of a JSON value that no encoder can write."""


def pack_text(value: str) -> str:
    """Escape what a database cannot carry."""
    if not value.isprintable() and _UNCARRIED.search(value):
        return _UNCARRIED.sub(lambda match: f"\x1a{ord(match[0]):04x}", value)
    return value


def unpack_text(value: str) -> str:
    """The inverse of ``pack_text``."""
    if "\x1a" in value:
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    return value


def pack_json(value: Any) -> str:
    """JSON text; exact for integers of any size, NUL and lone surrogates."""
    try:
        return _encode(value)
    except RecursionError:
        return json.dumps(TOO_DEEP)


def unpack_json(text: str) -> Any:
    """The inverse of ``pack_json``."""
    return json.loads(text)


def pack_hash(value: str) -> bytes:
    """A SHA-256 in hex as 32 bytes.

    Raises:
        ValueError: It is not 64 lower-case hex digits.
    """
    if not _HEX64(value):
        raise ValueError(f"{value!r} is not a SHA-256 in hex")
    return bytes.fromhex(value)


def pack_key(value: str) -> bytes:
    """A content key in few bytes: a SHA-256 in hex as 32, a key under numbered rules (``v1:<hex>``) as 34.

    Anything else is its text behind a prefix that keeps it apart from both.
    """
    if _HEX64(value):
        return bytes.fromhex(value)
    ruled = _RULED_KEY(value)
    if ruled:
        return bytes((3, int(ruled[1]))) + bytes.fromhex(ruled[2])
    text = value.encode("utf-8", "surrogatepass")
    return b"\x02\x02" + text if len(text) == 31 else b"\x01" + text


def unpack_key(value: bytes) -> str:
    """The inverse of ``pack_key``."""
    if len(value) == 32:
        return value.hex()
    if value[0] == 3:
        return f"v{value[1]}:{value[2:].hex()}"
    return value[2 if value[0] == 2 else 1 :].decode("utf-8", "surrogatepass")


def pack_id(value: str) -> bytes:
    """A UUID as 16 bytes.

    Raises:
        ValueError: It is not a UUID.
    """
    try:
        if _CANONICAL_ID(value):
            return bytes.fromhex(value.replace("-", ""))
        return uuid.UUID(value).bytes
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"record id {value!r} is not a UUID") from error


def aware(value: datetime) -> datetime:
    """The time in UTC.

    Raises:
        ValueError: It has no zone.
    """
    if value.tzinfo is None:
        raise ValueError(f"time {value.isoformat()!r} has no zone; use datetime.now(UTC)")
    return value.astimezone(UTC)


class Packing(Protocol):
    """The values that two databases hold differently."""

    def id(self, value: str | None) -> Any:
        """A UUID."""
        ...

    def time(self, value: datetime | None) -> Any:
        """An aware time."""
        ...

    def money(self, value: Decimal | None) -> Any:
        """An amount."""
        ...

    def unpack_id(self, value: Any) -> Any:
        """The inverse of ``id``; so are the next two of theirs."""
        ...

    def unpack_time(self, value: Any) -> Any:
        """In UTC."""
        ...

    def unpack_money(self, value: Any) -> Decimal | None:
        """An exact amount."""
        ...


class SqlitePacking:
    """UUIDs as 16 bytes, times as ISO text in UTC that sorts, money as decimal text."""

    def id(self, value: str | None) -> Any:
        """16 bytes."""
        return None if value is None else pack_id(value)

    def time(self, value: datetime | None) -> Any:
        """``2026-11-30T21:27:45.123456Z``."""
        return None if value is None else pack_time_text(value)

    def money(self, value: Decimal | None) -> Any:
        """Decimal text."""
        return None if value is None else format(value, "f")

    def unpack_id(self, value: Any) -> Any:
        """The text of 16 bytes."""
        if value is None:
            return None
        digits = value.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def unpack_time(self, value: Any) -> Any:
        """The time of ISO text."""
        return None if value is None else unpack_time_text(value)

    def unpack_money(self, value: Any) -> Decimal | None:
        """The decimal of its text."""
        return None if value is None else Decimal(value)


class PostgresPacking:
    """The database's own ``uuid``, ``timestamptz`` and ``numeric``."""

    def id(self, value: str | None) -> Any:
        """A UUID object."""
        return None if value is None else uuid.UUID(bytes=pack_id(value))

    def time(self, value: datetime | None) -> Any:
        """The aware time itself."""
        return None if value is None else aware(value)

    def money(self, value: Decimal | None) -> Any:
        """The decimal itself."""
        return value

    def unpack_id(self, value: Any) -> Any:
        """The text of a UUID object."""
        return None if value is None else str(value)

    def unpack_time(self, value: Any) -> Any:
        """The time in UTC, whatever zone the session has."""
        return None if value is None else value.astimezone(UTC)

    def unpack_money(self, value: Any) -> Decimal | None:
        """The decimal itself."""
        return None if value is None else Decimal(value)


def pack_time_text(value: datetime) -> str:
    """Fixed-width ISO text in UTC."""
    return aware(value).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def unpack_time_text(text: str) -> datetime:
    """The inverse of ``pack_time_text``."""
    return datetime.fromisoformat(text)
