"""C-001 to C-007 through the real client: what passes, what is stored, what comes back."""

import asyncio
import json
import ssl
import threading

import httpx2
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.gateway import wrap
from harness.record import view_response
from harness.testing import Scripted

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
DONE = b"data: [DONE]\n\n"
CONTEXT = ssl.create_default_context()


def event(data: object) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def delta(content: str | None = None, *, finish: str | None = None, **more: object) -> dict[str, object]:
    part = {} if content is None else {"content": content}
    return {"id": "r1", "model": "m-1", "choices": [{"index": 0, "delta": part, "finish_reason": finish}], **more}


def usage(total: int) -> dict[str, int]:
    return {"prompt_tokens": 1, "completion_tokens": total - 1, "total_tokens": total}


def read(client: openai.OpenAI) -> object:
    """The chunks that a client sees, and the error it ends with."""
    seen: list[object] = []
    try:
        seen.extend(chunk.model_dump() for chunk in client.chat.completions.create(stream=True, **ASK))
    except (openai.OpenAIError, ValueError) as error:
        seen.append((type(error).__name__, str(error)))
    return seen


async def read_async(client: openai.AsyncOpenAI) -> object:
    seen: list[object] = []
    try:
        async for chunk in await client.chat.completions.create(stream=True, **ASK):
            seen.append(chunk.model_dump())
    except (openai.OpenAIError, ValueError) as error:
        seen.append((type(error).__name__, str(error)))
    return seen


def view(lab, index: int = 0):
    message = lab.recording.messages[index]
    return view_response(message.endpoint, message.answer, lab.sink.read(message.answer.body_hash))


def play(lab, *pieces: bytes, **options: object):
    """Let a plain and a wrapped client, sync and async, read the same stream; returns the message stored."""
    reply = Scripted(pieces=pieces, **options)
    lab.server.script(reply, reply, reply)
    expected = read(lab.client(wrapped=False))
    client = lab.client()
    assert lab.live(lambda: read(client)) == expected
    (message,) = lab.recording.messages
    assert lab.replay(lambda: read(client), lab.sink.recording(message.run_id)) == expected

    async def main() -> object:
        async with wrap(openai.AsyncOpenAI(base_url=lab.server.url, api_key="k", max_retries=0)) as parallel:
            return await read_async(parallel)

    assert lab.live(lambda: asyncio.run(main())) == expected
    (same,) = lab.recording.messages
    assert (same.status, same.answer.body_hash) == (message.status, message.answer.body_hash)
    assert lab.replay(lambda: asyncio.run(main())) == expected
    return message


FILTER = {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}


@pytest.mark.parametrize(
    ("chunks", "total"),
    [
        ([FILTER, delta("Hei"), delta(finish="stop"), {"id": "r1", "choices": [], "usage": usage(11)}], 11),
        ([delta("Hei"), delta(finish="stop", usage=usage(11)), {"choices": [], "usage": None}], 11),
        ([delta("He", usage=usage(3)), delta("i", usage=usage(7)), delta(finish="stop", usage=usage(11))], 11),
        ([delta("Hei"), delta(finish="stop")], None),
    ],
    ids="abcd",
)
def test_c001_chunks_that_carry_no_choices(lab, chunks, total):
    message = play(lab, *map(event, chunks), DONE)
    assert message.usage.total == total
    assert (message.status, message.model_served, view(lab).text) == ("ok", "m-1", "Hei")
    assert b"prompt_filter_results" in lab.sink.read(message.answer.body_hash) or chunks[0] is not FILTER


def test_c002_tool_call_fragments_of_two_calls(lab):
    def fragment(index: int, arguments: str, **more: object) -> dict[str, object]:
        call = {"index": index, "function": {"arguments": arguments, **more}}
        return {"id": "r", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    texts = [(0, ""), (1, ""), (1, '{"city":'), (0, '{"to":"Os'), (0, 'lo"}'), (1, '"Bergen"}')]
    play(lab, *(event(fragment(index, text)) for index, text in texts), DONE)
    assert [call.arguments for call in view(lab).tool_calls] == ['{"to":"Oslo"}', '{"city":"Bergen"}']


def test_c003_two_choices_in_one_stream(lab):
    def piece(index: int, text: str, finish: str | None = None) -> dict[str, object]:
        return {"index": index, "delta": {"content": text}, "finish_reason": finish}

    message = play(
        lab,
        event({"id": "r", "choices": [piece(0, "sun"), piece(1, "rain")]}),
        event({"id": "r", "choices": [piece(1, "y", "stop")]}),
        event({"id": "r", "choices": [piece(0, "ny", "length")]}),
        DONE,
    )
    assert [choice.text for choice in view(lab).choices] == ["sunny", "rainy"]
    assert message.finish_reasons == ("length", "stop")


GOOD = event(delta("Hei", finish="stop"))


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
def test_c004_lines_that_are_not_data(lab, pieces):
    """Where the client itself raises, the wrapped one raises the same, and what came is stored."""
    message = play(lab, *pieces)
    body = lab.sink.read(message.answer.body_hash)
    assert b"".join(pieces).startswith(body)
    if GOOD in body:
        assert view(lab).text == "Hei"


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 200), max_size=6))
def test_c005_bytes_cut_anywhere_pass_and_replay_exactly(lab, places):
    text = "価格は€5 ✅ a\u2028b\u0085c"
    whole = event({"choices": [{"index": 0, "delta": {"content": text}}]}) + DONE
    edges = [0, *sorted({place % len(whole) for place in places} - {0}), len(whole)]
    pieces = [whole[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    lab.server.script(Scripted(pieces=pieces, pause=0.001))
    with wrap(httpx2.Client(verify=CONTEXT)) as client:

        def chunks() -> list[bytes]:
            with client.stream("POST", f"{lab.server.url}/chat/completions", json={**ASK, "stream": True}) as reply:
                return list(reply.iter_raw())

        live = lab.live(chunks)
        assert b"".join(live) == whole
        assert view(lab).text == text
        assert lab.replay(chunks) == live


@pytest.mark.parametrize("status", [200, 429])
def test_c006_compressed_answers(lab, status):
    body = {"choices": [{"index": 0, "message": {"content": "Hei"}, "finish_reason": "stop"}], "usage": usage(11)}
    if status == 429:
        body = {"error": {"message": "slow down"}}
    lab.server.script(Scripted(status=status, body=body, gzip=True))
    client = lab.client()

    def ask() -> tuple[object, ...]:
        try:
            reply = client.chat.completions.with_raw_response.create(**ASK)
        except openai.RateLimitError as error:
            return str(error), error.response.content, error.response.headers["content-encoding"]
        return reply.content, reply.headers["content-encoding"], reply.headers["content-length"]

    live = lab.live(ask)
    (message,) = lab.recording.messages
    assert lab.replay(ask, lab.sink.recording(message.run_id)) == live
    assert lab.sink.read(message.answer.body_hash)[:2] == b"\x1f\x8b"
    assert (message.usage.total, message.status) == ((11, "ok") if status == 200 else (None, "error"))
    assert "slow down" in str(message.error) or status == 200


def test_c006_a_compressed_stream(lab):
    message = play(lab, GOOD, event({"choices": [], "usage": usage(11)}), DONE, gzip=True)
    assert (message.usage.total, view(lab).text) == (11, "Hei")


@pytest.mark.parametrize(
    ("status", "kind", "body", "says"),
    [
        (502, "text/html", b"<html><title>Bad Gateway</title></html>", "Bad Gateway"),
        (200, "text/html", b"<html>Please sign in</html>", "Please sign in"),
        (503, "text/plain", b"", "empty body"),
        (200, "application/json", b"null", "null"),
        (400, "application/json", b'{"detail":"no such field"}', "no such field"),
    ],
)
def test_c007_answers_that_are_not_json(lab, status, kind, body, says):
    reply = Scripted(status=status, body=body, content_type=kind)
    lab.server.script(reply, reply)

    def ask(client: openai.OpenAI) -> object:
        try:
            got = client.chat.completions.with_raw_response.create(**ASK)
        except openai.APIStatusError as error:
            return type(error), str(error), error.response.content, error.response.headers["content-type"]
        return got.status_code, got.content, got.headers["content-type"]

    expected = ask(lab.client(wrapped=False))
    client = lab.client()
    assert lab.live(lambda: ask(client)) == expected
    (message,) = lab.recording.messages
    assert lab.replay(lambda: ask(client)) == expected
    assert message.status == "error"
    assert str(status) in str(message.error)
    assert says in str(message.error)


def test_the_first_token_is_not_held_back(lab):
    """The server sends the second piece only once the caller has seen the first one."""
    seen = threading.Event()

    class Waiting(list):
        def __iter__(self):
            yield event(delta("He"))
            assert seen.wait(5)
            yield event(delta("i", finish="stop"))
            yield DONE

    lab.server.script(Scripted(pieces=Waiting()))
    client = lab.client()

    def work() -> list[object]:
        texts = []
        for chunk in client.chat.completions.create(stream=True, **ASK):
            texts.append(chunk.choices[0].delta.content)
            seen.set()
        return texts

    assert lab.live(work) == ["He", "i"]
    assert lab.recording.messages[0].first_chunk_ms is not None


def test_what_a_stalled_stream_has_brought_is_written_meanwhile(lab):
    """The server goes on only once the first piece is in the sink: a killed process would lose nothing of it."""

    class Stalling(list):
        def __iter__(self):
            yield event(delta("He"))
            for _ in range(2000):
                if lab.sink.chunks:
                    break
                threading.Event().wait(0.005)
            yield event(delta("i", finish="stop"))
            yield DONE

    lab.server.script(Scripted(pieces=Stalling()))
    client = lab.client()
    lab.live(lambda: read(client))
    (message,) = lab.recording.messages
    first = lab.sink.chunks[0]
    assert (first.message_id, first.index, first.data) == (message.id, 0, event(delta("He")))
