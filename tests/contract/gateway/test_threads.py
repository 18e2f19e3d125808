"""C-018: calls made in threads and tasks belong to the run that started them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import openai
import pytest

import harness
from harness.errors import RecordingMissing
from harness.gateway import wrap
from harness.session import Frame, branch, entered, start_run


def in_run(name: str) -> Frame:
    return start_run(name)


def test_c018_two_runs_at_once_keep_their_calls(lab, asking):
    client = lab.client()

    def pooled(run: str) -> str:
        with entered(in_run(run)) as frame, ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(copy_context().run, asking, client, f"{run} {index}") for index in range(8)]
            for job in jobs:
                assert run in job.result()
        return frame.run.id

    async def gathered(run: str) -> str:
        async with wrap(openai.AsyncOpenAI(base_url=lab.server.url, api_key="k", max_retries=0)) as parallel:
            with entered(in_run(run)) as frame:

                async def one(index: int) -> None:
                    message = {"role": "user", "content": f"{run} {index}"}
                    await parallel.chat.completions.create(model="m", messages=[message])

                await asyncio.gather(*(one(index) for index in range(8)))
            return frame.run.id

    def both() -> tuple[str, str]:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(copy_context().run, pooled, "run-a")
            second = pool.submit(copy_context().run, lambda: asyncio.run(gathered("run-b")))
            return first.result(), second.result()

    for name, run in zip(("run-a", "run-b"), lab.live(both), strict=True):
        messages = lab.sink.recording(run).messages
        asked = sorted(lab.sink.read(message.request_hash).decode() for message in messages)
        assert len(asked) == 8
        assert all(name in body for body in asked)


def test_c018_a_stream_opened_in_one_task_and_read_in_another(lab):
    async def main() -> str:
        async with wrap(openai.AsyncOpenAI(base_url=lab.server.url, api_key="k", max_retries=0)) as client:
            stream = await client.chat.completions.create(
                model="m", stream=True, messages=[{"role": "user", "content": "hi"}]
            )

            async def read() -> str:
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            return await asyncio.create_task(read())

    live = lab.live(lambda: asyncio.run(main()))
    assert [message.status for message in lab.recording.messages] == ["ok"]
    assert lab.replay(lambda: asyncio.run(main())) == live


def test_c018_a_thread_that_lost_its_run_never_goes_out_in_a_replay(lab, asking):
    client = lab.client()
    lab.live(lambda: asking(client))
    caught: list[BaseException] = []

    def orphan() -> None:
        try:
            asking(client)
        except BaseException as error:
            caught.append(error)

    def work() -> None:
        thread = threading.Thread(target=orphan)
        thread.start()
        thread.join()

    lab.replay(work)
    (error,) = caught
    assert isinstance(error, RecordingMissing)
    with pytest.raises(RecordingMissing, match=r"harness\.carry"):
        raise error


def test_volatile_values_of_parallel_steps_do_not_mix(lab, asking):
    """Which of two parallel steps declares its id first differs from run to run and must not be a change."""
    client = lab.client()

    def work(order: list[str]) -> dict[str, str]:
        ids = {}
        with entered(in_run("parallel")):
            for name in order:
                ids[name] = one_step(name, harness.uuid)
            return {name: one_step(name, lambda name=name: asking(client, f"{name} {ids[name]}")) for name in "ab"}

    def one_step(name: str, inner: Callable[[], object]) -> str:
        with branch(name):
            return str(inner())

    live = lab.live(lambda: work(["a", "b"]))
    assert lab.replay(lambda: work(["b", "a"])) == live
