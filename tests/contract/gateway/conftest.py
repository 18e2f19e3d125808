"""A scripted provider, and the two halves of every test here: record, then replay."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import openai
import pytest

from harness.gateway import wrap
from harness.record import Recording
from harness.session import Mode, RecordedAnswers, RunPlan, RunState, planned
from harness.testing import MemorySink, ScriptedServer

CONTEXT = ssl.create_default_context()
"""Shared, because making one takes longer than everything else in these tests."""
KEY = "sk-canary-0123456789"


class Lab:
    """Runs a function live or in replay against one server."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.sink = MemorySink()
        self.runs: list[RunState] = []
        self.recorded: list[RunState] = []
        self.open: list[Any] = []

    def client(self, *, wrapped: bool = True, kind: type[Any] = openai.OpenAI, **options: Any) -> Any:
        options = {"base_url": self.server.url, "api_key": KEY, "max_retries": 0, **options}
        if "http_client" not in options:
            http = openai.DefaultHttpxClient if kind is openai.OpenAI else openai.DefaultAsyncHttpxClient
            options["http_client"] = http(verify=CONTEXT)
        made = kind(**options)
        self.open.append(made)
        if wrapped:
            made = wrap(made)
            self.open.append(made)
        return made

    def live(self, work: Callable[[], Any], *, mode: Mode = Mode.LIVE, **plan: Any) -> Any:
        with planned(RunPlan(mode=mode, sink=self.sink, **plan)) as self.runs:
            self.recorded = self.runs
            return work()

    @property
    def recording(self) -> Recording:
        """What the last live run wrote."""
        return self.sink.recording(self.recorded[-1].id)

    def replay(self, work: Callable[[], Any], recording: Recording | None = None, **plan: Any) -> Any:
        """Answer from the recording (the last live run's); no request may reach the server."""
        before, resolver = self.server.calls, RecordedAnswers(recording or self.recording)
        try:
            with planned(
                RunPlan(mode=Mode.REPLAY, sink=MemorySink(), resolver=resolver, keep=True, **plan)
            ) as self.runs:
                return work()
        finally:
            assert self.server.calls == before

    def close(self) -> None:
        for client in self.open:
            closing = client.close()
            if isinstance(closing, Coroutine):
                asyncio.run(closing)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def lab(server: ScriptedServer) -> Iterator[Lab]:
    made = Lab(server)
    yield made
    made.close()


def ask(client: Any, text: str = "flip a coin", **options: Any) -> str:
    options = {"model": "m", "temperature": 1, **options}
    reply = client.chat.completions.create(messages=[{"role": "user", "content": text}], **options)
    return reply.choices[0].message.content


@pytest.fixture
def asking() -> Callable[..., str]:
    return ask
