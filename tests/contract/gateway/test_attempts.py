"""Retries, transport errors, cancellation, and a store that fails."""

import asyncio
import json
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace

import httpx2
import openai
import pytest

from harness.errors import RecordingMissing, StoreError
from harness.gateway import wrap
from harness.session import Change, Frame, Mode, RecordedAnswers, StepHandle, call_frame, entered
from harness.testing import MemorySink, Scripted

BUSY = Scripted(status=429, body={"error": {"message": "slow down"}}, headers={"retry-after-ms": "1"})
ASK = {"model": "m", "messages": [{"role": "user", "content": "flip a coin"}], "temperature": 1}


def test_an_sdks_retries_are_one_message(lab, asking):
    lab.server.script(BUSY, Scripted(status=503, headers={"retry-after-ms": "1"}), "heads", "tails")
    client = lab.client(max_retries=3)
    assert lab.live(lambda: [asking(client), asking(client)]) == ["heads", "tails"]
    first, second = lab.recording.messages
    assert [exchange.status for exchange in first.exchanges] == [429, 503, 200]
    assert (first.status, first.occurrence, second.occurrence, len(second.exchanges)) == ("ok", 0, 1, 1)
    assert lab.replay(lambda: [asking(client), asking(client)]) == ["heads", "tails"]


def test_a_kept_run_holds_a_retried_message_once(lab, asking):
    lab.server.script(BUSY, "heads")
    client = lab.client(max_retries=1)
    lab.live(lambda: asking(client), keep=True)
    (message,) = lab.runs[0].messages
    assert len(message.exchanges) == 2


def test_retries_of_parallel_equal_calls_stay_apart(lab, asking):
    lab.server.script(BUSY, BUSY, BUSY)
    client = lab.client(max_retries=4)

    def parallel() -> list[str]:
        contexts = [copy_context() for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            return [f.result() for f in [pool.submit(context.run, asking, client) for context in contexts]]

    answers = lab.live(parallel)
    messages = lab.recording.messages
    assert len(messages) == 3
    assert sum(len(message.exchanges) for message in messages) == 6
    assert sorted(lab.replay(parallel)) == sorted(answers)


def test_a_final_error_is_served_in_replay_and_asked_again_in_auto(lab, asking):
    lab.server.script(BUSY, BUSY)
    client = lab.client(max_retries=1)

    def ask() -> str:
        try:
            return asking(client)
        except openai.RateLimitError as error:
            return str(error)

    live = lab.live(ask)
    recording = lab.recording
    assert len(recording.messages) == 1
    assert lab.replay(ask, recording) == live
    assert len(lab.runs[0].messages) == 1
    resolver = RecordedAnswers(recording, errors=False)
    assert lab.live(ask, mode=Mode.AUTO, resolver=resolver).startswith("answer")


@pytest.mark.parametrize("kind", [openai.OpenAI, openai.AsyncOpenAI])
def test_a_transport_error_is_raised_again(lab, kind):
    client = lab.client(kind=kind, base_url="http://127.0.0.1:9/v1")

    def ask() -> object:
        try:
            if kind is openai.OpenAI:
                client.chat.completions.create(**ASK)
            else:
                asyncio.run(client.chat.completions.create(**ASK))
        except openai.APIConnectionError as error:
            return type(error), type(error.__cause__), str(error.__cause__)
        return None

    live = lab.live(ask)
    assert live[1] is httpx2.ConnectError
    (message,) = lab.recording.messages
    assert (message.status, message.answer.status) == ("error", None)
    assert lab.replay(ask) == live


def test_a_connection_cut_in_the_middle(lab):
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"He"}}]}\n\n'
    lab.server.script(Scripted(pieces=[piece], cut=True))
    client = lab.client()

    def ask() -> list[str]:
        seen = []
        try:
            for chunk in client.chat.completions.create(stream=True, **ASK):
                seen.append(chunk.choices[0].delta.content)
        except (openai.APIConnectionError, httpx2.TransportError) as error:
            seen.append(type(error).__name__)
        return seen

    live = lab.live(ask)
    assert live[0] == "He"
    assert len(live) == 2
    (message,) = lab.recording.messages
    assert (message.status, lab.sink.read(message.answer.body_hash)) == ("error", piece)
    assert lab.replay(ask) == live


def test_a_cancelled_call_is_interrupted_and_never_served(lab):
    lab.server.script(Scripted(delay=0.3, body="late"))

    async def main(timeout: float) -> object:
        async with wrap(openai.AsyncOpenAI(base_url=lab.server.url, api_key="k", max_retries=0)) as client:
            return await asyncio.wait_for(client.chat.completions.create(**ASK), timeout)

    with pytest.raises(TimeoutError):
        lab.live(lambda: asyncio.run(main(0.05)))
    assert [message.status for message in lab.recording.messages] == ["interrupted"]
    with pytest.raises(RecordingMissing, match="cut off|stopped reading"):
        lab.replay(lambda: asyncio.run(main(5)))


def test_reading_on_where_the_recording_stopped_is_a_miss(lab):
    pieces = [b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % n for n in range(3)]
    lab.server.script(Scripted(pieces=[*pieces, b"data: [DONE]\n\n"], pause=0.01))
    client = lab.client()

    def some(count: int) -> list[str]:
        stream = client.chat.completions.create(stream=True, **ASK)
        seen = [chunk.choices[0].delta.content for _, chunk in zip(range(count), stream, strict=False)]
        stream.close()
        return seen

    assert lab.live(lambda: some(1)) == ["0"]
    assert lab.replay(lambda: some(1)) == ["0"]
    with pytest.raises(RecordingMissing, match="reads on"):
        lab.replay(lambda: some(9))


@pytest.mark.parametrize("stream", [False, True])
def test_a_store_that_fails_raises_with_the_reply_when_asked_to(lab, stream):
    lab.server.script("paid for")
    client = lab.client()
    lab.sink = MemorySink(fail=OSError("disk full"))

    def ask() -> None:
        reply = client.chat.completions.create(stream=stream, **ASK)
        for _ in reply:
            pass

    with pytest.raises(StoreError, match="disk full") as caught:
        lab.live(ask, on_store_error="raise")
    assert b"paid" in caught.value.reply


class Slow(MemorySink):
    """Commits only when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Future[None]] = []
        self.slow = True

    def write(self, *records, blobs=None):
        done = super().write(*records, blobs=blobs)
        if not self.slow:
            return done
        commit: Future[None] = Future()
        self.waiting.append(commit)
        return commit

    def commit(self) -> None:
        self.slow = False
        for commit in self.waiting:
            commit.set_result(None)


def test_an_async_reply_waits_for_its_commit_and_the_loop_runs_on(lab):
    lab.sink = sink = Slow()

    async def main() -> list[str]:
        order = []
        async with wrap(openai.AsyncOpenAI(base_url=lab.server.url, api_key="k", max_retries=0)) as client:

            async def ask() -> None:
                await client.chat.completions.create(**ASK)
                order.append("reply")

            task = asyncio.create_task(ask())
            while not any(message.status == "ok" for message in sink.messages):
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.02)
            order.append("commit")
            sink.commit()
            await task
        return order

    assert lab.live(lambda: asyncio.run(main())) == ["commit", "reply"]


def test_cancelling_while_the_commit_is_awaited_leaves_the_commit_alone(lab):
    lab.sink = sink = Slow()

    async def main() -> None:
        async with wrap(openai.AsyncOpenAI(base_url=lab.server.url, api_key="k", max_retries=0)) as client:
            task = asyncio.create_task(client.chat.completions.create(**ASK))
            while not any(message.status == "ok" for message in sink.messages):
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        sink.commit()

    lab.live(lambda: asyncio.run(main()))
    assert not any(commit.cancelled() for commit in sink.waiting)


def test_a_change_of_model_or_parameter_rewrites_only_that_field(lab, asking):
    client = lab.client()

    def in_step() -> str:
        root = call_frame()
        record = replace(root.step.record, name="draft", scope="", occurrence=1)
        with entered(Frame(root.run, StepHandle(record), "draft")):
            return asking(client, "né")

    lab.live(in_step, change=Change(kind="param", at="draft#1", name="temperature", value=0.25))
    lab.live(in_step, change=Change(kind="model", at="draft#1", value="other"))
    lab.live(in_step, change=Change(kind="param", at="draft#0", name="seed", value=1))
    lab.live(in_step, change=Change(kind="param", at="draft#1", name="seed", value=1))
    bodies = [request.body for request in lab.server.requests]
    assert bodies[0] == bodies[2].replace(b'"temperature":1', b'"temperature":0.25')
    assert bodies[1] == bodies[2].replace(b'"model":"m"', b'"model":"other"')
    assert bodies[3] == bodies[2][:-1] + b',"seed":1}'
    assert json.loads(bodies[2])["messages"][0]["content"] == "né"
    assert [message.model for message in lab.sink.messages] == ["m", "other", "m", "m"]
