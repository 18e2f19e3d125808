"""The event loop in which async pipelines run: one for the whole process, as an application has.

Clients that live at module level keep connections that belong to the loop they were opened in. With a loop for each
run, the second run would find them closed.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

_EXIT_S = 5.0
"""Seconds that the end of the process waits for the loop."""


@dataclass(slots=True, eq=False)
class _Work:
    """What one pipeline has started in the loop and is to be ended with it."""

    tasks: weakref.WeakSet[asyncio.Task[Any]] = field(default_factory=weakref.WeakSet)
    generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = field(default_factory=weakref.WeakSet)


_work: ContextVar[_Work | None] = ContextVar("goldfork_work", default=None)
_lock = threading.Lock()
_loops: dict[int, _Loop] = {}
"""By process: a forked child has none of its parent's threads."""


def run_to_end(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in the process's loop and wait; from inside that loop, in one of its own in another thread.

    Tasks and async generators that it leaves behind are ended with it.
    """
    loop = _process_loop()
    if loop.is_here():
        context = copy_context()
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(context.run, asyncio.run, work).result()
    return loop.run(work)


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(_made_task)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="goldfork-loop", daemon=True)
        # Whoever comes first must not be taken for the one all others come from.
        Context().run(self._thread.start)

    def is_here(self) -> bool:
        """Whether the caller is in the loop's own thread, which must not wait for it."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run in the caller's context; an interrupt of the caller ends the work, too."""
        future = asyncio.run_coroutine_threadsafe(_ended(work), self._loop)
        try:
            stopped, result = future.result()
        except BaseException:
            future.cancel()
            raise
        if stopped is not None:
            raise stopped
        return result

    def close(self) -> None:
        """Stop the loop; what is still in it is over."""
        self._closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_EXIT_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closing:
            self._loop.call_soon(_watch_generators)
            # Either of them, raised in a task, leaves the loop of everyone else; its own pipeline is told.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()


def _process_loop() -> _Loop:
    with _lock:
        found = _loops.get(os.getpid())
        if found is None:
            found = _loops[os.getpid()] = _Loop()
            atexit.register(_close, os.getpid())
        return found


def _close(pid: int) -> None:
    loop = _loops.pop(pid, None)
    if loop is not None and pid == os.getpid():
        loop.close()


async def _ended(work: Coroutine[Any, Any, Any]) -> tuple[BaseException | None, Any]:
    """The result of the work, or what would stop the loop, once nothing of it is left in the loop."""
    own = _Work()
    _work.set(own)
    try:
        return None, await work
    except (SystemExit, KeyboardInterrupt) as stop:
        return stop, None
    finally:
        left = [task for task in own.tasks if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.gather(*(one.aclose() for one in list(own.generators)), return_exceptions=True)


def _made_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **options)
    own = _work.get()
    if own is not None:
        own.tasks.add(task)
    return task


def _watch_generators() -> None:
    """Note whose each async generator is, besides what the loop does with it."""
    first, last = sys.get_asyncgen_hooks()

    def noted(generator: AsyncGenerator[Any, Any]) -> None:
        own = _work.get()
        if own is not None:
            own.generators.add(generator)
        if first is not None:
            first(generator)

    sys.set_asyncgen_hooks(noted, last)
