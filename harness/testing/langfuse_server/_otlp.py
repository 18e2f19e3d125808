"""Decodes OTLP trace requests, JSON and protobuf, and refuses what the server refuses."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any

import orjson

from harness.testing.langfuse_server import _attributes as read
from harness.testing.langfuse_server._attributes import Origin
from harness.testing.langfuse_server._rows import Row
from harness.testing.langfuse_server._wire import Refusal, Request

NEWEST_VERSION = 4
"""Highest ``x-langfuse-ingestion-version`` that is known."""


def direct(request: Request) -> bool:
    """Whether the rows go straight to the table of observations; without the header they take the long way.

    Raises:
        Refusal: The version is one the server does not know (400).
    """
    text = request.headers.get("x-langfuse-ingestion-version", "")
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number > NEWEST_VERSION:
        raise Refusal(400, f"Unsupported ingestion version {number}")
    return number == NEWEST_VERSION


def rows(request: Request, *, received: int) -> list[Row]:
    """The request's spans.

    Args:
        request: POST to the traces endpoint.
        received: Unix milliseconds, kept as the rows' creation time.

    Raises:
        Refusal: Wrong content type, body that cannot be decoded, one span without ids, or something other than a list
            where a list belongs (400); the whole request is refused then.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "application/json":
        return list(_walk(_parsed(request.body), received))
    if kind == "application/x-protobuf":
        return list(_walk(_from_protobuf(request.body), received))
    raise Refusal(400, "The content type must be application/json or application/x-protobuf")


def _parsed(body: bytes) -> Any:
    if not body:
        return {}
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, "The body is not valid JSON") from error


def _from_protobuf(body: bytes) -> Any:
    # Only the real SDK sends protobuf; our own wire never needs these packages.
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # ships no types
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ExportTraceServiceRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise Refusal(400, "The body is not a trace request in protobuf") from error
    request = MessageToDict(message, use_integers_for_enums=True)
    for resource in request.get("resourceSpans", []):
        for scope in resource.get("scopeSpans", []):
            for span in scope.get("spans", []):
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        # protobuf's JSON has bytes in base64, OTLP/JSON has ids in hex.
                        span[name] = base64.b64decode(span[name]).hex()
    return request


def _walk(request: Any, received: int) -> Iterator[Row]:
    if not isinstance(request, dict):
        raise Refusal(400, "Invalid OTel request: expected object")
    for resource in _list(request, "resourceSpans"):
        shared = _attributes(_object(resource, "resource"))
        for scope in _list(resource, "scopeSpans"):
            named = _object(scope, "scope")
            name, version = str(named.get("name") or ""), str(named.get("version") or "")
            described = {"name": name, "version": version, "attributes": _attributes(named)}
            origin = Origin(resource=shared, scope_name=name, metadata=read.shared(shared, described))
            for span in _list(scope, "spans"):
                yield _row(span, origin, received=received)


def _row(span: Any, origin: Origin, *, received: int) -> Row:
    if not isinstance(span, dict):
        raise Refusal(400, "Invalid OTel span: expected object")
    trace_id, span_id = span.get("traceId"), span.get("spanId")
    if not isinstance(trace_id, str) or not trace_id or not isinstance(span_id, str) or not span_id:
        raise Refusal(400, "Invalid OTel span: traceId and spanId are required")
    _list(span, "events")
    start = _nanoseconds(span.get("startTimeUnixNano"))
    parent = span.get("parentSpanId")
    return Row(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent if isinstance(parent, str) and parent else None,
        name=str(span.get("name") or ""),
        start=start // 1_000_000,
        end=(_nanoseconds(span.get("endTimeUnixNano")) or start) // 1_000_000,
        status=_object(span, "status"),
        attributes=_attributes(span),
        origin=origin,
        created=received,
    )


def _nanoseconds(value: Any) -> int:
    if value is None:
        return 0
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise Refusal(400, "Invalid OTel span: times must be unix nanoseconds") from error


def _list(parent: Any, name: str) -> list[Any]:
    value = parent.get(name) if isinstance(parent, dict) else None
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refusal(400, f"Invalid OTel request: {name} must be a list")
    return value


def _object(parent: Any, name: str) -> dict[str, Any]:
    value = parent.get(name) if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else {}


def _attributes(owner: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in _list(owner, "attributes"):
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            raise Refusal(400, "Invalid OTel request: an attribute needs a key")
        # Keys repeat on every span: one copy of each keeps 100,000 spans small.
        found[intern(entry["key"])] = _value(entry.get("value"))
    return found


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    text = value.get("stringValue")
    if text is not None:
        return text
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return [_value(each) for each in _list(value["arrayValue"], "values")]
    if "kvlistValue" in value:
        return {each["key"]: _value(each.get("value")) for each in _list(value["kvlistValue"], "values")}
    return next((value[name] for name in ("boolValue", "doubleValue", "bytesValue") if name in value), None)
