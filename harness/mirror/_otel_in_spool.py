"""Spans of many files, kept on disk and given back trace by trace: a trace may be spread over all of them."""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from hashlib import sha256
from types import TracebackType
from typing import Any, Final, Self

import orjson

from harness.mirror._otel_in_json import Raw
from harness.mirror._otel_in_span import Span

_BUFFER: Final = 2**20


class Spool:
    """Takes spans in any order. In memory it holds eight bytes a span, and its trace's id once."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115 - closed by ``__exit__``
        self._size = 0
        self._places: dict[str, array[int]] = {}
        self._origins: dict[str, int] = {}
        self._told: list[tuple[Mapping[str, Any], str]] = []
        self._last = 0
        self._met: Raw | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def traces(self) -> list[str]:
        """Ids of the traces, in the order they were met."""
        return list(self._places)

    def add(self, trace_id: str, raw: Raw) -> None:
        """Keep a span."""
        line = b"%d %b\n" % (self._origin(raw), _encoded(raw.span))
        self._places.setdefault(trace_id, array("Q")).append(self._size)
        self._file.write(line)
        self._size += len(line)

    def _origin(self, raw: Raw) -> int:
        """Where the resource and scope of a span stand: they are told before each request, and kept once."""
        if self._met is None or self._met.resource is not raw.resource or self._met.scope != raw.scope:
            named = json.dumps([raw.resource, raw.scope], sort_keys=True)
            self._last = self._origins.setdefault(named, len(self._told))
            if self._last == len(self._told):
                self._told.append((raw.resource, raw.scope))
        self._met = raw
        return self._last

    def spans(self, trace_id: str) -> Iterator[tuple[Span, bytes]]:
        """The spans of a trace, each with the hash of all that it says."""
        for place in self._places[trace_id]:
            self._file.seek(place)
            origin, _, text = self._file.readline().partition(b" ")
            span = Span.read(_decoded(text), *self._told[int(origin)])
            yield span, _digest(span)


def _encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # Lone surrogates, and numbers of more than 64 bits.
        return json.dumps(value, sort_keys=True).encode()


def _decoded(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def _digest(span: Span) -> bytes:
    """The hash of what a span says, whichever of the protocol's spellings it was written in."""
    told = [getattr(span, field.name) for field in fields(span)]
    return sha256(_encoded(told)).digest()


def digest_of(digests: Iterable[bytes]) -> str:
    """One hash for all spans of a trace, in whatever order they came, each counted once."""
    return sha256(b"".join(sorted(set(digests)))).hexdigest()
