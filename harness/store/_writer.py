"""The writer: one thread per process and store that commits in groups."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.errors import StoreError
from harness.record import RunRecord
from harness.store._content import ContentWriter, Race
from harness.store._driver import Driver, Trouble
from harness.store._group import Group, Job

_QUEUE_JOBS = 10_000
_QUEUE_BYTES = 64 << 20
_GROUP_JOBS = 512
_GROUP_BYTES = 16 << 20
_HEARTBEAT_SECONDS = 10.0
_TRIES = 8
_FAULTS = (ValueError, TypeError, OverflowError, LookupError, AttributeError, ArithmeticError)
"""What a malformed record raises while it is turned into rows."""


class Writer:
    """Commits jobs in the order of their submission, many at a time."""

    def __init__(self, name: str, make_driver: Callable[[], Driver]) -> None:
        self._name = name
        self._make_driver = make_driver
        self._start()

    def _start(self) -> None:
        """State of a process that has written nothing yet."""
        self._driver = self._make_driver()
        self._content = ContentWriter()
        self._queue: deque[Job] = deque()
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._busy = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._transaction = threading.Lock()
        self._held = False
        self._running: set[str] = set()
        self._beat = 0.0

    def submit(self, job: Job) -> None:
        """Queue a job; waits while the queue is full.

        The job's future fails with ``StoreError`` when the store is closed or cannot take it.
        """
        job.future.set_running_or_notify_cancel()
        size = job.size
        with self._changed:
            while self._full(size) and not self._closing:
                self._changed.wait()
            if not self._closing:
                self._queue.append(job)
                self._queued_bytes += size
                if self._thread is None:
                    self._thread = threading.Thread(target=self._loop, name="goldfork-writer", daemon=True)
                    self._thread.start()
                self._changed.notify_all()
                return
        job.future.set_exception(StoreError(f"the store {self._name} is closed; open it again to write"))

    def flush(self, timeout: float) -> bool:
        """Wait until everything queued so far is committed or has failed; false when time is up."""
        deadline = time.monotonic() + timeout
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._queue and not self._busy, max(0.0, deadline - time.monotonic())
            )

    def close(self, timeout: float) -> bool:
        """Commit what is queued and stop; what time does not allow fails. False when something failed so."""
        with self._changed:
            self._closing = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        with self._changed:
            left, self._queue = list(self._queue), deque()
        for job in left:
            job.future.set_exception(StoreError(f"the store {self._name} was closed before this record was committed"))
        if thread is None or not thread.is_alive():
            self._driver.close()
            return not left
        return False

    def before_fork(self, timeout: float) -> None:
        """Finish the running transaction and close the connection, so that a child inherits none."""
        self._held = self._transaction.acquire(timeout=timeout)
        if self._held:
            self._driver.close()

    def after_fork_in_parent(self) -> None:
        """Go on; the connection is opened again when needed."""
        if self._held:
            self._held = False
            self._transaction.release()

    def after_fork_in_child(self) -> None:
        """Leave everything of the parent alone, and start afresh on first use."""
        if not self._held:
            _INHERITED.append(self._driver)
        self._start()

    def _full(self, size: int) -> bool:
        if not self._queue or threading.current_thread() is self._thread:
            return False
        return len(self._queue) >= _QUEUE_JOBS or self._queued_bytes + size > _QUEUE_BYTES

    def _loop(self) -> None:
        while True:
            jobs = self._take()
            if jobs is None:
                return
            with self._transaction:
                if jobs:
                    self._commit(jobs)
                self._heartbeat()
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _take(self) -> list[Job] | None:
        """The next group; empty when a heartbeat is due, ``None`` when the store is closed."""
        with self._changed:
            while not self._queue:
                if self._closing:
                    return None
                wait = self._beat - time.monotonic() if self._running else None
                if wait is not None and wait <= 0:
                    self._busy = True
                    return []
                self._changed.wait(wait)
            self._busy = True
            jobs: list[Job] = []
            room = _GROUP_BYTES
            while self._queue and len(jobs) < _GROUP_JOBS and room > 0:
                job = self._queue.popleft()
                room -= job.size
                self._queued_bytes -= job.size
                jobs.append(job)
            self._changed.notify_all()
            return jobs

    def _commit(self, jobs: Sequence[Job]) -> None:
        try:
            written = self._transact(jobs)
            self._driver.idle(written)
        except Exception as error:  # noqa: BLE001 - a dead writer would leave every later caller waiting for ever
            self._fail([job for job in jobs if not job.future.done()], error)
            self._reset()

    def _grouped(self, jobs: Sequence[Job]) -> Group:
        """The jobs as one transaction; those whose records cannot be written fail here."""
        group = Group(self._driver.packing)
        try:
            for job in jobs:
                group.add(job)
        except _FAULTS:
            group = Group(self._driver.packing)
            for job in jobs:
                try:
                    Group(self._driver.packing).add(job)
                except _FAULTS as error:
                    self._fail([job], error)
                else:
                    group.add(job)
        return group

    def _transact(self, jobs: Sequence[Job]) -> int:
        """Commit jobs as one transaction, in halves if one of them is at fault; returns about how many bytes."""
        group = self._grouped(jobs)
        jobs = group.jobs
        if not jobs:
            return 0
        error = self._attempt(group)
        if error is None:
            for job in jobs:
                self._notice(job)
                job.future.set_result(job.result)
            return group.bytes
        if len(jobs) > 1 and self._trouble(error) == "poison":
            half = len(jobs) // 2
            return self._transact(jobs[:half]) + self._transact(jobs[half:])
        self._fail(jobs, error)
        return 0

    def _attempt(self, group: Group) -> Exception | None:
        """Run the transaction, again while that can help; the error that stands, if any."""
        error: Exception | None = None
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(min(0.01 * 2**attempt, 1.0) * (0.5 + random.random()))  # noqa: S311 - jitter
            try:
                self._driver.connect()
                self._driver.begin()
                group.write(self._driver, self._content)
                self._driver.commit()
            except Race as raced:
                error = raced
                self._driver.rollback()
                self._content.rolled_back()
            except self._driver.errors + _FAULTS as failed:
                error = failed
                trouble = self._trouble(failed)
                self._driver.rollback()
                self._content.rolled_back()
                if trouble in {"gone", "environment"}:
                    self._driver.close()
                if trouble not in {"retry", "gone"}:
                    break
            else:
                self._content.committed()
                return None
        return error

    def _trouble(self, error: Exception) -> Trouble:
        if isinstance(error, Race):
            return "retry"
        return "poison" if isinstance(error, _FAULTS) else self._driver.trouble(error)

    def _reset(self) -> None:
        self._driver.rollback()
        self._driver.close()
        self._content.rolled_back()

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        for job in jobs:
            failure = StoreError(f"the store {self._name} did not take a record: {_sentence(error)}")
            failure.__cause__ = error
            job.future.set_exception(failure)

    def _notice(self, job: Job) -> None:
        for record in job.records:
            if isinstance(record, RunRecord):
                if record.status == "running":
                    self._running.add(record.id)
                    self._beat = self._beat or time.monotonic() + _HEARTBEAT_SECONDS
                else:
                    self._running.discard(record.id)

    def _heartbeat(self) -> None:
        """Say that this process's open runs are alive, every ten seconds."""
        now = time.monotonic()
        if not self._running or now < self._beat:
            return
        self._beat = now + _HEARTBEAT_SECONDS
        to, mark = self._driver.packing, self._driver.mark
        stamp = to.time(datetime.now(UTC))
        rows: list[tuple[Any, ...]] = [(stamp, to.id(run)) for run in self._running]
        statement = f"UPDATE runs SET heartbeat_at = {mark} WHERE id = {mark}"  # noqa: S608 - marks only
        job = Job(statements=[(statement, rows)])
        job.future.set_running_or_notify_cancel()
        self._commit([job])


_INHERITED: list[Driver] = []
"""Connections of a parent process: never used and never closed here, since closing would end them for the parent."""


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "disk is full" in text or "No space left" in text:
        return f"{text}; free some space, later records are written again"
    return text or type(error).__name__
