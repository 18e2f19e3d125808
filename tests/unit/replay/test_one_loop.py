"""Async pipelines of one process run in one event loop, as they do in an application."""

import asyncio
import contextvars
import threading

import pytest
from openai import AsyncOpenAI

from harness.errors import RecordingMissing
from harness.gateway import wrap
from harness.pipeline import step, workflow
from harness.replay import fork_run, live_run, replay_run
from harness.testing import ScriptedServer

LOOPS = []


@workflow("looped")
async def looped(n):
    LOOPS.append(asyncio.get_running_loop())
    await asyncio.sleep(0)
    return n


@pytest.fixture(autouse=True)
def no_loops():
    LOOPS.clear()


def test_a_client_of_the_module_serves_every_trial_and_fork():
    with ScriptedServer(rule=lambda seen: f"re: {seen.json['messages'][0]['content']}") as server:
        client = wrap(AsyncOpenAI(base_url=server.url, api_key="sk-0123456789abcdef01234567", max_retries=0))

        @step
        async def ask(text):
            made = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
            return made.choices[0].message.content

        @step
        def mark(n):
            return "one"

        @workflow("asking")
        async def run(n):
            return await asyncio.gather(ask("x"), ask(mark(n)))

        trials = [live_run(run, {"n": 1}) for _ in range(3)]
        fork = fork_run(trials[-1].run, target=run, change="output=two", at="mark")

        @workflow("closing")
        async def close():
            await client.close()

        live_run(close, {})
    assert [(one.error, one.output) for one in trials] == [(None, ["re: x", "re: one"])] * 3
    assert (fork.error, fork.output, fork.counts.provider_calls) == (None, ["re: x", "re: two"], 1)


def test_threads_share_the_loop():
    first = live_run(looped, {"n": 1})
    threads = [threading.Thread(target=replay_run, args=(first.run,), kwargs={"target": looped}) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(LOOPS) == 3
    assert len(set(LOOPS)) == 1


def test_a_run_inside_the_loop_does_not_wait_for_itself():
    @workflow("outer")
    async def outer(n):
        return [await asyncio.sleep(0, n), live_run(looped, {"n": n + 1}).output]

    assert live_run(outer, {"n": 1}).output == [1, 2]


def test_what_a_run_leaves_in_the_loop_ends_with_it():
    ended = []

    async def forever():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("task")

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            ended.append("generator")

    kept = []

    @workflow("leaving")
    async def leaving():
        kept.append(asyncio.create_task(forever()))
        kept.append(numbers())
        await asyncio.sleep(0)
        return await anext(kept[-1])

    assert live_run(leaving, {}).output == 1
    assert sorted(ended) == ["generator", "task"]


def test_the_caller_s_context_is_seen_and_not_changed():
    tenant = contextvars.ContextVar("tenant", default="none")

    @workflow("tenant")
    async def run():
        before = tenant.get()
        tenant.set("eve")
        return before

    tenant.set("ada")
    assert live_run(run, {}).output == "ada"
    assert tenant.get() == "ada"


@pytest.mark.parametrize("stop", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_run_that_ends_the_process_leaves_the_loop_to_the_others(stop):
    @workflow("stopping")
    async def stopping():
        await asyncio.sleep(0)
        raise stop

    with pytest.raises(type(stop)):
        live_run(stopping, {})
    assert live_run(looped, {"n": 1}).output == 1


def test_a_miss_stops_an_async_run():
    parent = live_run(looped, {"n": 1})

    @workflow("looped")
    async def missing(n):
        await asyncio.sleep(0)
        raise RecordingMissing("nothing there")

    again = replay_run(parent.run, target=missing)
    assert again.error == "RecordingMissing: nothing there"
