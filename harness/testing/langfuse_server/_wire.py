"""What passes between the HTTP side of the double and its answers."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import orjson

PROJECT = "project-goldfork-double"
"""Id of the one project behind the server's keys."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it arrived."""

    number: int
    """How many requests came before it."""
    method: str
    path: str
    """Without the query."""
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    """The body as sent, compressed or not."""

    @property
    def body(self) -> bytes:
        """The body, decompressed.

        Raises:
            Refusal: It says it is gzip and is not (400).
        """
        if self.headers.get("content-encoding", "").lower() != "gzip":
            return self.raw
        try:
            return gzip.decompress(self.raw)
        except (OSError, EOFError, zlib.error) as error:
            raise Refusal(400, "The body is not valid gzip") from error

    @property
    def json(self) -> Any:
        """The body parsed; ``None`` when it is empty.

        Raises:
            Refusal: The body is not JSON (400).
        """
        body = self.body
        if not body:
            return None
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise Refusal(400, "Invalid JSON in the request body") from error

    def fields(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            Refusal: It is none (400).
        """
        value = self.json
        if not isinstance(value, dict):
            raise Refusal(400, "Invalid request data: expected object")
        return value

    def one(self, name: str) -> str | None:
        """A query parameter's last value."""
        values = self.query.get(name)
        return values[-1] if values else None

    def listed(self, name: str) -> set[str] | None:
        """A query parameter that holds several values, comma-separated; ``None`` when it is absent."""
        values = self.query.get(name)
        return {part for value in values for part in value.split(",")} if values else None

    def whole(self, name: str, default: int, *, most: int) -> int:
        """A query parameter as a positive number.

        Raises:
            Refusal: It is no number from 1 to ``most`` (400).
        """
        text = self.one(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise Refusal(400, f"Invalid request data: {name} must be a number from 1 to {most}")
        return int(text)

    def moment(self, name: str) -> int | None:
        """A query parameter as unix milliseconds, from ISO text.

        Raises:
            Refusal: It is no aware ISO time (400).
        """
        text = self.one(name)
        return None if text is None else milliseconds(text, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer."""

    status: int = 200
    payload: Any = None
    """Sent as JSON, or as it is when it is bytes."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """The request is answered with an error status."""

    def __init__(self, status: int, message: str, *, error: str = "InvalidRequestError") -> None:
        super().__init__(message)
        self.reply = Reply(status=status, payload={"message": message, "error": error})


def missing(what: str) -> Refusal:
    """A 404 in the server's shape."""
    return Refusal(404, f"{what} was not found in this project", error="LangfuseNotFoundError")


def milliseconds(text: object, name: str) -> int:
    """ISO text as unix milliseconds, floored.

    Raises:
        Refusal: It is no ISO time with a zone (400).
    """
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise Refusal(400, f"Invalid request data: {name} must be an ISO 8601 datetime with offset")
    return (when - _EPOCH) // timedelta(milliseconds=1)


def iso(unix_ms: int) -> str:
    """Unix milliseconds as the server prints a time."""
    seconds, rest = divmod(unix_ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def page(request: Request, rows: Sequence[Any]) -> dict[str, Any]:
    """The asked page of a list, in the shape of the numbered lists (``page``, ``limit``; 1-based)."""
    number, limit = request.whole("page", 1, most=1_000_000), request.whole("limit", 50, most=100)
    start = (number - 1) * limit
    return {
        "data": list(rows[start : start + limit]),
        "meta": {
            "page": number,
            "limit": limit,
            "totalItems": len(rows),
            "totalPages": -(-len(rows) // limit),
        },
    }
