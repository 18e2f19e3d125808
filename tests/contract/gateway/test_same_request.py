"""C-011: the same request, asked several times."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import openai
import pytest

from harness.errors import RecordingExhausted
from harness.session import branch, call_frame, entered

ANSWERS = ["heads", "tails", "heads"]


def test_c011_three_identical_requests_replay_in_order(lab, asking):
    lab.server.script(*ANSWERS)
    client = lab.client()
    assert lab.live(lambda: [asking(client) for _ in range(3)]) == ANSWERS
    assert lab.replay(lambda: [asking(client) for _ in range(3)]) == ANSWERS


def test_c011_interleaving_with_other_requests_does_not_matter(lab, asking):
    lab.server.script("heads", "other", "tails", "heads")
    client = lab.client()
    lab.live(lambda: [asking(client), asking(client, "else"), asking(client), asking(client)])
    replayed = lab.replay(lambda: [asking(client), asking(client), asking(client, "else"), asking(client)])
    assert replayed == ["heads", "tails", "other", "heads"]


def test_c011_a_fourth_request_says_that_all_three_are_used(lab, asking):
    client = lab.client()
    lab.live(lambda: [asking(client) for _ in range(3)])
    with pytest.raises(RecordingExhausted, match="3 recordings of this request, all used, .* call number 4"):
        lab.replay(lambda: [asking(client) for _ in range(4)])
    assert "call number 4" in lab.runs[0].misses[0]


def test_c011_threads_get_each_answer_once(lab, asking):
    lab.server.script(*ANSWERS)
    client = lab.client()
    lab.live(lambda: [asking(client) for _ in range(3)])

    def parallel() -> list[str]:
        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(copy_context().run, asking, client) for _ in range(3)]
            return [future.result() for future in futures]

    assert sorted(lab.replay(parallel)) == sorted(ANSWERS)


def test_c011_gathered_tasks_get_each_answer_once(lab):
    lab.server.script(*ANSWERS)

    async def one(client: openai.AsyncOpenAI) -> str | None:
        message = {"role": "user", "content": "flip"}
        reply = await client.chat.completions.create(model="m", messages=[message], temperature=1)
        return reply.choices[0].message.content

    async def all_three() -> list[str | None]:
        async with lab.client(kind=openai.AsyncOpenAI) as client:
            return list(await asyncio.gather(*(one(client) for _ in range(3))))

    live = lab.live(lambda: asyncio.run(all_three()))
    assert sorted(live) == sorted(ANSWERS)
    assert sorted(lab.replay(lambda: asyncio.run(all_three()))) == sorted(ANSWERS)


def test_a_branch_tells_equal_parallel_work_apart(lab, asking):
    client = lab.client()

    def branched(order: list[int]) -> dict[int, str]:
        answers = {}
        for name in order:
            with branch(name):
                answers[name] = asking(client)
        return answers

    def in_run(order: list[int]) -> dict[int, str]:
        with entered(call_frame()):
            return branched(order)

    live = lab.live(lambda: in_run([0, 1, 2]))
    assert lab.replay(lambda: in_run([2, 0, 1])) == live
