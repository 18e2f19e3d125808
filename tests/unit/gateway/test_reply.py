"""What is written while a body passes, wherever it is cut and whenever it is flushed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gateway._live import LiveCall
from harness.gateway._outgoing import Outgoing
from harness.gateway._secrets import Credentials
from harness.session import Mode, RunPlan, call_frame, planned
from harness.testing import MemorySink

SECRET = "sk-canary-0123456789"
SSE = (("content-type", "text/event-stream"),)
JSON = (("content-type", "application/json"),)


def event(data: object) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def piece(text: str, finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


BODY = piece(f"€5 key {SECRET} ✅") + piece("", "stop") + b"data: [DONE]\n\n"


def reply_in(sink: MemorySink, headers: tuple[tuple[str, str], ...], *, secret: bool = True):
    """A reply about to arrive, in a run that writes to the sink."""
    outgoing = Outgoing(
        method="POST",
        path="/v1/chat/completions",
        body=b'{"model":"m","messages":[]}',
        stored=b'{"model":"m","messages":[]}',
        content_type="application/json",
        query="",
        headers=(),
        provider="host:1",
        credentials=Credentials.of([("authorization", f"Bearer {SECRET}")] if secret else [], ""),
    )
    with planned(RunPlan(mode=Mode.LIVE, sink=sink)):
        call = LiveCall(call_frame(), outgoing, outgoing.keys(()), 0)
    return call.answered(200, headers)


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[a:b] for a, b in zip(edges, edges[1:], strict=False) if a < b]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10_000), max_size=12), st.sets(st.integers(0, 12)))
def test_a_stream_passes_unchanged_and_the_record_holds_its_boundaries(places: list[int], ticks: set[int]):
    sink = MemorySink()
    reply = reply_in(sink, SSE)
    chunks, handed = cut(BODY, places), []
    for index, chunk in enumerate(chunks):
        out, _ = reply.take(chunk)
        handed.append(out)
        if index in ticks:
            reply.tick()
    reply.end()
    message = sink.messages[-1]
    stored = sink.read(message.answer.body_hash)
    ends = [end for end, _ in message.answer.chunks]
    assert handed == chunks
    assert stored == BODY.replace(SECRET.encode(), b"*" * len(SECRET))
    assert [stored[a:b] for a, b in zip([0, *ends], ends, strict=False)] == cut(stored, places)
    assert message.status == "ok"
    assert SECRET.encode() not in sink.dump()
    flushed = b"".join(chunk.data for chunk in sink.chunks)
    assert stored.startswith(flushed)
    assert [chunk.index for chunk in sink.chunks] == list(range(len(sink.chunks)))


def test_every_byte_by_itself_with_a_flush_after_each():
    sink = MemorySink()
    reply = reply_in(sink, SSE)
    for at in range(len(BODY)):
        reply.take(BODY[at : at + 1])
        reply.tick()
    flushed = b"".join(chunk.data for chunk in sink.chunks)
    assert SECRET.encode() not in flushed
    assert b"*" * len(SECRET) in flushed


@pytest.mark.parametrize("last", [b"data: [DONE]\n\n", event({"error": {"message": "no"}})])
def test_the_last_bytes_of_a_stream_wait_for_the_commit(last: bytes):
    sink = MemorySink()
    reply = reply_in(sink, SSE)
    assert reply.take(piece("Hei", "stop")) == (piece("Hei", "stop"), None)
    assert sink.messages[-1].status == "running"
    out, commit = reply.take(last)
    assert out == last
    assert commit is not None
    assert commit.done()
    assert sink.messages[-1].status != "running"
    assert reply.end() == (b"", None)


def test_bytes_after_the_end_marker_are_written_too():
    sink = MemorySink()
    reply = reply_in(sink, SSE)
    reply.take(BODY)
    reply.take(b": bye\n\n")
    reply.end()
    (message,) = sink.messages
    assert len(message.exchanges) == 1
    assert sink.read(message.answer.body_hash).endswith(b": bye\n\n")


def test_a_plain_body_is_one_chunk_behind_until_it_is_stored():
    sink = MemorySink()
    reply = reply_in(sink, JSON)
    assert reply.take(b'{"choices":[{"index":0,') == (b"", None)
    assert reply.take(b'"message":{"content":"Hei"}}]}') == (b'{"choices":[{"index":0,', None)
    assert sink.messages[-1].status == "running"
    out, commit = reply.end()
    assert out == b'"message":{"content":"Hei"}}]}'
    assert commit is not None
    assert sink.messages[-1].status == "ok"


def test_a_caller_that_stops_and_one_that_is_gone():
    sink = MemorySink()
    reply = reply_in(sink, SSE)
    reply.take(piece("He"))
    reply.closed()
    reply.closed()
    assert sink.messages[-1].status == "interrupted"
    assert sink.read(sink.messages[-1].answer.body_hash) == piece("He")

    class Stream:
        pass

    stream = Stream()
    other = reply_in(sink, SSE)
    other.owned_by(stream)
    other.take(piece("He"))
    other.tick()
    assert sink.messages[-1].status == "running"
    del stream
    other.tick()
    assert sink.messages[-1].status == "interrupted"


def test_a_stream_that_just_ends_is_no_answer():
    sink = MemorySink()
    reply = reply_in(sink, SSE)
    reply.take(piece("He"))
    reply.end()
    assert sink.messages[-1].status == "error"
    assert "ended before" in str(sink.messages[-1].error)


def test_a_transport_error_in_the_middle():
    sink = MemorySink()
    reply = reply_in(sink, SSE)
    reply.take(piece("He"))
    reply.broken(OSError(f"lost {SECRET}"))
    message = sink.messages[-1]
    assert message.status == "error"
    assert message.answer.error == f"OSError: lost {'*' * len(SECRET)}"
    assert sink.read(message.answer.body_hash) == piece("He")
