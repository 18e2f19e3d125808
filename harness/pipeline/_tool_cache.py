"""Before a tool's body: a side effect's intent is on the disk, and a shared result may stand in for the call.

Results of tools that say ``cache=True`` are shared between live runs through the store's ``tool_cache`` table. Who
misses takes a lease of the key; the others wait for its result, and take the lease over when its holder died.

What waits is written as a generator of things to wait for, so that plain and async tools share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from harness.canonical import canonical_json, content_hash
from harness.errors import GoldforkError, StoreError
from harness.pipeline._begin import Begun, arguments_changed, end
from harness.pipeline._codec import NotReusable
from harness.pipeline._snapshot import output_snapshot, restore
from harness.pipeline._tool_answer import ToolSpec
from harness.session import Frame
from harness.store import Store

T = TypeVar("T")
Waits = Generator[Callable[[], Any] | Future[None] | float, Any, T]
"""Yields what is to be done or waited for: a blocking call, a commit, seconds."""

_LEASE = 86_400.0
"""Seconds after which a lease goes in any case; a dead holder is found out long before."""
_SKEW = timedelta(minutes=1)
"""How far another machine's clock may be ahead."""
_FIRST_WAIT, _LONGEST_WAIT = 0.01, 0.25
_UNREADABLE = (GoldforkError, StoreError, NotReusable, ValueError, KeyError, TypeError)
"""What a damaged row, missing content or an unwilling database raises."""


def drive(work: Waits[T]) -> T:
    """Do it all in the calling thread."""
    try:
        todo = next(work)
        while True:
            todo = _step(work, todo)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # what the generator returns


def _step(work: Waits[T], todo: Callable[[], Any] | Future[None] | float) -> Any:
    try:
        if isinstance(todo, Future):
            todo.exception()
            return next(work)
        if isinstance(todo, float):
            time.sleep(todo)
            return next(work)
        result = todo()
    except StopIteration:
        raise
    except BaseException as error:  # noqa: BLE001 - the generator decides
        return work.throw(error)
    return work.send(result)


async def drive_async(work: Waits[T]) -> T:
    """Do it all without blocking the event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # Another event loop than asyncio's; it is blocked for the moment of a commit.
        return drive(work)
    try:
        todo = next(work)
        while True:
            try:
                result = await _awaited(todo)
            except BaseException as error:  # noqa: BLE001 - the generator decides
                todo = work.throw(error)
            else:
                todo = work.send(result)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # what the generator returns


async def _awaited(todo: Callable[[], Any] | Future[None] | float) -> Any:
    if isinstance(todo, float):
        return await asyncio.sleep(todo)
    if isinstance(todo, Future):
        if not todo.done():
            # Unlike awaiting it, this leaves the commit alone when the task is cancelled.
            await asyncio.wait([asyncio.wrap_future(todo)])
        return None
    return await asyncio.to_thread(todo)


def before_body(begun: Begun, intent: Future[None] | None, shared: SharedCall | None) -> Waits[tuple[Any] | None]:
    """What has to happen before the body runs; a result where the call need not be made.

    Raises:
        StoreError: A side effect's intent could not be stored, and the plan says ``raise``.
    """
    if intent is not None:
        yield intent
        error = intent.exception()
        if error is not None and begun.frame.run.plan.on_store_error == "raise":
            name = begun.frame.step.record.name
            raise StoreError(
                f"side effect {name!r} is not executed: that it is about to happen could not be stored ({error})"
            ) from error
    return None if shared is None else (yield from shared.find())


def shared_call(spec: ToolSpec, begun: Begun) -> SharedCall | None:
    """The call's place in the tool cache; ``None`` where the run's sink is no store."""
    store = begun.frame.run.plan.sink
    if not isinstance(store, Store):
        return None
    key = content_hash(canonical_json({"home": spec.home, "call": begun.frame.step.record.key}))
    return SharedCall(spec, begun, store, f"{spec.step.name}:{key}")


@dataclass(slots=True, eq=False)
class SharedCall:
    """One call of a tool that shares its results."""

    spec: ToolSpec
    begun: Begun
    store: Store
    key: str
    leased: bool = False
    """Whether this call is the one that makes the result."""
    _warned: bool = field(default=False, init=False)

    def find(self) -> Waits[tuple[Any] | None]:
        """The stored result as this step's; ``None`` when the tool is to be called here, with or without the lease."""
        wait = _FIRST_WAIT
        try:
            while True:
                found = yield self._look
                if found is None and (yield self._take):
                    # Who held the lease until now may have stored the result after the first look.
                    found = yield self._look
                    if found is None:
                        return None
                    yield self.release
                if found is not None:
                    return self._answer(*found)
                if self._within_itself():
                    return None
                yield wait
                wait = min(wait * 2, _LONGEST_WAIT)
        except (StoreError, GoldforkError) as error:
            self._warn(f"the tool cache cannot be used ({error}); it is called anew")
            return None

    def keep(self, output: Any) -> Waits[None]:
        """Store the result for other calls, and end the lease."""
        if self.leased:
            try:
                yield lambda: self._store(output)
            except (StoreError, GoldforkError) as error:
                self._warn(f"its result cannot be kept in the tool cache ({error})")
            yield self.release

    def release(self) -> None:
        """End the lease, if this call has it."""
        if self.leased:
            self.leased = False
            # A lease that stays is taken over as soon as this step is seen to have ended.
            with contextlib.suppress(StoreError, GoldforkError):
                self.store.outbox.release(self._lease, self._holder)

    @property
    def _lease(self) -> str:
        return f"tool:{self.key}"

    @property
    def _holder(self) -> str:
        record = self.begun.frame.step.record
        return f"{record.run_id}/{record.id}"

    def _answer(self, output: Any, step: str) -> tuple[Any]:
        frame = self.begun.frame
        frame.step.record = replace(frame.step.record, state="answered", reused_from=step)
        end(self.begun, output)
        return (output,)

    def _look(self) -> tuple[Any, str] | None:
        """The stored value that still counts, and the step that made it."""
        try:
            rows = self.store.load("tool_cache", key=self.key)
            if not rows or not self._fresh(rows[0]["stored_at"]):
                return None
            row = rows[0]
            if (row["tool"], row["version"], row["determinism"]) != (
                self.spec.step.name,
                self.spec.version,
                self.spec.determinism,
            ):
                self._warn("its row in the tool cache belongs to another tool; it is called anew")
                return None
            data = self.store.read(row["output_hash"])
            if content_hash(data) != row["output_hash"]:
                self._warn("its result in the tool cache is damaged; it is called anew")
                return None
            return restore(data), str(row["step"])
        except _UNREADABLE as error:
            self._warn(f"its row in the tool cache cannot be read ({type(error).__name__}: {error}); it is called anew")
            return None

    def _fresh(self, stored_at: datetime) -> bool:
        if self.spec.determinism == "deterministic":
            return True
        age = self.begun.frame.run.plan.clock.now() - stored_at
        return -_SKEW <= age < timedelta(seconds=self.spec.ttl or 0.0)

    def _take(self) -> bool:
        """Take the lease: it is free, or who held it does no longer work on the result."""
        if self._leased():
            return True
        rows = self.store.load("leases", name=self._lease)
        holder = rows[0]["owner"] if rows else None
        if holder is None or self._works(str(holder)):
            return False
        self.store.outbox.release(self._lease, str(holder))
        return self._leased()

    def _leased(self) -> bool:
        # Leases go by the machine's clock: that of the run may stand still.
        self.leased = self.store.outbox.lease(self._lease, self._holder, seconds=_LEASE, now=datetime.now(UTC))
        return self.leased

    def _works(self, holder: str) -> bool:
        """Whether the step that holds the lease is still under way in a living process."""
        run_id, _, step_id = holder.partition("/")
        run = self.store.run(run_id)
        steps = self.store.load("steps", id=step_id) if run is not None and run.status == "running" else []
        return bool(steps) and steps[0]["status"] == "running"

    def _within_itself(self) -> bool:
        """Whether the result is waited for inside the very call that is to make it."""
        rows = self.store.load("leases", name=self._lease)
        holder = rows[0]["owner"] if rows else None
        frame: Frame | None = self.begun.frame.outer
        while frame is not None:
            if f"{frame.run.id}/{frame.step.record.id}" == holder:
                return True
            frame = frame.outer
        return False

    def _store(self, output: Any) -> None:
        run, record = self.begun.frame.run, self.begun.frame.step.record
        taken = output_snapshot(output, run)
        data = None if taken is None or taken.masked else taken.order or taken.data
        try:
            unkept = data is None or arguments_changed(self.begun)
            if not unkept and data is not None:
                restore(data)
        except NotReusable:
            unkept = True
        if unkept or taken is None or data is None:
            self._warn(
                "its result cannot be shared: it does not come back equal from JSON, or the call changed an argument"
            )
            return
        run.emit(blobs=taken.blobs)
        row = {
            "key": self.key,
            "tool": record.name,
            "version": self.spec.version,
            "determinism": self.spec.determinism,
            "output_hash": content_hash(data),
            "ttl": self.spec.ttl,
            # What the world looked like when the call began is the least that the result can be said to hold from.
            "stored_at": record.started_at,
            "step": record.id,
            "run": record.run_id,
        }
        self.store.save("tool_cache", [row])

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"tool {self.spec.step.name!r}: {what}", RuntimeWarning, stacklevel=2)
