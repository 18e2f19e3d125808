"""What a run looks like as OpenTelemetry spans, checked against the protocol's own definition."""

import base64
import copy
import json
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.mirror._batch import MAX_BYTES, MAX_SPANS, Piece, batches
from harness.mirror._ids import span_id, trace_id
from harness.mirror._otel import error_type, export_head, export_request, export_spans, spans_of
from harness.record import Usage

START = datetime(2026, 11, 30, 10, 0, 0, 123457, tzinfo=UTC)
RUN = "019ad3b4-1111-7000-8000-000000000001"
ROOT = "019ad3b4-1111-7000-8000-000000000002"
DRAFT = "019ad3b4-1111-7000-8000-000000000003"
SEARCH = "019ad3b4-1111-7000-8000-000000000004"
JOB = "019ad3b4-1111-7000-8000-000000000005"
CHAT = "019ad3b4-1111-7000-8000-000000000006"
MAIL, CARD, PHONE, KEY = "jane.roe@example.org", "4111 1111 1111 1111", "+49 170 1234567", "sk-abcdefghijklmnop1234"
REQUEST = {
    "model": "gpt-5-mini",
    "temperature": 0,
    "seed": 7,
    "max_completion_tokens": 300,
    "stop": ["END"],
    "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "search_kb", "description": "Finds", "parameters": {}}}],
    "messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": f"I am {MAIL}"}, {"type": "image_url", "image_url": {
            "url": "https://img.example.org/a.png"}}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {
                "name": "search_kb", "arguments": '{"query":"refund"}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": '["policy 7"]'},
    ],
}  # fmt: skip
PARAMS = {"temperature": 0, "seed": 7, "max_completion_tokens": 300}
RESPONSE = {
    "id": "chatcmpl-1",
    "model": "gpt-5-mini-2026-01-01",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "let me see",
                "tool_calls": [
                    {"id": "call_2", "type": "function", "function": {"name": "search_kb", "arguments": "{broken"}}
                ],
            },
        }
    ],
}


class Flat(dict):
    """A span's attributes by name; the span itself as ``span``."""

    def __init__(self, span):
        super().__init__((pair["key"], value_of(pair["value"])) for pair in span["attributes"])
        assert len(self) == len(span["attributes"]), "a name stands twice"
        self.span = span

    def json(self, name):
        return json.loads(self[name])


def value_of(value):
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [value_of(item) for item in inner["values"]]
    return int(inner) if kind == "intValue" else inner


def parse(body):
    """The request as the protocol's own definition reads it; OTLP/JSON has ids in hex where protobuf has base64."""
    value = json.loads(body)
    for resource in value["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
                    assert span[name] == span[name].lower()
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(value, ExportTraceServiceRequest())


@pytest.fixture(scope="session")
def otel_books(books):
    """The recording that all tests here share, with what matters to a collector."""

    class OtelBook(books):
        def __init__(self):
            super().__init__()
            self.run = replace(self.run, metadata={"session_id": "s-1"}, code_version=None)
            root, draft, search, job = (replace(step, duration_ms=2000.0) for step in self.steps)
            root = replace(root, input_hash=None, output_hash=None)
            self.steps = [root, replace(draft, version="2"), replace(search, version=None), job]

        def message(self, request=REQUEST, response=RESPONSE, **changes):
            told = {"provider": "api.openai.com", "finish_reasons": ("tool_calls",), "params": PARAMS, **changes}
            return super().message(request, response, **told)

        def requests(self, *, content=True):
            head = export_head(resource={"service.name": "shop"}, version="1.2")
            spans = [Piece(run=RUN, data=span) for span in export_spans(self.recording, content=content)]
            return [export_request(head, (piece.data for piece in batch)) for batch in batches([spans])]

        def spans(self, *, content=True):
            return {span["spanId"]: Flat(span) for span in spans_of(self.recording, content=content)}

        @property
        def chat(self):
            return self.spans()[span_id("message", CHAT)]

    return OtelBook


@pytest.fixture
def book(otel_books):
    return otel_books()


def test_the_body_is_valid_otlp_with_resource_and_scope(book):
    (body,) = book.requests()
    (resource,) = parse(body).resource_spans
    assert {a.key: a.value.string_value for a in resource.resource.attributes} == {"service.name": "shop"}
    (scope,) = resource.scope_spans
    assert (scope.scope.name, scope.scope.version) == ("goldfork", "1.2")
    assert len(scope.spans) == 5
    assert {len(span.trace_id) for span in scope.spans} == {16}
    assert {len(span.span_id) for span in scope.spans} == {8}


def test_the_tree_has_the_ids_that_langfuse_gets(book):
    spans = book.spans()
    ids = {
        "triage": span_id("step", ROOT), "draft": span_id("step", DRAFT), "search": span_id("step", SEARCH),
        "tidy": span_id("step", JOB), "chat": span_id("message", CHAT),
    }  # fmt: skip
    assert set(spans) == set(ids.values())
    assert {flat.span["traceId"] for flat in spans.values()} == {trace_id(RUN)}
    parents = {name: spans[own].span.get("parentSpanId") for name, own in ids.items()}
    assert parents == {
        "triage": None, "draft": ids["triage"], "search": ids["draft"], "tidy": ids["triage"], "chat": ids["draft"],
    }  # fmt: skip


def test_names_kinds_and_operations(book):
    seen = [(s.span["name"], s.span["kind"], s.get("gen_ai.operation.name")) for s in book.spans().values()]
    assert seen == [
        ("invoke_workflow triage", 1, "invoke_workflow"),
        ("invoke_agent draft", 1, "invoke_agent"),
        ("chat gpt-5-mini", 3, "chat"),
        ("execute_tool search_kb", 1, "execute_tool"),
        ("tidy", 1, None),
    ]


def test_times_are_exact_and_the_length_is_the_monotonic_one(book):
    chat = book.chat.span
    assert chat["startTimeUnixNano"] == str(1796032800123457000)
    assert int(chat["endTimeUnixNano"]) - int(chat["startTimeUnixNano"]) == 1_500_500_000


def test_what_the_run_says(book):
    book.run = replace(
        book.run, experiment="e1", case="c1", trial=2, arm="fork:ab", parent_run_id=CHAT, fork_step="draft",
        change={"kind": "prompt", "name": "draft", "at": "draft", "value": "be rude"}, code_version="c0de",
    )  # fmt: skip
    root = next(iter(book.spans().values()))
    expected = {
        "goldfork.run.id": RUN, "goldfork.step.id": ROOT, "goldfork.seq": 0, "goldfork.status": "ok",
        "goldfork.mode": "live", "goldfork.arm": "fork:ab", "goldfork.trial": 2, "goldfork.case": "c1",
        "goldfork.experiment": "e1", "goldfork.tags": ["vip"], "goldfork.parent_run.id": CHAT,
        "goldfork.parent_run.trace_id": trace_id(CHAT), "goldfork.fork_step": "draft",
        "goldfork.change.kind": "prompt", "goldfork.change.name": "draft", "goldfork.code_version": "c0de",
        "gen_ai.workflow.name": "triage", "gen_ai.conversation.id": "s-1", "goldfork.fidelity": "wire",
    }  # fmt: skip
    assert expected.items() <= root.items()
    assert root.json("goldfork.input") == {"ticket": "late"}
    assert root.json("goldfork.output") == {"reply": "soon"}
    assert root.json("goldfork.change")["value"] == "be rude"
    bare = next(iter(book.spans(content=False).values()))
    assert set(root) - set(bare) == {"goldfork.input", "goldfork.output", "goldfork.change"}


def test_what_steps_say(book):
    spans = book.spans()
    draft, search = spans[span_id("step", DRAFT)], spans[span_id("step", SEARCH)]
    assert {"gen_ai.agent.name": "draft", "gen_ai.agent.version": "2", "goldfork.seq": 1}.items() <= draft.items()
    assert {
        "gen_ai.tool.name": "search_kb", "gen_ai.tool.type": "function", "goldfork.state": "called",
        "goldfork.determinism": "time-bound", "goldfork.scope": "triage/draft", "goldfork.run.id": RUN,
    }.items() <= search.items()  # fmt: skip
    assert search.json("gen_ai.tool.call.arguments") == {"query": "refund"}
    assert search.json("gen_ai.tool.call.result") == ["policy 7"]


def test_what_a_model_call_says(book):
    assert {
        "gen_ai.provider.name": "openai", "server.address": "api.openai.com", "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.request.temperature": 0.0, "gen_ai.request.seed": 7, "gen_ai.request.max_tokens": 300,
        "gen_ai.request.stop_sequences": ["END"], "gen_ai.output.type": "json", "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "gpt-5-mini-2026-01-01", "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.response.time_to_first_chunk": 0.25, "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 50, "gen_ai.usage.cache_read.input_tokens": 600,
        "gen_ai.usage.reasoning.output_tokens": 20, "gen_ai.prompt.name": "draft", "goldfork.prompt.version": "3",
        "goldfork.cost": "0.00012300", "goldfork.currency": "USD", "goldfork.cache_state": "live",
        "openai.response.system_fingerprint": "fp_1", "goldfork.message.id": CHAT, "goldfork.seq": 2,
    }.items() <= book.chat.items()  # fmt: skip
    assert "server.port" not in book.chat


def test_messages_have_the_shape_of_the_conventions(book):
    assert book.chat.json("gen_ai.input.messages") == [
        {"role": "system", "parts": [{"type": "text", "content": "be kind"}]},
        {"role": "user", "parts": [
            {"type": "text", "content": "I am ⟦mail#1⟧"},
            {"type": "uri", "modality": "image", "uri": "https://img.example.org/a.png"}]},
        {"role": "assistant", "parts": [
            {"type": "tool_call", "id": "call_1", "name": "search_kb", "arguments": {"query": "refund"}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": ["policy 7"]}]},
    ]  # fmt: skip
    assert book.chat.json("gen_ai.output.messages") == [
        {"role": "assistant", "finish_reason": "tool_call", "parts": [
            {"type": "text", "content": "let me see"},
            {"type": "tool_call", "id": "call_2", "name": "search_kb", "arguments": "{broken"}]}
    ]  # fmt: skip
    assert book.chat.json("gen_ai.tool.definitions")[0]["name"] == "search_kb"


def test_the_responses_api_has_the_same_shape(book):
    request = {
        "model": "m", "instructions": "be kind", "text": {"format": {"type": "text"}},
        "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
            {"type": "item_reference", "id": "x"},
        ],
    }  # fmt: skip
    response = {"id": "r", "object": "response", "status": "completed", "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "ok"}]}]}  # fmt: skip
    book.messages = [book.message(request, response, endpoint="/responses")]
    chat = book.chat
    assert chat.json("gen_ai.system_instructions") == [{"type": "text", "content": "be kind"}]
    assert [message["parts"][0]["type"] for message in chat.json("gen_ai.input.messages")] == [
        "text", "reasoning", "tool_call", "tool_call_response", "item_reference"]  # fmt: skip
    assert chat.json("gen_ai.output.messages") == [
        {"role": "assistant", "parts": [{"type": "text", "content": "ok"}], "finish_reason": "stop"}
    ]
    assert chat.json("gen_ai.tool.definitions") == [{"type": "function", "name": "f", "parameters": {}}]
    assert chat["gen_ai.output.type"] == "text"


def test_embeddings_and_the_house_s_own_calls(book):
    book.messages = [
        book.message({"model": "e", "input": "x"}, {"data": []}, endpoint="/embeddings", provider="local", model="e",
                     params={"dimensions": 64, "encoding_format": "float"})
    ]  # fmt: skip
    chat = book.chat
    assert chat.span["name"] == "embeddings e"
    assert chat["gen_ai.provider.name"] == "local"
    assert "server.address" not in chat
    assert chat["gen_ai.embeddings.dimension.count"] == 64
    assert chat["gen_ai.request.encoding_formats"] == ["float"]


@pytest.mark.parametrize(
    ("provider", "name", "port"),
    [
        ("api.openai.com", "openai", None),
        ("127.0.0.1:8080", "openai", 8080),
        ("shop.openai.azure.com", "azure.ai.openai", None),
        ("api.anthropic.com", "anthropic", None),
        ("api.x.ai", "x_ai", None),
        ("evilx.ai", "openai", None),
        ("bedrock-runtime.eu-west-1.amazonaws.com:443", "aws.bedrock", 443),
    ],
)
def test_providers(book, provider, name, port):
    book.messages = [book.message(provider=provider)]
    assert book.chat["gen_ai.provider.name"] == name
    assert book.chat.get("server.port") == port


def test_a_replayed_call_is_free_and_its_tokens_are_not_counted_again(book):
    book.messages = [book.message(cache_state="recorded", replay_of=JOB)]
    assert not [name for name in book.chat if name.startswith("gen_ai.usage")]
    assert {
        "goldfork.cost": "0", "goldfork.recorded.input_tokens": 1000, "goldfork.replay_of": JOB,
        "goldfork.cache_state": "recorded",
    }.items() <= book.chat.items()  # fmt: skip


def test_unknown_usage_and_cost_are_left_out(book):
    book.messages = [book.message(usage=Usage(), cost=None)]
    assert not [name for name in book.chat if "usage" in name or "cost" in name or "currency" in name]


def test_without_content_nothing_that_was_said_goes_along(book):
    book.run = replace(book.run, status="error", error="ValueError: no such ticket: late")
    book.steps[2] = replace(book.steps[2], status="error", error="broken: policy 7")
    book.messages = [
        book.message(status="error", error="HTTP 429: slow down, let me see", provider="127.0.0.1:1"),
    ]
    body = b"".join(book.requests(content=False))
    for said in (b"let me see", b"be kind", b"policy 7", b"refund", b"late", b"soon", b"call_1", b"broken:"):
        assert said not in body
    spans = book.spans(content=False)
    assert [(s["error.type"], s.span["status"]["message"]) for s in spans.values() if "error.type" in s] == [
        ("ValueError", "ValueError"), ("429", "429"), ("broken", "broken")]  # fmt: skip


def test_errors_have_a_type_and_with_content_their_words(book):
    book.messages = [book.message(status="error", error=f"HTTP 500: ask {MAIL}", exchanges=())]
    assert book.chat["error.type"] == "500"
    assert book.chat.span["status"] == {"code": 2, "message": "HTTP 500: ask ⟦mail#1⟧"}
    book.messages = [book.message(status="interrupted", error=None)]
    assert book.chat.span["status"] == {"code": 2, "message": "interrupted"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("HTTP 503: busy", "503"),
        ("HTTP 5031", "_OTHER"),
        ("openai.APIError: x", "openai.APIError"),
        ("TimeoutError", "TimeoutError"),
        ("my secret words", "_OTHER"),
        ("", "_OTHER"),
        ("Größe: x", "_OTHER"),
    ],
)
def test_the_type_of_an_error_is_no_sentence(error, kind):
    assert error_type(error) == kind


def test_an_abandoned_run_has_a_root_that_spans_its_children(book):
    book.run = replace(book.run, status="interrupted", ended_at=None)
    book.steps[0] = replace(book.steps[0], status="interrupted", duration_ms=0.0)
    spans = list(book.spans().values())
    assert spans[0].span["status"]["code"] == 2
    assert int(spans[0].span["endTimeUnixNano"]) == max(int(s.span["endTimeUnixNano"]) for s in spans)


def test_rows_without_a_parent_hang_below_the_root(book):
    book.steps[3] = replace(book.steps[3], parent_id=CHAT)
    book.messages = [book.message(step_id=None)]
    spans = book.spans()
    for own in (span_id("step", JOB), span_id("message", CHAT)):
        assert spans[own].span["parentSpanId"] == span_id("step", ROOT)
    book.steps, book.messages = [], []
    (only,) = book.spans().values()
    assert "parentSpanId" not in only.span
    assert int(only.span["endTimeUnixNano"]) - int(only.span["startTimeUnixNano"]) == 2_000_000_000


def test_missing_content_costs_only_itself(book):
    book.blobs.clear()
    chat = book.chat
    assert "is no longer in the store" in chat["gen_ai.input.messages"]
    assert chat["gen_ai.usage.input_tokens"] == 1000


def test_planted_secrets_are_in_no_byte(book):
    secret = "Winter7Winter9"
    plain = f"{MAIL} {CARD} {PHONE} {KEY}"
    request = copy.deepcopy(REQUEST) | {"stop": [KEY]}
    # First without its name, later with it: recognised anywhere, it is replaced everywhere.
    request["messages"].insert(0, {"role": "user", "content": f"{plain} and {secret}", "name": MAIL})
    request["messages"][2]["content"] = f'{{"password": "{secret}"}}'
    response = copy.deepcopy(RESPONSE)
    response["choices"][0]["message"]["content"] = f"echo {plain} {secret}"
    response["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = json.dumps({"api_key": secret})
    book.messages = [
        book.message(
            request,
            response,
            status="error",
            error=f"ValueError: {plain}",
            model=KEY,
            prompt_name=MAIL,
            params={"seed": int(CARD.replace(" ", ""))},
        )
    ]
    book.steps[2] = replace(
        book.steps[2], name=f"tool {MAIL}", input_hash=book.put({"to": plain}), output_hash=book.put({"x": [plain]})
    )
    book.steps[3] = replace(book.steps[3], name=KEY, error=plain, status="error")
    book.run = replace(
        book.run, tags=(MAIL, KEY), metadata={"session_id": MAIL}, error=plain, status="error", case=PHONE,
        change={"kind": "input", "at": "x", "name": MAIL, "value": {MAIL: plain, "password": secret}},
        input_hash=book.put({MAIL: plain, "phone": "0170 1234567"}),
        output_hash=book.put([CARD.replace(" ", ""), secret]),
    )  # fmt: skip
    for content in (True, False):
        body = b"".join(book.requests(content=content))
        parse(body)
        for planted in (MAIL, CARD, CARD.replace(" ", ""), PHONE, "0170 1234567", KEY, secret):
            assert planted.encode() not in body


def test_files_in_data_urls_become_notes(book):
    data = base64.b64encode(bytes(300)).decode()
    request = copy.deepcopy(REQUEST)
    request["messages"] = [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "input_audio", "input_audio": {"format": "wav", "data": data}}]}]  # fmt: skip
    book.messages = [book.message(request)]
    book.steps[2] = replace(book.steps[2], output_hash=book.put({"shot": f"data:image/png;base64,{data}"}))
    body = b"".join(book.requests())
    assert data.encode() not in body
    assert body.count("⟦image/png, 300 bytes, sha256".encode()) == 2
    assert "⟦audio/wav, 300 bytes, sha256".encode() in body


def test_large_runs_travel_in_several_requests(book):
    book.messages = [book.message(id=f"m{n}", seq=10 + n) for n in range(2 * MAX_SPANS)]
    bodies = book.requests()
    sizes = [len(parse(body).resource_spans[0].scope_spans[0].spans) for body in bodies]
    assert sum(sizes) == 2 * MAX_SPANS + 5 - 1
    assert max(sizes) <= MAX_SPANS
    huge = copy.deepcopy(RESPONSE)
    huge["choices"][0]["message"]["content"] = "x " * (MAX_BYTES // 2)
    book.messages = [book.message(response=huge)]
    assert len(book.requests()) == 3


def test_the_same_recording_gives_the_same_bytes(otel_books):
    assert otel_books().requests() == otel_books().requests()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    asked=st.fixed_dictionaries({}, optional={
        "messages": JSON | st.lists(st.fixed_dictionaries({"role": JSON, "content": JSON, "tool_calls": JSON})),
        "input": JSON, "instructions": JSON, "tools": JSON | st.lists(st.dictionaries(st.text(), JSON)),
        "stop": JSON, "response_format": JSON, "text": JSON, "prompt": JSON}),
    response=JSON | st.fixed_dictionaries({"choices": JSON, "output": JSON, "id": JSON}),
    endpoint=st.sampled_from(["/chat/completions", "/responses", "/completions", "/embeddings", "/x"]),
    params=st.dictionaries(st.sampled_from(["temperature", "seed", "n", "max_tokens", "service_tier"]), JSON),
)  # fmt: skip
def test_hostile_bodies_still_make_valid_spans(otel_books, asked, response, endpoint, params):
    book = otel_books()
    book.messages = [book.message(asked, response, endpoint=endpoint, params=params)]
    for body in book.requests():
        parse(body)
        orjson.loads(body)


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deep_nesting_breaks_nothing(book, depth):
    deep = b'{"messages":[{"role":"user","content":' + b"[" * depth + b"]" * depth + b"}]}"
    book.messages = [book.message(request_hash=book.put(deep, raw=True))]
    response = copy.deepcopy(RESPONSE)
    response["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "[" * depth + "]" * depth
    book.messages += [book.message(response=response, id=JOB, seq=9)]
    for body in book.requests():
        parse(body)
