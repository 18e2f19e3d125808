"""C-010: a call's own credential is in no byte that is written."""

import base64
import gzip
import json
import ssl

import httpx2
import openai
import pytest

from harness.gateway import wrap
from harness.testing import MemorySink, Scripted

CONTEXT = ssl.create_default_context()
MARKS = {
    "header": "MARK-A1-canary",
    "x-api-key": "MARK-A2-canary",
    "cookie": "MARK-A3-canary",
    "query": "MARK-Q1-canary",
    "password": "MARK-U1-canary",
    "environment": "MARK-E1-canary",
    "set-cookie": "MARK-C1-canary",
}
ECHO = " ".join(
    f"{name} {value}" for name, value in MARKS.items() if name not in {"environment", "set-cookie", "password"}
)
ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def traces(sink: MemorySink) -> list[str]:
    """Which marks occur in anything written: plain, in base64, or inside gzip."""
    written = sink.dump()
    for blob in sink.blobs.values():
        if blob[:2] == b"\x1f\x8b":
            written += gzip.decompress(blob)
    return [
        name
        for name, value in MARKS.items()
        if value.encode() in written or base64.b64encode(value.encode()).rstrip(b"=") in written
    ]


def call(lab, monkeypatch, **options):
    monkeypatch.setenv("OTHER_SERVICE_TOKEN", MARKS["environment"])
    headers = {"x-api-key": MARKS["x-api-key"], "cookie": f"s={MARKS['cookie']}"}
    client = wrap(
        openai.OpenAI(
            base_url=lab.server.url,
            api_key=MARKS["header"],
            default_headers=headers,
            default_query={"key": MARKS["query"]},
            max_retries=0,
        )
    )
    try:
        return lab.live(lambda: ask(client, **options))
    finally:
        client.close()


def ask(client, **options):
    reply = client.chat.completions.create(**ASK, **options)
    if options.get("stream"):
        return "".join(chunk.choices[0].delta.content or "" for chunk in reply)
    return reply.choices[0].message.content


def plain(text: str) -> Scripted:
    body = json.dumps({"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]})
    headers = {"set-cookie": f"sid={MARKS['set-cookie']}", "x-echo": MARKS["header"], "x-request-id": "ok"}
    return Scripted(body=body.encode(), headers=headers)


def pieces(text: str) -> Scripted:
    """A stream that is cut in the middle of everything."""
    whole = b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode()
    whole += b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    return Scripted(pieces=[whole[at : at + 7] for at in range(0, len(whole), 7)])


def test_c010_an_echo_reaches_the_caller_but_not_the_disk(lab, monkeypatch):
    lab.server.script(plain(ECHO))
    assert call(lab, monkeypatch) == ECHO
    assert traces(lab.sink) == []
    headers = dict(lab.recording.messages[0].answer.headers)
    assert headers["x-request-id"] == "ok"
    assert "set-cookie" not in headers


@pytest.mark.parametrize("text", [ECHO, base64.b64encode(MARKS["header"].encode()).decode()], ids=["plain", "base64"])
def test_c010_an_echo_in_a_stream(lab, monkeypatch, text):
    lab.server.script(pieces(text))
    assert call(lab, monkeypatch, stream=True) == text
    assert traces(lab.sink) == []


def test_c010_an_echo_inside_gzip(lab, monkeypatch):
    reply = plain(ECHO)
    lab.server.script(Scripted(body=reply.body, gzip=True))
    assert call(lab, monkeypatch) == ECHO
    assert traces(lab.sink) == []


def test_c010_an_echo_in_an_error(lab, monkeypatch):
    body = {"error": {"message": f"Incorrect key provided: {MARKS['header']}"}}
    lab.server.script(Scripted(status=401, body=body))
    with pytest.raises(openai.AuthenticationError, match=MARKS["header"]):
        call(lab, monkeypatch)
    assert traces(lab.sink) == []
    assert "Incorrect key provided: ***" in str(lab.recording.messages[0].error)


def test_c010_a_transport_error_that_quotes_the_url(lab):
    class Broken(httpx2.BaseTransport):
        def handle_request(self, request):
            raise httpx2.ConnectError(f"cannot reach {request.url}")

    url = f"http://127.0.0.1:1/v1/chat/completions?key={MARKS['query']}"
    with (
        wrap(httpx2.Client(transport=Broken(), verify=CONTEXT)) as client,
        pytest.raises(httpx2.ConnectError, match="MARK-Q1"),
    ):
        lab.live(lambda: client.post(url, json=ASK))
    assert traces(lab.sink) == []
    assert "ConnectError: cannot reach" in str(lab.recording.messages[0].error)


def test_c010_another_persons_key_replays_the_same_file(lab, asking):
    def asked(key):
        client = lab.client(api_key=key)
        return lambda: asking(client, f"my key is {key}")

    live = lab.live(asked("sk-somebody-000001"))
    assert live.endswith("my key is sk-somebody-000001")
    assert lab.replay(asked("sk-another-person-2")).startswith(live.removesuffix("sk-somebody-000001"))
    assert b"somebody" not in lab.sink.dump()


def test_c010_user_info_of_the_url(lab):
    """The HTTP library sends it as Basic authorization, and a server may echo that, or the password alone."""
    pair = f"someone:{MARKS['password']}"
    text = f"{MARKS['password']} {base64.b64encode(pair.encode()).decode()}"
    lab.server.script(plain(text))
    url = f"http://{pair}@127.0.0.1:{lab.server.port}/v1/chat/completions"
    with wrap(httpx2.Client(verify=CONTEXT)) as client:
        reply = lab.live(lambda: client.post(url, json=ASK))
    assert reply.json()["choices"][0]["message"]["content"] == text
    assert "password" not in traces(lab.sink)
    assert base64.b64encode(pair.encode()) not in lab.sink.dump()
    assert lab.recording.messages[0].provider == f"127.0.0.1:{lab.server.port}"
