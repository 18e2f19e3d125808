"""What happens in a bare thread, which knows no run, does not happen behind the back of a replay."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import harness
from harness.errors import GoldforkStop, RecordingMissing
from harness.pipeline import now, step, tool, workflow
from harness.replay import live_run, replay_run


class Sent(list):
    __goldfork_opaque__ = True


SENT = Sent()


@tool(determinism="side-effect")
def send(text):
    SENT.append(text)
    return "sent"


@step
def pooled(texts):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(send, texts))


@step
async def in_executor(texts):
    loop = asyncio.get_running_loop()
    return [await loop.run_in_executor(None, send, text) for text in texts]


@workflow("threads")
def plain(texts):
    return pooled(texts)


@workflow("executor")
async def asynchronous(texts):
    return await in_executor(texts)


@workflow("carried")
def carried(texts):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(harness.carry(send), texts))


@pytest.fixture(autouse=True)
def nothing_sent():
    SENT.clear()


@pytest.mark.parametrize("run", [plain, asynchronous])
def test_a_side_effect_in_a_bare_thread_stays_undone_in_a_replay_and_is_named(run):
    parent = live_run(run, {"texts": ["a", "b"]}, dry=False).run
    assert sorted(SENT) == ["a", "b"]
    SENT.clear()
    outcome = replay_run(parent, target=run)
    assert SENT == []
    assert outcome.status == "missing"
    assert "tool 'send' is called in a thread that does not know its run" in outcome.misses[0]
    assert "harness.carry" in outcome.misses[0]


@pytest.mark.parametrize("run", [plain, asynchronous])
def test_nor_is_it_done_in_a_dry_run(run):
    outcome = live_run(run, {"texts": ["a"]})
    assert SENT == []
    assert outcome.status == "missing"


def test_carried_it_belongs_to_its_run_and_is_answered():
    parent = live_run(carried, {"texts": ["a", "b"]}, dry=False).run
    assert [record.name for record in parent.steps] == ["carried", "send", "send"]
    SENT.clear()
    outcome = replay_run(parent, target=carried)
    assert SENT == []
    assert outcome.status == "ok"
    assert outcome.run.run.output_hash == parent.run.output_hash


@pytest.mark.parametrize("what", [lambda: send("x"), lambda: pooled([]), now], ids=["tool", "step", "volatile"])
def test_whatever_is_recorded_stops_in_a_lost_thread(what):
    caught = []

    def lost():
        try:
            what()
        except GoldforkStop as error:
            caught.append(error)

    @workflow("lost")
    def run():
        thread = threading.Thread(target=lost)
        thread.start()
        thread.join()
        return "done"

    outcome = live_run(run, {})
    assert outcome.status == "missing"
    assert [type(error) for error in caught] == [RecordingMissing]
    assert SENT == []
