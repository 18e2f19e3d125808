"""OTLP/JSON in all its spellings, and files in any state."""

from __future__ import annotations

import base64
import json

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.mirror._otel_in_json import attributes_of, id_of, pieces, spans_in, time_of
from harness.mirror._otel_in_span import Span

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"
REQUEST = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "lib"},
                    "spans": [
                        {
                            "traceId": TRACE,
                            "spanId": SPAN,
                            "name": "chat m",
                            "kind": 3,
                            "startTimeUnixNano": "1764500400123456789",
                            "endTimeUnixNano": "1764500401123456789",
                            "attributes": [
                                {"key": "text", "value": {"stringValue": "ü"}},
                                {"key": "count", "value": {"intValue": "9007199254740993"}},
                                {"key": "ratio", "value": {"doubleValue": 0.25}},
                                {"key": "yes", "value": {"boolValue": True}},
                                {"key": "bytes", "value": {"bytesValue": "AQI="}},
                                {"key": "list", "value": {"arrayValue": {"values": [
                                    {"stringValue": "a"}, {"intValue": "1"}]}}},
                                {"key": "table", "value": {"kvlistValue": {"values": [
                                    {"key": "k", "value": {"arrayValue": {"values": [{"doubleValue": 1.5}]}}}]}}},
                                {"key": "empty", "value": {"arrayValue": {}}},
                                {"key": "none", "value": {}},
                            ],
                            "events": [{"name": "exception", "timeUnixNano": "1", "attributes": [
                                {"key": "exception.type", "value": {"stringValue": "KeyError"}},
                                {"key": "exception.message", "value": {"stringValue": "'x'"}}]}],
                            "status": {"code": 2},
                        }
                    ],
                }
            ],
        }
    ]
}  # fmt: skip
VALUES = {
    "text": "ü", "count": 9007199254740993, "ratio": 0.25, "yes": True, "bytes": "AQI=", "list": ["a", 1],
    "table": {"k": [1.5]}, "empty": [], "none": None,
}  # fmt: skip


def spans(value):
    return [Span.read(raw.span, raw.resource, raw.scope) for raw in spans_in(value)]


def read(text):
    """Spans and reasons of a file."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    found = list(pieces(data.splitlines(keepends=True)))
    return [span for piece in found for span in spans(piece.value)], [
        (one.line, one.reason) for one in found if one.reason
    ]


def spellings():
    """The same request as the protocol's JSON, and as two ways in which protobuf's own library writes it."""
    message = ExportTraceServiceRequest()
    theirs = json.loads(json.dumps(REQUEST))
    for span in theirs["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId"):
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    json_format.ParseDict(theirs, message)
    yield "otlp", json.dumps(REQUEST)
    yield "pretty", json.dumps(REQUEST, indent=2)
    yield "protobuf", json_format.MessageToJson(message)
    yield "snake", json_format.MessageToJson(message, preserving_proto_field_name=True)
    yield "in a list", json.dumps([REQUEST], indent=1)
    yield "byte order mark", "\ufeff" + json.dumps(REQUEST)


@pytest.mark.parametrize(("name", "text"), list(spellings()))
def test_every_spelling_of_the_protocol_says_the_same(name, text):
    found, wrong = read(text)
    assert wrong == []
    (span,) = found
    assert (span.id, span.parent_id, span.name) == (SPAN, None, "chat m")
    assert (span.start, span.end) == (1764500400123456789, 1764500401123456789)
    assert span.attributes == VALUES
    assert (span.failed, span.status_message) == (True, "KeyError: 'x'")
    assert (span.resource, span.scope) == ({"service.name": "desk"}, "lib")


def test_the_older_name_of_a_scope_is_read():
    old = {"resourceSpans": [{"instrumentationLibrarySpans": [
        {"instrumentationLibrary": {"name": "lib"}, "spans": [{"spanId": SPAN, "name": "a"}]}]}]}  # fmt: skip
    assert [(one.name, one.scope) for one in spans(old)] == [("a", "lib")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TRACE, TRACE),
        (TRACE.upper(), TRACE),
        (base64.b64encode(bytes.fromhex(TRACE)).decode(), TRACE),
        (base64.urlsafe_b64encode(bytes.fromhex("fb" * 16)).decode(), "fb" * 16),
        ("0" * 32, ""),
        ("AAAAAAAAAAAAAAAAAAAAAA==", ""),
        ("", ""),
        (TRACE[:-1], ""),
        (SPAN, ""),
        ("ü" * 32, ""),
        (5, ""),
        (None, ""),
        ([TRACE], ""),
    ],
)
def test_ids_are_hex_or_base64_of_their_length(text, found):
    assert id_of(text, 16) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1764500400123456789", 1764500400123456789),
        (1764500400123456789, 1764500400123456789),
        (1.5e18, 1_500_000_000_000_000_000),
        ("-5", None),
        (-5, None),
        (0, None),
        ("0", None),
        ("", None),
        (None, None),
        (True, None),
        ("9" * 30, None),
        ("8" * 100_000, None),
        (float("nan"), None),
        (float("inf"), None),
        ("1e18", None),
        ([1], None),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_times_are_nanoseconds_after_1970(value, found):
    assert time_of(value) == found


def test_names_that_are_no_text_and_values_of_wrong_types_cost_nothing_else():
    attributes = [
        {"key": 5, "value": {"stringValue": "five"}},
        {"key": None, "value": {"stringValue": "nobody"}},
        {"key": ["a"], "value": {"intValue": "x"}},
        {"key": "again", "value": {"intValue": 1}},
        {"key": "again", "value": {"intValue": 2}},
        {"key": "\ud800", "value": {"stringValue": "\udfff"}},
        {"key": "nan", "value": {"doubleValue": "NaN"}},
        {"key": "odd", "value": 7},
        "no pair",
        {"key": "last", "value": {"stringValue": 12}},
    ]
    assert attributes_of({"attributes": attributes}) == {
        "5": "five", '["a"]': "x", "again": 1, "\\ud800": "\\udfff", "nan": "NaN", "odd": None, "last": "12",
    }  # fmt: skip


LINE = json.dumps(REQUEST)


@pytest.mark.parametrize(
    ("text", "spans_found", "wrong"),
    [
        (f"{LINE}\n\n{LINE}", 2, []),
        (f"{LINE}\noops\n{LINE}\n", 2, [(2, "it is no JSON")]),
        (f"{LINE}\n{LINE[:300]}\n{LINE}\n", 2, [(2, "it is cut off")]),
        (f"{LINE[:300]}\n{LINE[:200]}\n{LINE}\n", 1, [(1, "it is cut off")]),
        (f"{LINE}\n{LINE[:-3]}", 1, [(2, "it is cut off")]),
        (f"{LINE}\n{{]\n{LINE}", 2, [(2, "it is no JSON")]),
        (json.dumps(REQUEST, indent=2) + "\n" + LINE + "\n" + json.dumps(REQUEST, indent=1), 3, []),
        (LINE + "\n5\nnull\n[]\n{}\n", 1, []),
        (LINE.replace('"ü"', "NaN").replace('"\\u00fc"', "NaN"), 1, []),
        (LINE.replace("chat m", "\\ud800"), 1, []),
    ],
)
def test_a_broken_line_costs_what_stands_on_it(text, spans_found, wrong):
    found, reasons = read(text)
    assert (len(found), reasons) == (spans_found, wrong)


def test_bytes_that_are_no_utf8_cost_their_letters_only():
    found, wrong = read(LINE.encode().replace(b"chat m", b"chat \xff"))
    assert ([one.name for one in found], wrong) == (["chat \ufffd"], [])


def test_what_nests_too_deeply_costs_only_itself():
    deep = '{"arrayValue":{"values":[' * 20_000 + "]}}" * 20_000
    text = LINE.replace('{"doubleValue": 0.25}', deep)
    assert text != LINE
    found, wrong = read(text)
    assert wrong == []
    assert {**found[0].attributes, "ratio": 0} == {**VALUES, "ratio": 0}
    (deeper,), _ = read(LINE.replace('{"doubleValue": 0.25}', '{"arrayValue":{"values":[' * 150 + "]}}" * 150))
    assert {**deeper.attributes, "ratio": 0} == {**VALUES, "ratio": 0}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes",
          "events", "status", "links"]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4), json_values)
def test_nothing_in_a_span_makes_reading_fail(changes, anywhere):
    span = {**REQUEST["resourceSpans"][0]["scopeSpans"][0]["spans"][0], **changes}
    told = {"resourceSpans": [{"resource": anywhere, "scopeSpans": [{"scope": anywhere, "spans": [span, anywhere]}]}]}
    found, wrong = read(json.dumps(told))
    assert wrong == []
    assert len(found) == (2 if isinstance(anywhere, dict) else 1)
    assert all(isinstance(one.type, str) for one in found)
