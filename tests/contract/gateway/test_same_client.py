"""C-009: a wrapped client behaves like the client, live and in replay, sync and async."""

import asyncio
import gc
import json

import httpx
import httpx2
import openai
import pytest
from pydantic import BaseModel

from harness.gateway import wrap
from harness.testing import MemorySink, Scripted, chat_answer, chat_events

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT = '{"city": "Oslo"}'


class Place(BaseModel):
    city: str


def answer(**message):
    made = chat_answer(TEXT)
    made["choices"][0]["message"].update(message)
    return made


def truncated():
    made = chat_answer('{"ci')
    made["choices"][0]["finish_reason"] = "length"
    return made


def events():
    return Scripted(pieces=list(chat_events(TEXT, usage=True)))


def dump(value):
    return (type(value).__name__, value.model_dump() if isinstance(value, BaseModel) else value)


def create(client):
    reply = client.chat.completions.create(**ASK)
    return dump(reply), reply._request_id


def read_all(client):
    stream = client.chat.completions.create(stream=True, **ASK)
    return type(stream).__name__, [dump(chunk) for chunk in stream]


def break_early(client):
    stream = client.chat.completions.create(stream=True, **ASK)
    for chunk in stream:
        first = dump(chunk)
        break
    stream.close()
    return first


def as_context(client):
    with client.chat.completions.create(stream=True, **ASK) as stream:
        return [dump(chunk) for chunk in stream]


def helper(client):
    with client.chat.completions.stream(response_format=Place, **ASK) as stream:
        kinds = [event.type for event in stream]
        return kinds, stream.get_final_completion().choices[0].message.parsed


def raw(client):
    reply = client.chat.completions.with_raw_response.create(**ASK)
    headers = {name: value for name, value in reply.headers.items() if name != "date"}
    return type(reply).__name__, reply.status_code, reply.content, headers, dump(reply.parse()), reply.http_version


def raw_stream(client):
    with client.chat.completions.with_streaming_response.create(stream=True, **ASK) as reply:
        return reply.status_code, b"".join(reply.iter_bytes())


def streaming_lines(client):
    with client.chat.completions.with_streaming_response.create(**ASK) as reply:
        return list(reply.iter_lines())


def parse(client):
    message = client.chat.completions.parse(response_format=Place, **ASK).choices[0].message
    return type(message).__name__, message.parsed, message.content, message.refusal


def with_options(client):
    return create(client.with_options(timeout=11, max_retries=1))


def dropped(client):
    stream = client.chat.completions.create(stream=True, **ASK)
    first = dump(next(iter(stream)))
    del stream
    gc.collect()
    return first


def failing(client):
    try:
        client.chat.completions.create(**ASK)
    except openai.BadRequestError as error:
        return str(error), error.body, error.status_code, error.request_id
    return None


def responses(client):
    return dump(client.responses.create(model="m", input="hi"))


def responses_stream(client):
    return [dump(event) for event in client.responses.create(model="m", input="hi", stream=True)]


def embeddings(client):
    return dump(client.embeddings.create(model="e", input=["a", "b"]))


def legacy(client):
    return dump(client.completions.create(model="m", prompt="hi"))


BAD = Scripted(status=400, body={"error": {"message": "bad", "code": "x"}})
WAYS = [
    (create, answer(), "ok"),
    (read_all, events(), "ok"),
    (break_early, events(), "interrupted"),
    (as_context, events(), "ok"),
    (helper, events(), "ok"),
    (raw, answer(), "ok"),
    (raw_stream, events(), "ok"),
    (streaming_lines, answer(), "ok"),
    (parse, truncated(), "ok"),
    (parse, answer(content=None, refusal="no"), "ok"),
    (parse, answer(), "ok"),
    (with_options, answer(), "ok"),
    (failing, BAD, "error"),
    (responses, "Hei", "ok"),
    (responses_stream, "Hei du", "ok"),
    (embeddings, "", "ok"),
    (legacy, "Hei", "ok"),
]
IDS = [f"{way.__name__}-{index}" for index, (way, _, _) in enumerate(WAYS)]


def outcome(way, client):
    """What a way gives, an exception included."""
    try:
        return way(client)
    except openai.OpenAIError as error:
        return type(error).__name__, str(error)


def plainly(way, reply, lab):
    """Result of the plain client and what it sent; asked first of a server that numbers its answers."""
    lab.server.script(reply)
    number = lab.server.calls
    result = outcome(way, lab.client(wrapped=False))
    return result, sent(lab.server.requests[number])


def sent(request):
    return request.path, request.body, {name: value for name, value in request.headers.items() if name != "date"}


def renumbered(result):
    """Results without the number that the scripted server gives each of its own answers."""
    return json.loads(
        json.dumps(result, default=repr).replace("_1", "_0").replace("-1", "-0").replace("00001", "00000")
    )


@pytest.mark.parametrize(("way", "reply", "status"), WAYS, ids=IDS)
def test_c009_recorded_and_replayed_like_plain(lab, way, reply, status):
    expected, wire = plainly(way, reply, lab)
    lab.server.script(reply)
    client = lab.client()
    live = lab.live(lambda: outcome(way, client))
    assert renumbered(live) == renumbered(expected) or way is embeddings
    assert sent(lab.server.requests[-1]) == wire
    (message,) = lab.recording.messages
    assert message.status == status
    assert lab.replay(lambda: outcome(way, client)) == live
    (again,) = lab.runs[0].messages
    assert (again.cache_state, again.replay_of, again.status) == ("recorded", message.id, status)


@pytest.mark.parametrize(("way", "reply", "status"), WAYS, ids=IDS)
def test_c009_a_recorder_fault_never_reaches_the_caller(lab, way, reply, status):
    expected, _ = plainly(way, reply, lab)
    lab.server.script(reply)
    client = lab.client()
    lab.sink = MemorySink(fail=OSError("disk full"))
    with pytest.warns(RuntimeWarning, match="cannot be recorded"):
        live = lab.live(lambda: outcome(way, client))
    assert renumbered(live) == renumbered(expected) or way is embeddings


def test_c009_a_dropped_stream_is_recorded_as_interrupted(lab):
    lab.server.script(events())
    client = lab.client()
    lab.live(lambda: dropped(client))
    (message,) = lab.recording.messages
    assert message.status == "interrupted"
    assert b'"role"' in lab.sink.read(message.answer.body_hash)


ASYNC_WAYS = ["create", "stream", "break", "helper", "raw", "responses"]


async def run_async(client, way):
    chat = client.chat.completions
    if way == "create":
        return dump(await chat.create(**ASK))
    if way == "stream":
        return [dump(chunk) async for chunk in await chat.create(stream=True, **ASK)]
    if way == "break":
        stream = await chat.create(stream=True, **ASK)
        async for chunk in stream:
            first = dump(chunk)
            break
        await stream.close()
        return first
    if way == "helper":
        async with chat.stream(response_format=Place, **ASK) as stream:
            return [event.type async for event in stream]
    if way == "raw":
        reply = await chat.with_raw_response.create(**ASK)
        return reply.content, reply.headers["x-request-id"]
    return [dump(event) async for event in await client.responses.create(model="m", input="hi", stream=True)]


@pytest.mark.parametrize("way", ASYNC_WAYS)
def test_c009_async_clients_too(lab, way):
    reply = {"create": answer(), "raw": answer(), "responses": "Hei du"}.get(way, events())

    async def main(wrapped):
        async with lab.client(kind=openai.AsyncOpenAI, wrapped=False) as plain:
            if not wrapped:
                return await run_async(plain, way)
            async with wrap(plain) as client:
                return await run_async(client, way)

    lab.server.script(reply)
    expected = asyncio.run(main(wrapped=False))
    lab.server.script(reply)
    live = lab.live(lambda: asyncio.run(main(wrapped=True)))
    assert renumbered(live) == renumbered(expected)
    assert len(lab.recording.messages) == 1
    assert lab.replay(lambda: asyncio.run(main(wrapped=True))) == live


def test_c009_closing_twice_and_the_original_stays_open(lab, asking):
    plain = lab.client(wrapped=False)
    client = wrap(plain)
    lab.live(lambda: asking(client))
    client.close()
    client.close()
    assert client.is_closed()
    assert not plain.is_closed()
    assert asking(plain).startswith("answer")


def test_the_copy_shares_nothing_mutable(lab):
    plain = lab.client(wrapped=False, default_headers={"x-a": "1"})
    client = wrap(plain)
    assert type(client) is type(plain)
    assert type(client._client) is type(plain._client)
    client._client.headers["x-b"] = "2"
    assert "x-b" not in plain._client.headers
    assert client._client._transport is not plain._client._transport
    assert client._client._transport.inner._pool is not plain._client._transport._pool
    client.close()


def test_the_original_may_be_dropped(lab, asking):
    client = wrap(openai.OpenAI(base_url=lab.server.url, api_key="k", max_retries=0))
    gc.collect()
    assert lab.live(lambda: asking(client)) == lab.replay(lambda: asking(client))
    client.close()


def test_azure_clients(lab, asking):
    options = {"azure_endpoint": f"http://127.0.0.1:{lab.server.port}", "api_version": "2024-10-21", "api_key": "k"}
    with wrap(openai.AzureOpenAI(max_retries=0, **options)) as client:
        live = lab.live(lambda: asking(client))
        (message,) = lab.recording.messages
        assert lab.replay(lambda: asking(client)) == live
    assert "/deployments/m/" in lab.server.requests[-1].path
    assert (message.status, message.endpoint) == ("ok", "/chat/completions")


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_bare_http_clients_and_sdks_on_them(lab, asking, library):
    with wrap(library.Client(base_url=lab.server.url)) as client:

        def post():
            reply = client.post("/chat/completions", json=ASK)
            return type(reply), reply.json()

        live = lab.live(post)
        assert live[0] is library.Response
        assert lab.replay(post) == live
    with library.Client() as inner, wrap(openai.OpenAI(base_url=lab.server.url, api_key="k", http_client=inner)) as sdk:
        assert lab.live(lambda: asking(sdk)) == lab.replay(lambda: asking(sdk))


def test_any_object_that_keeps_an_http_client(lab):
    class Sdk:
        def __init__(self):
            self._client = httpx2.Client(base_url=lab.server.url)
            self.chat = Chat(self)
            self.options = {"a": 1}

    class Chat:
        def __init__(self, client):
            self._client = client

    plain = Sdk()
    made = wrap(plain)
    assert isinstance(made, Sdk)
    assert made._client is not plain._client
    assert made.options == plain.options
    assert made.options is not plain.options
    assert not hasattr(made, "chat")
    for sdk in (plain, made):
        sdk._client.close()


def test_a_transport_of_the_users_own(lab, asking):
    class Custom(httpx2.BaseTransport):
        def handle_request(self, request):
            return httpx2.Response(200, json=chat_answer("from the transport"))

    with wrap(
        openai.OpenAI(api_key="k", base_url="http://127.0.0.1:9/v1", http_client=httpx2.Client(transport=Custom()))
    ) as client:
        assert lab.live(lambda: asking(client)) == "from the transport"
        assert lab.replay(lambda: asking(client)) == "from the transport"


def test_one_transport_for_sync_and_async_clients(lab):
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=chat_answer("from the mock")))

    async def main():
        async with wrap(httpx2.AsyncClient(transport=transport)) as client:
            return (await client.post("http://host/v1/chat/completions", json=ASK)).json()

    live = lab.live(lambda: asyncio.run(main()))
    assert lab.replay(lambda: asyncio.run(main())) == live
    with wrap(httpx2.Client(transport=transport)) as client:
        assert lab.replay(lambda: client.post("http://other/v1/chat/completions", json=ASK)).json() == live


def test_a_subclass_with_another_signature_and_attributes_of_its_own(lab, asking):
    class Ours(openai.OpenAI):
        def __init__(self, team):
            super().__init__(base_url=lab.server.url, api_key="k", max_retries=0)
            self.team = team
            self.tags = ["a"]

    plain = Ours("blue")
    with wrap(plain) as client:
        assert (type(client), client.team, client.tags) == (Ours, "blue", ["a"])
        assert client.tags is not plain.tags
        assert client.chat._client is client
        assert lab.live(lambda: asking(client)) == lab.replay(lambda: asking(client))
    plain.close()
