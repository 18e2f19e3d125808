"""Where trials run: one small protocol, so that another engine is one more file."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs jobs and hands results back as they come."""

    def map(self, work: Callable[[Job], Awaitable[Result]], jobs: Iterable[Job]) -> AsyncGenerator[Result, None]:
        """Results in order of completion; the first exception ends everything else."""
        ...


class LocalExecutor:
    """This process's event loop, with a bound on how many jobs run at once."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency

    async def map(self, work: Callable[[Job], Awaitable[Result]], jobs: Iterable[Job]) -> AsyncGenerator[Result, None]:
        """Results in order of completion; the first exception (or leaving the loop) cancels what still runs."""
        waiting = iter(jobs)
        running: set[asyncio.Future[Result]] = set()
        try:
            while True:
                while len(running) < self._concurrency and (job := next(waiting, None)) is not None:
                    running.add(asyncio.ensure_future(work(job)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for finished in done:
                    finished.add_done_callback(_seen)
                for finished in done:
                    yield finished.result()
        finally:
            for left in running:
                left.add_done_callback(_seen)
                left.cancel()


def _seen(job: asyncio.Future[Result]) -> None:
    """Look at a job's failure, so that asyncio does not report it a second time: one failure speaks for all."""
    if not job.cancelled():
        job.exception()


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run blocking work in a thread of its own, in a copy of the caller's context.

    The thread is a daemon: a call that hangs can be abandoned, whereas a pool's threads are joined when the process
    exits. A result that comes after cancellation is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]  # without an error there is a result
        else:
            future.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = context.run(work)
        except BaseException as error:  # noqa: BLE001 - handed over to the awaiting task, not swallowed
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="goldfork-trial", daemon=True).start()
    return await future
