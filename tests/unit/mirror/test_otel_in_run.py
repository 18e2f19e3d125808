"""Spans as real instrumentations write them become the run that was watched; what is wrong with them is mended."""

from __future__ import annotations

import base64
import dataclasses
import io
import itertools
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.mirror import import_spans
from harness.pipeline import plain
from harness.record import Usage
from harness.store import open_store

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
BEGIN = 1_764_500_400_000_000_000


def value(told):
    """A value as OTLP writes it."""
    kinds = {bool: "boolValue", float: "doubleValue", str: "stringValue"}
    if isinstance(told, int) and not isinstance(told, bool):
        return {"intValue": str(told)}
    if isinstance(told, list):
        return {"arrayValue": {"values": [value(one) for one in told]}}
    return {kinds[type(told)]: told}


def pairs(attributes):
    return [{"key": name, "value": value(told)} for name, told in attributes.items()]


def span(number, parent, name, attributes=None, *, start=0, end=None, trace=TRACE, events=(), **more):
    """A span; its id and its parent's as small numbers, times in milliseconds."""
    told = {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str(BEGIN + start * 1_000_000),
        "endTimeUnixNano": str(BEGIN + (start + 5 if end is None else end) * 1_000_000),
        "attributes": pairs(attributes or {}),
        "events": [{"name": name, "timeUnixNano": "1", "attributes": pairs(said)} for name, said in events],
        "status": {},
        **more,
    }
    return {**told, **({"parentSpanId": f"{parent:016x}"} if parent else {})}


def request(*spans, scope="lib", **resource):
    named = {"service.name": "weather", **resource}
    scoped = [{"scope": {"name": scope, "version": "1"}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": pairs(named)}, "scopeSpans": scoped}]}


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/s.db", durability="normal") as opened:
        yield opened


def take(store, *requests):
    """Import requests as the lines of one file."""
    lines = "\n".join(json.dumps(one) for one in requests)
    return import_spans(store, [("spans.jsonl", io.BytesIO(lines.encode()))])


def one_run(store, *requests):
    result = take(store, *requests)
    assert (result.left_out, len(result.imported)) == ([], 1), result
    return store.recording(result.imported[0])


def told(recording, message):
    """Request and response of a message."""
    answer = message.answer
    return json.loads(recording.read(message.request_hash)), answer and json.loads(recording.read(answer.body_hash))


CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
ASKED = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "weather in Paris?"}]
AGAIN = [*ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]},
         {"role": "tool", "tool_call_id": "call_1", "content": "rainy"}]  # fmt: skip
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "now", "parameters": {"type": "object"}}}

# opentelemetry-instrumentation-openai-v2, with the conventions in their newest form and content in the spans.
NEW = request(
    span(2, 1, "chat gpt-4o-mini", {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.provider.name": "openai",
        "server.address": "api.openai.com", "gen_ai.request.temperature": 0.5, "gen_ai.request.max_tokens": 50,
        "gen_ai.response.finish_reasons": ["tool_calls"], "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.response.id": "chatcmpl-1", "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 5,
        "gen_ai.tool.definitions": json.dumps([{"type": "function", **TOOL["function"]}]),
        "gen_ai.input.messages": json.dumps([
            {"role": "system", "parts": [{"content": "be brief", "type": "text"}]},
            {"role": "user", "parts": [{"content": "weather in Paris?", "type": "text"}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [
            {"arguments": {"city": "Paris"}, "name": "get_weather", "id": "call_1", "type": "tool_call"}],
            "finish_reason": "tool_calls"}])}, start=10, end=40),
    span(3, 1, "execute_tool get_weather", {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather", "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_1", "gen_ai.tool.call.arguments": '{"city": "Paris"}',
        "gen_ai.tool.call.result": '"rainy"'}, start=45),
    span(4, 1, "chat gpt-4o-mini", {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.provider.name": "openai",
        "server.address": "api.openai.com", "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18", "gen_ai.response.id": "chatcmpl-2",
        "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 16,
        "gen_ai.input.messages": json.dumps([
            {"role": "system", "parts": [{"content": "be brief", "type": "text"}]},
            {"role": "user", "parts": [{"content": "weather in Paris?", "type": "text"}]},
            {"role": "assistant", "parts": [
                {"arguments": {"city": "Paris"}, "name": "get_weather", "id": "call_1", "type": "tool_call"}]},
            {"role": "tool", "parts": [{"response": "rainy", "id": "call_1", "type": "tool_call_response"}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [
            {"content": "Rainy.", "type": "text"}], "finish_reason": "stop"}])}, start=60, end=90),
    span(1, None, "answer", {"gen_ai.conversation.id": "s-7"}, end=100, kind=1),
    **{"deployment.environment.name": "production", "service.version": "1.4"},
)  # fmt: skip

# The same without opting in: old names, and content in log records, which are no spans.
DEFAULT = request(
    span(2, 1, "chat gpt-4o-mini", {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.system": "openai",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18", "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.response.id": "chatcmpl-1", "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 5},
        start=10),
    span(1, None, "answer", end=100),
)  # fmt: skip

# OpenLLMetry, with the numbered attributes of its long-lived releases.
LLMETRY = request(
    span(1, None, "answer.workflow", {
        "traceloop.span.kind": "workflow", "traceloop.entity.name": "answer", "traceloop.workflow.name": "answer",
        "traceloop.entity.input": '{"args": ["Paris"], "kwargs": {}}', "traceloop.entity.output": '"Rainy."'}, end=100),
    span(2, 1, "plan.task", {"traceloop.span.kind": "task", "traceloop.entity.name": "plan",
                             "traceloop.workflow.name": "answer"}, start=5, end=50),
    span(3, 2, "openai.chat", {
        "llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 0.5, "llm.headers": "None", "llm.is_streaming": True,
        "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "be brief",
        "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "weather in Paris?",
        "llm.request.functions.0.name": "get_weather", "llm.request.functions.0.description": "now",
        "llm.request.functions.0.parameters": '{"type": "object"}',
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18", "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.finish_reason": "tool_calls",
        "gen_ai.completion.0.tool_calls.0.id": "call_1", "gen_ai.completion.0.tool_calls.0.name": "get_weather",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"city":"Paris"}',
        "llm.usage.total_tokens": 25, "gen_ai.usage.prompt_tokens": 20, "gen_ai.usage.completion_tokens": 5},
        start=10),
    span(4, 1, "get_weather.tool", {"traceloop.span.kind": "tool", "traceloop.entity.name": "get_weather",
                                    "traceloop.entity.input": '{"city": "Paris"}'}, start=60),
    scope="opentelemetry.instrumentation.openai.v1",
)  # fmt: skip

# OpenInference.
INFERENCE = request(
    span(1, None, "AgentExecutor", {
        "openinference.span.kind": "CHAIN", "input.value": "weather in Paris?", "output.value": "Rainy.",
        "session.id": "s-7", "user.id": "u-1", "tag.tags": ["vip"]}, end=100),
    span(2, 1, "planner", {"openinference.span.kind": "AGENT"}, start=2, end=60),
    span(3, 2, "ChatCompletion", {
        "openinference.span.kind": "LLM", "llm.system": "openai", "llm.model_name": "gpt-4o-mini-2024-07-18",
        "llm.invocation_parameters": '{"model": "gpt-4o-mini", "temperature": 0.5}',
        "llm.tools.0.tool.json_schema": json.dumps(TOOL),
        "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "be brief",
        "llm.input_messages.1.message.role": "user", "llm.input_messages.1.message.content": "weather in Paris?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "get_weather",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city":"Paris"}',
        "llm.finish_reason": "tool_calls", "llm.token_count.prompt": 20, "llm.token_count.completion": 5,
        "llm.token_count.total": 25}, start=10, kind=1, status={"code": 1}),
    span(4, 2, "get_weather", {
        "openinference.span.kind": "TOOL", "tool.name": "get_weather", "input.value": '{"city": "Paris"}',
        "input.mime_type": "application/json", "output.value": "rainy"}, start=30),
    span(5, 1, "Retriever", {"openinference.span.kind": "RETRIEVER"}, start=62),
    span(6, 1, "CreateEmbeddings", {
        "openinference.span.kind": "EMBEDDING", "embedding.model_name": "text-embedding-3-small",
        "input.value": '{"input": "hello", "model": "text-embedding-3-small"}', "llm.token_count.prompt": 3}, start=70),
    scope="openinference.instrumentation.openai",
)  # fmt: skip


def shape(recording):
    """Everything in order: kind, name and scope of steps, model and scope of messages."""
    rows = sorted([*recording.steps, *recording.messages], key=lambda row: row.seq)
    return [(row.kind, row.name, row.scope) if hasattr(row, "kind") else ("call", row.model, row.scope) for row in rows]


def test_the_present_conventions_carry_everything(store):
    recording = one_run(store, NEW)
    run = recording.run
    assert (run.workflow, run.status, run.fidelity, run.usable) == ("answer", "ok", "imported", True)
    assert run.metadata == {"service": "weather", "instrumentation": "lib", "environment": "production",
                            "release": "1.4", "session_id": "s-7", "trace": TRACE}  # fmt: skip
    assert shape(recording) == [
        ("job", "answer", ""), ("call", "gpt-4o-mini", ""), ("tool", "get_weather", ""), ("call", "gpt-4o-mini", "")
    ]  # fmt: skip
    tool = recording.steps[1]
    assert (plain(recording.read(tool.input_hash)), plain(recording.read(tool.output_hash))) == (
        {"city": "Paris"},
        "rainy",
    )
    first, second = recording.messages
    assert (first.provider, first.model, first.model_served) == (
        "api.openai.com",
        "gpt-4o-mini",
        "gpt-4o-mini-2024-07-18",
    )
    assert (first.params, first.finish_reasons, first.latency_ms) == (
        {"temperature": 0.5, "max_tokens": 50},
        ("tool_calls",),
        30,
    )
    assert (first.usage.input_tokens, first.usage.output_tokens) == (20, 5)
    assert second.usage == Usage(input_tokens=40, output_tokens=7, cached_tokens=16)
    asked, said = told(recording, first)
    assert asked == {"model": "gpt-4o-mini", "temperature": 0.5, "max_tokens": 50, "messages": ASKED, "tools": [TOOL]}
    assert said["choices"] == [
        {"index": 0, "finish_reason": "tool_calls",
         "message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}
    ]  # fmt: skip
    assert (said["id"], said["usage"]["total_tokens"]) == ("chatcmpl-1", 25)
    asked, said = told(recording, second)
    assert asked["messages"] == AGAIN
    assert said["choices"][0]["message"] == {"role": "assistant", "content": "Rainy."}


def test_without_content_the_structure_comes_in(store):
    recording = one_run(store, DEFAULT)
    (message,) = recording.messages
    assert (message.provider, message.usage.total, message.finish_reasons) == ("openai", 25, ("tool_calls",))
    asked, said = told(recording, message)
    assert asked == {"model": "gpt-4o-mini"}
    assert said["choices"][0]["message"]["content"] is None
    assert recording.run.input_hash is None


def test_the_numbered_attributes_of_openllmetry(store):
    recording = one_run(store, LLMETRY)
    assert recording.run.workflow == "answer"
    assert plain(recording.read(recording.run.input_hash)) == {"args": ["Paris"], "kwargs": {}}
    assert plain(recording.read(recording.run.output_hash)) == "Rainy."
    assert shape(recording) == [
        ("job", "answer", ""), ("job", "plan", ""), ("call", "gpt-4o-mini", "plan"), ("tool", "get_weather", "")
    ]  # fmt: skip
    (message,) = recording.messages
    asked, said = told(recording, message)
    assert (asked["messages"], asked["tools"], message.usage.total) == (ASKED, [TOOL], 25)
    assert said["choices"][0]["message"]["tool_calls"] == [CALL]
    assert (message.finish_reasons, message.model_served) == (("tool_calls",), "gpt-4o-mini-2024-07-18")


def test_the_kinds_of_openinference(store):
    recording = one_run(store, INFERENCE)
    run = recording.run
    assert (run.tags, run.metadata["session_id"], run.metadata["user_id"]) == (("vip",), "s-7", "u-1")
    assert plain(recording.read(run.input_hash)) == "weather in Paris?"
    assert shape(recording) == [
        ("job", "AgentExecutor", ""), ("agent", "planner", ""), ("call", "gpt-4o-mini", "planner"),
        ("tool", "get_weather", "planner"), ("tool", "Retriever", ""), ("call", "text-embedding-3-small", ""),
    ]  # fmt: skip
    chat, embedding = recording.messages
    asked, said = told(recording, chat)
    assert (asked["messages"], asked["tools"], chat.usage.total) == (ASKED, [TOOL], 25)
    assert said["choices"][0]["message"]["tool_calls"] == [CALL]
    assert (chat.model_served, chat.params, chat.finish_reasons) == (
        "gpt-4o-mini-2024-07-18",
        {"temperature": 0.5},
        ("tool_calls",),
    )
    assert (embedding.endpoint, told(recording, embedding)[0]["input"]) == ("/embeddings", "hello")


OLDER = {
    "one attribute": ({"gen_ai.prompt": json.dumps(ASKED), "gen_ai.completion": json.dumps(
        [{"role": "assistant", "content": "Rainy."}])}, ()),
    "events of attributes": ({}, [("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(ASKED)}),
                                  ("gen_ai.content.completion", {"gen_ai.completion": '[{"content": "Rainy."}]'})]),
    "one event a message": ({}, [
        ("gen_ai.system.message", {"gen_ai.system": "openai", "content": "be brief"}),
        ("gen_ai.user.message", {"gen_ai.system": "openai", "content": "weather in Paris?"}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": '{"content": "Rainy."}'})]),
    "events with a body": ({}, [
        ("gen_ai.system.message", {"gen_ai.event.content": '{"content": "be brief", "role": "system"}'}),
        ("gen_ai.user.message", {"gen_ai.event.content": '{"content": "weather in Paris?"}'}),
        ("gen_ai.choice", {"gen_ai.event.content": '{"index": 0, "message": {"content": "Rainy."}}'})]),
    "details in an event": ({}, [("gen_ai.client.inference.operation.details", {
        "gen_ai.system_instructions": '[{"type": "text", "content": "be brief"}]',
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"weather in Paris?"}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Rainy."}]}]'})]),
}  # fmt: skip


@pytest.mark.parametrize("name", OLDER)
def test_older_ways_to_carry_content(store, name):
    attributes, events = OLDER[name]
    common = {"gen_ai.system": "openai", "gen_ai.request.model": "m", "gen_ai.response.finish_reasons": ["stop"]}
    recording = one_run(store, request(span(1, None, "chat m", {**common, **attributes}, events=events)))
    asked, said = told(recording, recording.messages[0])
    assert asked["messages"] == ASKED
    assert said["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "Rainy."}, "finish_reason": "stop"}
    ]


def test_a_conversation_of_events_with_tool_calls(store):
    events = [
        ("gen_ai.user.message", {"content": "weather?"}),
        ("gen_ai.assistant.message", {"tool_calls": json.dumps([CALL])}),
        ("gen_ai.tool.message", {"id": "call_1", "content": "rainy"}),
    ]
    recording = one_run(store, request(span(1, None, "chat m", {"gen_ai.operation.name": "chat"}, events=events)))
    assert told(recording, recording.messages[0])[0]["messages"] == [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rainy"},
    ]


def test_what_failed_says_why(store):
    failed = span(1, None, "work", {"error.type": "TimeoutError"}, end=9, status={"code": 2})
    call = span(2, 1, "chat m", {"gen_ai.operation.name": "chat"}, status={"code": "STATUS_CODE_ERROR", "message": "x"})
    recording = one_run(store, request(failed, call))
    assert (recording.run.status, recording.run.error) == ("error", "TimeoutError")
    (message,) = recording.messages
    assert (message.status, message.error, message.answer.error) == ("error", "x", "x")


def test_a_trace_over_many_lines_and_files_is_one_run(store):
    first = request(span(2, 1, "a", start=3), span(3, 2, "b", start=4))
    other = request(span(1, None, "root", end=50))
    files = [(str(n), io.BytesIO(json.dumps(one).encode())) for n, one in enumerate((first, other, first))]
    result = import_spans(store, files)
    assert (result.spans, len(result.imported), result.mended, result.left_out) == (5, 1, [], [])
    assert shape(store.recording(result.imported[0])) == [("job", "root", ""), ("job", "a", ""), ("job", "b", "a")]


def test_again_changes_nothing_in_whichever_spelling(store):
    first = take(store, NEW)
    again = take(store, NEW)
    theirs = json.loads(json.dumps(NEW).replace(TRACE, base64.b64encode(bytes.fromhex(TRACE)).decode()))
    theirs["resource_spans"] = theirs.pop("resourceSpans")
    spelled = take(store, theirs)
    for result in (again, spelled):
        assert (result.imported, result.updated, result.unchanged) == ([], [], 1)
    assert len(store.runs()) == len(first.imported) == 1


def test_more_spans_update_and_fewer_do_not(store):
    root, child = span(1, None, "root", end=50), span(2, 1, "child", start=3)
    orphan = take(store, request(child)).imported
    assert shape(store.recording(orphan[0])) == [("job", "child", "")]
    assert take(store, request(child, root)).updated == orphan, "the root came late; it is the same run"
    assert shape(store.recording(orphan[0])) == [("job", "root", ""), ("job", "child", "")]
    older = take(store, request(root))
    assert (older.updated, older.unchanged) == ([], 1)
    said = take(store, request(root, span(2, 1, "child", {"traceloop.entity.output": "7"}, start=3)))
    assert said.updated == orphan, "the same spans that say more"
    assert len(store.runs()) == 1


def test_two_halves_of_a_trace_are_asked_for_together(store):
    root = span(1, None, "root", end=50)
    take(store, request(root, span(2, 1, "a", start=3)))
    result = take(store, request(root, span(3, 1, "b", start=4)))
    [(trace, reason)] = result.left_out
    assert (trace, "all files of the trace in one command" in reason) == (TRACE, True)
    assert result.updated == []
    whole = take(store, request(root, span(2, 1, "a", start=3), span(3, 1, "b", start=4)))
    assert len(whole.updated) == 1


HOSTILE = {
    "missing parents": ((span(1, None, "r", end=9), span(2, 99, "a"), span(3, 2, "b")), "0000000000000063"),
    "a circle": ((span(1, 2, "a"), span(2, 1, "b"), span(3, 2, "c")), "circle"),
    "its own parent": ((span(1, 1, "a"), span(2, 1, "b")), "circle"),
    "a circle beside": ((span(1, None, "r"), span(2, 3, "a"), span(3, 2, "b")), "circle"),
    "a shared id": ((span(1, None, "r"), span(2, 1, "a"), span(2, 1, "b", start=1)), "shared an id"),
    "a shared id and name": ((span(1, None, "r"), span(2, 1, "a"), span(2, 1, "a", start=1)), "shared an id"),
    "no id": ((span(1, None, "r"), {**span(2, 1, "a"), "spanId": "xyz"}, {**span(2, 1, "b"), "spanId": None}), "no id"),
    "negative times": ((span(1, None, "r"), {**span(2, 1, "a"), "startTimeUnixNano": "-5"}), "no time"),
    "backwards": ((span(1, None, "r"), span(2, 1, "a", start=9, end=2)), "ended before"),
    "no times at all": ((span(1, None, "r"), {**span(2, 1, "a"), "startTimeUnixNano": 0, "endTimeUnixNano": None}),
                        "no time"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_wrong_is_one_line_and_costs_no_span(store, name):
    spans, says = HOSTILE[name]
    fine = span(1, None, "fine", trace="ab" * 16)
    result = take(store, request(*spans, fine))
    assert result.left_out == []
    [(trace, remark)] = result.mended
    assert (trace, says in remark, "\n" in remark) == (TRACE, True, False)
    runs = {store.run(run).metadata["trace"]: store.recording(run) for run in result.imported}
    assert runs.keys() == {TRACE, "ab" * 16}
    steps = runs[TRACE].steps
    assert Counter(step.name for step in steps) >= Counter(one["name"] for one in spans)
    assert [step.seq for step in steps] == list(range(len(steps)))
    assert all(step.duration_ms >= 0 for step in steps)
    assert store.check().ok


def test_a_trace_that_cannot_be_is_named_and_the_rest_comes_in(store):
    timeless = {**span(1, None, "r"), "startTimeUnixNano": None, "endTimeUnixNano": -1}
    result = take(store, request(timeless, span(1, None, "ok", trace="ab" * 16), span(1, None, "lost", trace="0" * 32)))
    assert dict(result.left_out).keys() == {TRACE, "spans.jsonl:1"}
    assert len(result.imported) == 1


def test_of_copies_the_one_that_ended_last_stands(store):
    early, late = (span(2, 1, "a", {"traceloop.entity.output": str(end)}, end=end) for end in (5, 9))
    for number, order in enumerate(((early, late), (late, early))):
        trace = f"{number + 1:032x}"
        recording = one_run(
            store, request(*({**one, "traceId": trace} for one in (span(1, None, "r", end=20), *order)))
        )
        assert plain(recording.read(recording.steps[1].output_hash)) == 9


def test_huge_and_odd_values(store):
    odd = {"input.value": "x" * 3_000_000, "output.value": json.dumps([[["y" * 100]] * 50] * 50),
           "traceloop.entity.name": "a\x00b\u202e"}  # fmt: skip
    deep = "[" * 50_000 + "]" * 50_000
    call = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": deep, "gen_ai.usage.input_tokens": "many",
            "gen_ai.usage.output_tokens": -4, "gen_ai.output.messages": '{"role": 5}', "gen_ai.tool.definitions": "{",
            "gen_ai.prompt.0.content": "hi", "gen_ai.prompt.99999999999.content": "no", "gen_ai.prompt.x.y": "no",
            "gen_ai.prompt." + "a." * 500: "no", "gen_ai.response.finish_reasons": [1, "stop"]}  # fmt: skip
    recording = one_run(store, request(span(1, None, "root", odd), span(2, 1, "chat", call, start=1)))
    assert len(plain(recording.read(recording.run.input_hash))) == 3_000_000
    (message,) = recording.messages
    assert (message.usage, message.finish_reasons) == (Usage(), ("stop",))


def test_a_trace_that_nests_without_end_takes_no_square_of_its_length(store):
    chain = [span(1, None, "r", end=9), span(2, 1, "n" * 100_000), *(span(n, n - 1, "deeper") for n in range(3, 4000))]
    recording = one_run(store, request(*chain))
    steps = recording.steps
    assert len(steps) == len(chain)
    above = {step.id: step for step in steps}
    assert all(above[step.parent_id].seq == step.seq - 1 for step in steps[1:])
    assert max(len(step.scope) for step in steps) < 2000
    assert len({step.address for step in steps}) == len(steps)


def test_a_run_that_was_recorded_here_is_never_overwritten(store):
    run = take(store, NEW).imported[0]
    here = dataclasses.replace(store.run(run), fidelity="wire", workflow="ours")
    store.write(here).result()
    result = take(store, request(*NEW["resourceSpans"][0]["scopeSpans"][0]["spans"], span(9, 1, "more", start=2)))
    assert (result.recorded, result.updated) == (1, [])
    assert store.run(run).workflow == "ours"


def test_files_without_spans_are_refused_before_anything_is_written(store):
    logs = json.dumps({"resourceLogs": [{}]}).encode()
    for content, says in ((b"", "no spans"), (b"hello\n", "no spans"), (logs, "logs"), (b"\x1f\x8b\x08", "gzip"),
                          (b"\x28\xb5\x2f\xfd\x04", "zstd"), (b'{"resourceSpans": []}', "no spans")):  # fmt: skip
        files = [("good", io.BytesIO(json.dumps(NEW).encode())), ("bad", io.BytesIO(content))]
        with pytest.raises(UsageError, match=says) as caught:
            import_spans(store, files)
        assert "'bad'" in str(caught.value)
        assert store.runs() == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    *(
        "gen_ai.operation.name",
        "gen_ai.request.model",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.prompt",
    ),
    *("gen_ai.completion", "gen_ai.system_instructions", "gen_ai.tool.definitions", "gen_ai.response.finish_reasons"),
    *(
        "gen_ai.prompt.0.content",
        "gen_ai.prompt.0.tool_calls.0",
        "gen_ai.prompt.0.tool_calls.0.name",
        "gen_ai.prompt.0",
    ),
    *(
        "gen_ai.usage.input_tokens",
        "gen_ai.request.stop_sequences",
        "gen_ai.agent.name",
        "gen_ai.tool.name",
        "tag.tags",
    ),
    *("gen_ai.tool.call.arguments", "openinference.span.kind", "llm.invocation_parameters", "input.value", "user.id"),
    *("llm.input_messages.0.message.role", "llm.tools.0.tool.json_schema", "llm.tools.0.tool", "goldfork.run.id"),
    *("goldfork.seq", "goldfork.kind", "goldfork.cost", "goldfork.message.id", "server.address", "server.port"),
    *(
        "gen_ai.request.seed",
        "gen_ai.request.temperature",
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.provider.name",
        "gen_ai.response.model",
        "goldfork.state",
    ),
]
texts = st.sampled_from(["chat", "LLM", "tool", "execute_tool", "embeddings", "agent"]) | json_values.map(json.dumps)
huge = st.just(10**80)
hostile = st.dictionaries(st.sampled_from(NAMES), texts | json_values | huge, max_size=6)


def any_value(told):
    if isinstance(told, dict):
        return {"kvlistValue": {"values": [{"key": name, "value": any_value(one)} for name, one in told.items()]}}
    if isinstance(told, list):
        return {"arrayValue": {"values": [any_value(one) for one in told]}}
    return {} if told is None else value(told)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('kept')}/s.db", durability="normal") as opened:
        yield opened


fresh = itertools.count(1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(hostile, hostile, st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=4))
def test_whatever_the_attributes_hold_a_run_comes_in_and_can_be_read_back(kept, told):
    spans, number = [], next(fresh)
    for place, (attributes, event, parent, start) in enumerate(told, 1):
        made = span(place, parent, f"s{place}", start=start, trace=f"{number:032x}")
        made["attributes"] = [{"key": name, "value": any_value(one)} for name, one in attributes.items()]
        said = [{"key": name, "value": any_value(one)} for name, one in event.items()]
        made["events"] = [{"name": name, "attributes": said} for name in ("gen_ai.user.message", "gen_ai.choice")]
        spans.append(made)
    result = take(kept, request(*spans))
    assert (result.left_out, len(result.imported)) == ([], 1)
    for run in result.imported:
        recording = kept.recording(run)
        assert len(recording.steps) + len(recording.messages) >= len(spans)
        for row in recording.messages:
            assert json.loads(recording.read(row.request_hash)) is not None
        assert [step.seq for step in recording.steps if step.parent_id is None] == [0]
