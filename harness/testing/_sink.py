"""A sink that keeps everything in memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TypeVar

from harness.errors import DatasetMissing
from harness.record import (
    ChunkRecord,
    Hash,
    MessageRecord,
    Record,
    Recording,
    RunRecord,
    StepRecord,
    VolatileRecord,
)

Kept = TypeVar("Kept", bound=Record)


class MemorySink:
    """Keeps records and content, newest record per id; commits at once unless told to fail.

    Args:
        fail: An error that every write reports, as a store would whose disk is full.
    """

    def __init__(self, *, fail: Exception | None = None) -> None:
        self.fail = fail
        self.log: list[Record] = []
        """Every record in order of writing, ``running`` ones included."""
        self.blobs: dict[Hash, bytes] = {}
        self._lock = threading.Lock()

    def write(self, *records: Record, blobs: Mapping[Hash, bytes] | None = None) -> Future[None]:
        """Keep records and content."""
        done: Future[None] = Future()
        if self.fail is not None:
            done.set_exception(self.fail)
            return done
        with self._lock:
            self.log += records
            self.blobs.update(blobs or {})
        done.set_result(None)
        return done

    @property
    def runs(self) -> list[RunRecord]:
        """Runs in order of start."""
        return list({record.id: record for record in self._all(RunRecord)}.values())

    @property
    def messages(self) -> list[MessageRecord]:
        """Messages of all runs by run and order of start."""
        last = {record.id: record for record in self._all(MessageRecord)}
        return sorted(last.values(), key=lambda message: (message.run_id, message.seq))

    @property
    def chunks(self) -> list[ChunkRecord]:
        """Flushed pieces of streams."""
        return self._all(ChunkRecord)

    def recording(self, run_id: str | None = None) -> Recording:
        """What was kept of one run (the last one started), as a recording.

        Raises:
            DatasetMissing: No such run was written.
        """
        runs = {run.id: run for run in self.runs}
        wanted = run_id or next(reversed(runs), "")
        if wanted not in runs:
            raise DatasetMissing(f"no run {wanted!r} was written to this sink")
        steps = {record.id: record for record in self._all(StepRecord) if record.run_id == wanted}
        return Recording(
            run=runs[wanted],
            steps=tuple(sorted(steps.values(), key=lambda step: step.seq)),
            messages=tuple(message for message in self.messages if message.run_id == wanted),
            volatile=tuple(value for value in self._all(VolatileRecord) if value.run_id == wanted),
            read=self.read,
        )

    def read(self, digest: Hash) -> bytes:
        """Content by hash.

        Raises:
            DatasetMissing: It was never written.
        """
        with self._lock:
            if digest not in self.blobs:
                raise DatasetMissing(f"this sink holds no content {digest!r}")
            return self.blobs[digest]

    def dump(self) -> bytes:
        """Every byte that was written, for looking for what must not be there."""
        with self._lock:
            return b"\n".join([repr(self.log).encode(), *self.blobs.values()])

    def _all(self, kind: type[Kept]) -> list[Kept]:
        with self._lock:
            return [record for record in self.log if isinstance(record, kind)]
