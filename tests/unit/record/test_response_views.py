"""What responses say: C-001 to C-007 as records see them."""

import gzip
import json
import zlib

import pytest

from harness.record import Exchange, StreamView, Usage, request_view, view_response

CHAT = "/chat/completions"


def event(data: object) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def stream(*chunks: object, endpoint: str = CHAT, done: bool = True):
    body = b"".join(event(chunk) for chunk in chunks) + (b"data: [DONE]\n\n" if done else b"")
    exchange = Exchange(status=200, headers=(("content-type", "text/event-stream"),))
    return view_response(endpoint, exchange, body)


def plain(data: object, *, status: int = 200, kind: str = "application/json", endpoint: str = CHAT):
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return view_response(endpoint, Exchange(status=status, headers=(("Content-Type", kind),)), body)


def delta(content: str | None = None, *, finish: str | None = None, **more: object) -> dict[str, object]:
    part = {} if content is None else {"content": content}
    return {"id": "r1", "model": "m-1", "choices": [{"index": 0, "delta": part, "finish_reason": finish}], **more}


FILTER = {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}


def usage(total: int) -> dict[str, int]:
    return {"prompt_tokens": 1, "completion_tokens": total - 1, "total_tokens": total}


def test_c001_chunks_without_choices_and_usage_anywhere():
    a = stream(FILTER, delta("Hei"), delta(finish="stop"), {"choices": [], "usage": usage(11)})
    b = stream(delta("Hei"), delta(finish="stop", usage=usage(11)), {"choices": [], "usage": None})
    c = stream(delta("He", usage=usage(3)), delta("i", usage=usage(7)), delta(finish="stop", usage=usage(11)))
    d = stream(delta("Hei"), delta(finish="stop"))
    assert [view.text for view in (a, b, c, d)] == ["Hei"] * 4
    assert [view.usage.total for view in (a, b, c, d)] == [11, 11, 11, None]
    assert (a.response_id, a.model_served) == ("r1", "m-1")


def test_c002_tool_call_fragments_are_joined_by_index():
    def fragments(*calls: dict[str, object]) -> dict[str, object]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": list(calls)}}]}

    def named(index: int, identifier: str, name: str) -> dict[str, object]:
        function = {"name": name, "arguments": ""}
        return {"index": index, "id": identifier, "type": "function", "function": function}

    def text(index: int, arguments: str) -> dict[str, object]:
        return {"index": index, "function": {"arguments": arguments}}

    view = stream(
        fragments(named(0, "t_a", "find_train")),
        fragments(named(1, "t_b", "book_room")),
        fragments(text(1, '{"city":')),
        fragments(text(0, '{"to":"Os')),
        fragments(text(0, 'lo"}'), text(1, '"Bergen"}')),
    )
    assert [(c.index, c.id, c.name, c.arguments) for c in view.tool_calls] == [
        (0, "t_a", "find_train", '{"to":"Oslo"}'),
        (1, "t_b", "book_room", '{"city":"Bergen"}'),
    ]


def test_c003_several_choices_stay_apart_and_equal_the_plain_answer():
    def piece(index: int, text: str, logprob: float, finish: str | None = None) -> dict[str, object]:
        logprobs = {"content": [{"token": text, "logprob": logprob}]}
        return {"index": index, "delta": {"content": text}, "logprobs": logprobs, "finish_reason": finish}

    streamed = stream(
        {"choices": [piece(0, "sun", -0.1), piece(1, "rain", -0.9)]},
        {"choices": [piece(1, "y", -0.2, "stop")]},
        {"choices": [piece(0, "ny", -0.3, "length")]},
    )
    whole = plain(
        {
            "choices": [
                {
                    "index": index,
                    "message": {"content": text},
                    "finish_reason": finish,
                    "logprobs": {"content": [{"token": t, "logprob": p} for t, p in tokens]},
                }
                for index, text, finish, tokens in [
                    (0, "sunny", "length", [("sun", -0.1), ("ny", -0.3)]),
                    (1, "rainy", "stop", [("rain", -0.9), ("y", -0.2)]),
                ]
            ]
        }
    )
    assert [(c.text, c.finish_reason, len(c.logprobs)) for c in streamed.choices] == [
        ("sunny", "length", 2),
        ("rainy", "stop", 2),
    ]
    assert streamed.choices == whole.choices


GOOD = event(delta("Hei", finish="stop"))
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [b": wait\n\n", GOOD, DONE],
        [b"retry: 2500\n\n", GOOD, DONE],
        [b"event: ping\n\n", GOOD, DONE],
        [GOOD, b"data:\n\n", DONE],
        [b"id: 7\n" + GOOD, b": wait\n\n", DONE],
        [GOOD, b"data: : wait\n\n", DONE],
        [GOOD.replace(b"data: ", b"data:"), b"data: [DONE]\r\n\r\n"],
    ],
    ids="abcdefg",
)
def test_c004_lines_that_are_not_data_are_skipped(pieces: list[bytes]):
    view = view_response(
        CHAT, Exchange(status=200, headers=(("content-type", "text/event-stream; charset=utf-8"),)), b"".join(pieces)
    )
    assert (view.text, view.error, view.complete) == ("Hei", None, True)


def test_c005_characters_cut_in_half_arrive_whole():
    text = "価格は€5 ✅ a\u2028b\u0085c"
    body = event({"choices": [{"index": 0, "delta": {"content": text}}]}) + DONE
    for at in range(len(body)):
        follower = StreamView(CHAT)
        follower.feed(body[:at])
        follower.feed(body[at:])
        assert follower.view(200).text == text
        assert follower.finished


def encode(name: str, body: bytes) -> bytes:
    if name == "gzip":
        return gzip.compress(body)
    raw = zlib.compressobj(wbits=-15) if name == "raw deflate" else zlib.compressobj()
    return raw.compress(body) + raw.flush()


@pytest.mark.parametrize("name", ["gzip", "deflate", "raw deflate"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_c006_compressed_bodies_are_read(name: str, kind: str):
    chunk = delta("Hei", finish="stop", usage=usage(11))
    whole = {"choices": [{"index": 0, "message": {"content": "Hei"}}], "usage": usage(11)}
    body = event(chunk) + DONE if kind == "text/event-stream" else json.dumps(whole).encode()
    headers = (("content-type", kind), ("content-encoding", name.split()[-1]))
    view = view_response(CHAT, Exchange(status=200, headers=headers), encode(name, body))
    assert (view.text, view.usage.total, view.error) == ("Hei", 11, None)


def test_c006_a_compressed_error_is_read_and_a_broken_one_said():
    headers = (("content-type", "application/json"), ("content-encoding", "gzip"))
    body = gzip.compress(b'{"error":{"message":"slow down","code":"rate_limit"}}')
    assert "slow down" in str(view_response(CHAT, Exchange(status=429, headers=headers), body).error)
    assert view_response(CHAT, Exchange(status=200, headers=headers), b"not gzip").error is not None


@pytest.mark.parametrize(
    ("status", "kind", "body", "says"),
    [
        (502, "text/html", b"<html><title>Bad Gateway</title></html>", "Bad Gateway"),
        (200, "text/html", b"<html>Please sign in</html>", "Please sign in"),
        (503, "text/plain", b"", "503"),
        (200, "application/json", b"null", "null"),
        (400, "application/json", b'{"detail":"no such field"}', "no such field"),
    ],
)
def test_c007_what_is_not_an_answer_is_an_error_with_a_copy(status: int, kind: str, body: bytes, says: str):
    view = plain(body, status=status, kind=kind)
    assert says in str(view.error)
    assert view.choices == ()


def test_an_error_copy_is_bounded():
    assert len(str(plain(b"<html>" + b"x" * 100_000, kind="text/html").error)) < 3000


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"choices": 3}',
        b'{"choices":[{"index":-1,"message":{"content":{"a":1},"tool_calls":[7,{"index":"x","function":[]}]}}]}',
        b'{"choices":[null],"usage":{"prompt_tokens":true,"completion_tokens":-3}}',
        b"\xff\xfe",
    ],
)
def test_hostile_bodies_never_raise(body: bytes):
    for endpoint in (CHAT, "/responses", "/embeddings", "/completions", "/other"):
        view_response(endpoint, Exchange(status=200), body)
        view_response(endpoint, Exchange(status=200, headers=(("content-type", "text/event-stream"),)), body)
        request_view(endpoint, body)


def test_an_error_inside_a_stream_is_kept_with_the_text():
    view = stream(delta("Hei"), {"error": {"message": "overloaded", "code": "x"}}, done=False)
    assert (view.text, view.error) == ("Hei", "x: overloaded")


def response(**more: object) -> dict[str, object]:
    return {"id": "resp_1", "object": "response", "model": "m-1", "status": "completed", **more}


OUTPUT = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "message", "content": [{"type": "output_text", "text": "Hei"}]},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"a": 1}'},
]
TOKENS = {"input_tokens": 9, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}


def test_responses_plain_and_streamed_say_the_same():
    done = response(output=OUTPUT, usage=TOKENS)
    one = plain(done, endpoint="/responses")
    other = stream(
        {"type": "response.created", "response": response(status="in_progress", output=[])},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "He"},
        {"type": "response.completed", "response": done},
        endpoint="/responses",
        done=False,
    )
    assert one == other
    assert (one.text, one.choices[0].reasoning, one.tool_calls[0].arguments) == ("Hei", "hm", '{"a": 1}')
    assert one.usage == Usage(input_tokens=9, output_tokens=2, reasoning_tokens=1)


def test_a_cut_responses_stream_is_put_together_from_its_deltas():
    call = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": ""}
    view = stream(
        {"type": "response.created", "response": response(status="in_progress", output=[])},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "He"},
        {"type": "response.output_item.added", "output_index": 1, "item": call},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"a'},
        endpoint="/responses",
        done=False,
    )
    assert (view.text, view.tool_calls[0].name, view.tool_calls[0].arguments) == ("He", "find", '{"a')
    assert not view.complete


def test_a_failed_and_an_incomplete_response():
    failed = response(status="failed", error={"code": "server_error", "message": "no"}, output=[])
    assert plain(failed, endpoint="/responses").error == "server_error: no"
    short = response(status="incomplete", incomplete_details={"reason": "max_output_tokens"}, output=OUTPUT)
    assert plain(short, endpoint="/responses").finish_reasons == ("max_output_tokens",)


def test_embeddings_and_legacy_completions():
    tokens = {"prompt_tokens": 4, "total_tokens": 4}
    vectors = plain({"object": "list", "model": "e", "data": [], "usage": tokens}, endpoint="/embeddings")
    assert (vectors.model_served, vectors.usage.total, vectors.error) == ("e", 4, None)
    legacy = plain({"choices": [{"index": 0, "text": "Hei", "finish_reason": "stop"}]}, endpoint="/completions")
    assert legacy.text == "Hei"


def test_a_refusal_is_not_text():
    view = plain({"choices": [{"index": 0, "message": {"content": None, "refusal": "no"}, "finish_reason": "stop"}]})
    assert (view.text, view.refusal, view.error) == (None, "no", None)


def test_a_request_is_read():
    tool = {"type": "function", "function": {"name": "f"}}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "seed": 2**63,
        "stream": True,
        "tools": [tool],
        "user": "someone",
    }
    view = request_view(CHAT, json.dumps(body).encode())
    assert (view.model, view.stream, view.messages[0]["content"]) == ("m", True, "hi")
    assert view.params == {"temperature": 0.5, "seed": 2**63}
    assert view.tools == (tool,)
    asked = request_view("/responses", b'{"instructions":"be brief","input":"hi"}')
    assert [message["role"] for message in asked.messages] == ["system", "user"]
