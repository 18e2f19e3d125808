"""Trials run at once up to a bound, and one failure ends the rest."""

import asyncio
import contextvars
import gc
import threading

import pytest

from harness.experiment import LocalExecutor
from harness.experiment._executor import in_thread


async def collect(executor, work, jobs):
    return [result async for result in executor.map(work, jobs)]


def test_every_job_is_done_and_never_more_than_the_bound_at_once():
    running, most = 0, 0

    async def work(job):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return job

    done = asyncio.run(collect(LocalExecutor(3), work, range(20)))
    assert sorted(done) == list(range(20))
    assert most == 3


def test_the_first_failure_cancels_what_runs():
    cancelled = []

    async def work(job):
        if job == "bad":
            raise ValueError("bad job")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(job)
            raise

    async def main():
        with pytest.raises(ValueError, match="bad job"):
            await collect(LocalExecutor(4), work, ["a", "b", "bad"])
        await asyncio.sleep(0)

    asyncio.run(main())
    assert sorted(cancelled) == ["a", "b"]


def test_several_failures_at_once_are_one_failure(caplog):
    async def work(job):
        raise ValueError(job)

    async def main():
        with pytest.raises(ValueError, match=r"^[abc]$"):
            await collect(LocalExecutor(3), work, ["a", "b", "c"])

    asyncio.run(main())
    gc.collect()
    assert caplog.records == []


def test_a_thread_carries_the_context_and_its_exception():
    seen = contextvars.ContextVar("seen", default="")

    class Stop(BaseException):
        pass

    def raises():
        raise Stop

    async def main():
        seen.set("here")
        assert await in_thread(lambda: (seen.get(), threading.current_thread().daemon)) == ("here", True)
        with pytest.raises(Stop):
            await in_thread(raises)

    asyncio.run(main())


def test_a_hanging_thread_can_be_left_behind():
    release = threading.Event()

    async def main():
        task = asyncio.ensure_future(in_thread(release.wait))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    release.set()
