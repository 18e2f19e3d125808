"""Replays inside a running event loop, and async workflows that leave the loop free."""

import asyncio
import contextvars
import threading
from concurrent.futures import Future

import pytest

from harness.pipeline import step, workflow
from harness.replay import ReplayOptions, fork_run, live_run, replay_run
from harness.session import Mode, RunPlan, planned

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
tenant = contextvars.ContextVar("tenant", default="none")


@step
async def double(x):
    await asyncio.sleep(0)
    return x * 2


@workflow("loop")
async def run(x):
    return [tenant.get(), await double(x)]


def test_an_async_pipeline_is_run_replayed_and_forked_inside_a_loop():
    async def main():
        tenant.set("ada")
        first = live_run(run, {"x": 2}, code_version=CODE)
        again = replay_run(first.run, target=run)
        fork = fork_run(first.run, target=run, change="input:x=5", at="double", options=OPTIONS)
        return first, again, fork

    first, again, fork = asyncio.run(main())
    assert [first.output, again.output, fork.output] == [["ada", 4], ["ada", 4], ["ada", 10]]
    assert again.diff.output_equal
    assert again.counts.steps_run == 1


class HeldSink:
    """Commits only when it is told to, as a store with a full queue does."""

    def __init__(self):
        self.pending = []

    def write(self, *records, blobs=None):
        future = Future()
        self.pending.append(future)
        return future

    def commit(self):
        for future in self.pending:
            if not future.done():
                future.set_result(None)


@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_the_loop_goes_on_while_the_end_of_a_run_is_committed(error):
    sink = HeldSink()
    # Lets a blocked loop fail the test instead of hanging it.
    guard = threading.Timer(5, sink.commit)
    guard.start()

    @workflow("held")
    async def held():
        if error:
            raise error

    async def main():
        with planned(RunPlan(mode=Mode.LIVE, sink=sink)):
            task = asyncio.create_task(held())
            for _ in range(10):
                await asyncio.sleep(0)
            waiting = not task.done() and guard.is_alive()
            sink.commit()
            return waiting, await asyncio.gather(task, return_exceptions=True)

    waiting, result = asyncio.run(main())
    guard.cancel()
    assert waiting
    assert result == [error]
