"""The bytes of a run's spans: made once, kept until they are seen at the other end, the same at every try."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

import orjson

from harness.mirror._attributes import written
from harness.mirror._ids import trace_id
from harness.mirror._media import Media
from harness.mirror._render import Context, render
from harness.record import Recording

_LEVEL = 1
"""Of zlib: higher ones take longer than all the rest and save little."""
_QUIET_SCOPE = "langfuse-sdk.goldfork"
"""Where a scope's name begins so, the server does not repeat all attributes in the metadata."""
_OPEN_SCOPE = "goldfork"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenRun:
    """A run as it will be sent."""

    run_id: str
    trace_id: str
    data: bytes
    """Its JSON spans, a line each, compressed with zlib."""
    hash: str
    """SHA-256 of ``data``."""
    span_ids: tuple[str, ...]
    starts: tuple[int, ...]
    """Unix milliseconds, one for each span."""
    media: tuple[Media, ...]
    """Files that stood in its messages; in the spans there is a note in their place."""


def freeze_run(recording: Recording, context: Context) -> FrozenRun:
    """Render, redact and freeze a run. The same recording and context give the same bytes, wherever that is done.

    Args:
        recording: A run that has ended, one way or the other. Times without a zone are read as UTC.
        context: What its spans say beyond its own rows.
    """
    rendered = render(recording, context)
    data = zlib.compress(b"\n".join(written(rendered, context)), _LEVEL)
    return FrozenRun(
        run_id=recording.run.id,
        trace_id=trace_id(recording.run.id),
        data=data,
        hash=sha256(data).hexdigest(),
        span_ids=tuple(span.id for span in rendered.spans),
        starts=tuple(span.start for span in rendered.spans),
        media=rendered.media,
    )


def thaw(data: bytes) -> list[bytes]:
    """The JSON spans of a frozen run, byte for byte."""
    return zlib.decompress(data).split(b"\n") if data else []


def envelope(spans: Iterable[bytes], *, public_key: str = "") -> bytes:
    """The OTLP/JSON request body for spans of any runs.

    Args:
        spans: JSON spans.
        public_key: Of the project they are sent to. Servers refuse a scope of the quiet kind without it, so that
            without it the scope is an ordinary one, and the server repeats the attributes in the metadata.
    """
    body = b",".join(spans)
    if not body:
        return b'{"resourceSpans":[]}'
    scope: dict[str, object] = {"name": _OPEN_SCOPE}
    if public_key:
        key = {"key": "public_key", "value": {"stringValue": public_key}}
        scope = {"name": _QUIET_SCOPE, "attributes": [key]}
    head = b'{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[{"scope":%b,"spans":[' % orjson.dumps(scope)
    return head + body + b"]}]}]}"
