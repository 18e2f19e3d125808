"""``install``: clients that cannot be reached."""

import asyncio

import httpx
import httpx2
import openai
import pytest

from harness.errors import RecordingMissing
from harness.gateway import install

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_every_client_is_tapped_while_the_block_runs(lab, library):
    before = library.HTTPTransport.handle_request, library.AsyncHTTPTransport.handle_async_request

    async def parallel():
        async with library.AsyncClient() as client:
            return (await client.post(f"{lab.server.url}/chat/completions", json=ASK)).json()

    def work():
        with library.Client() as client:
            return client.post(f"{lab.server.url}/chat/completions", json=ASK).json(), asyncio.run(parallel())

    with install():
        live = lab.live(work)
        assert lab.replay(work) == live
        with pytest.raises(RecordingMissing):
            lab.replay(lambda: (work(), work()))
    assert (library.HTTPTransport.handle_request, library.AsyncHTTPTransport.handle_async_request) == before
    assert len(lab.recording.messages) == 2


def test_a_wrapped_client_inside_is_recorded_once(lab, asking):
    with install(), install():
        client = lab.client()
        live = lab.live(lambda: asking(client))
        assert len(lab.recording.messages) == 1
        assert lab.replay(lambda: asking(client)) == live
    assert httpx2.HTTPTransport.handle_request.__module__.startswith("httpx2")


def test_other_traffic_passes_even_in_replay(lab):
    lab.server.script({"weather": "rain"})
    with install(), httpx2.Client() as client:
        lab.live(lambda: client.post(f"{lab.server.url}/chat/completions", json=ASK))
        recording = lab.recording
        before = lab.server.calls
        lab.server.script({"weather": "rain"})
        got = lab.live(lambda: client.post(f"{lab.server.url}/weather", json={}).json())
    assert got == {"weather": "rain"}
    assert lab.server.calls == before + 1
    assert len(recording.messages) == 1


def test_hosts_of_the_settings_are_tapped_whole(lab, monkeypatch):
    monkeypatch.setenv("GOLDFORK_HOSTS", f'["127.0.0.1:{lab.server.port}"]')
    lab.server.script({"ranked": [2, 1]})
    with install(), httpx2.Client() as client:

        def rank():
            return client.post(f"{lab.server.url}/rerank", json={"q": "x"}).json()

        assert lab.live(rank) == {"ranked": [2, 1]}
        (message,) = lab.recording.messages
        assert (message.endpoint, message.status) == ("/rerank", "ok")
        assert lab.replay(rank) == {"ranked": [2, 1]}


def test_telemetry_is_never_answered_nor_recorded(lab):
    with install(), httpx2.Client() as client:
        lab.live(lambda: client.post(f"{lab.server.url}/chat/completions", json=ASK))
        with pytest.raises(httpx2.ConnectError):
            lab.replay(lambda: client.post("http://langfuse.invalid/v1/chat/completions", json=ASK))


def test_an_sdk_made_inside(lab, asking):
    def work():
        with openai.OpenAI(base_url=lab.server.url, api_key="k", max_retries=0) as client:
            return asking(client)

    with install():
        live = lab.live(work)
        assert lab.replay(work) == live
