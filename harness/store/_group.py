"""A group of jobs as one transaction: rows per table, in the order in which they have to be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from harness.record import ChunkRecord, MessageRecord, Record, RunRecord, StepRecord, VolatileRecord
from harness.store import _rows
from harness.store._content import ContentWriter
from harness.store._driver import Driver
from harness.store._outbox_sql import enter_new, enter_woken, entered
from harness.store._packing import Packing, pack_hash
from harness.store._sql import upsert

_RECORD_BYTES = 500
"""What a record without content counts towards the queue's limit."""


@dataclass(slots=True, eq=False)
class Job:
    """What one caller wants committed."""

    records: tuple[Record, ...] = ()
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    statements: Sequence[tuple[str, Sequence[Sequence[Any]]]] = ()
    action: Callable[[Driver], Any] | None = None
    """Runs inside the transaction; its result is the future's."""
    rows: int = 0
    """About how many rows the action writes."""
    future: Future[Any] = field(default_factory=Future)
    result: Any = None

    @property
    def size(self) -> int:
        """Roughly, in bytes."""
        chunks = sum(len(record.data) for record in self.records if isinstance(record, ChunkRecord))
        return _RECORD_BYTES * (1 + len(self.records) + self.rows) + chunks + sum(map(len, self.blobs.values()))


class _Statements(NamedTuple):
    """The writer's statements for one parameter mark."""

    runs: str
    steps: str
    messages: str
    exchanges: str
    chunks: str
    fold: str
    volatile: str
    outbox: str
    woken: str

    @classmethod
    def of(cls, mark: str) -> _Statements:
        volatile_key = ("run_id", "scope", "name", "occurrence")
        return cls(
            runs=upsert("runs", _rows.RUN, key=("id",), mark=mark),
            steps=upsert("steps", _rows.STEP, key=("id",), mark=mark),
            messages=upsert("messages", _rows.MESSAGE, key=("id",), mark=mark, keep=("request_chain",)),
            exchanges=upsert("exchanges", _rows.EXCHANGE, key=("message_id", "attempt"), mark=mark),
            chunks=upsert("chunks", _rows.CHUNK, key=("message_id", "number"), mark=mark),
            fold=f"DELETE FROM chunks WHERE message_id = {mark}",  # noqa: S608 - a parameter mark
            volatile=upsert("volatile", _rows.VOLATILE, key=volatile_key, mark=mark),
            outbox=enter_new(mark),
            woken=enter_woken(mark),
        )


_STATEMENTS = {mark: _Statements.of(mark) for mark in ("?", "%s")}


class Group:
    """Rows of several jobs; of two records with one id the later one stands."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._now = datetime.now(UTC)
        self._contents: dict[bytes, bytes] = {}
        self._requests: set[bytes] = set()
        self._responses: set[bytes] = set()
        self._runs: dict[str, tuple[Any, ...]] = {}
        self._steps: dict[str, tuple[Any, ...]] = {}
        self._messages: dict[str, list[Any]] = {}
        self._exchanges: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._chunks: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._folded: list[tuple[Any]] = []
        self._volatile: dict[tuple[str, str, str, int], tuple[Any, ...]] = {}
        self._outbox: list[list[Any]] = []
        self._woken: list[tuple[Any, ...]] = []
        self.jobs: list[Job] = []
        self.bytes = 0

    def add(self, job: Job) -> None:
        """Take a job in.

        Raises:
            ValueError: A record cannot be written; the group is to be built again without this job.
        """
        contents = {pack_hash(digest): content for digest, content in job.blobs.items()}
        for record in job.records:
            self._add(record)
        self._contents.update(contents)
        self.jobs.append(job)
        self.bytes += job.size

    def write(self, driver: Driver, content: ContentWriter) -> None:
        """Write everything inside the driver's open transaction."""
        text = _STATEMENTS[driver.mark]
        if self._contents or self._requests:
            chains = content.store(driver, self._contents, requests=self._requests, responses=self._responses)
            for row in self._messages.values():
                row[_rows.REQUEST_CHAIN] = chains.get(row[_REQUEST_HASH])
        batches: tuple[tuple[str, Sequence[Sequence[Any]]], ...] = (
            (text.woken, self._woken),
            (text.runs, list(self._runs.values())),
            (text.steps, list(self._steps.values())),
            (text.messages, list(self._messages.values())),
            (text.exchanges, list(self._exchanges.values())),
            (text.chunks, list(self._chunks.values())),
            (text.fold, self._folded),
            (text.volatile, list(self._volatile.values())),
        )
        for statement, rows in batches:
            if rows:
                driver.many(statement, rows)
        if self._outbox:
            driver.together(text.outbox, self._outbox)
        for job in self.jobs:
            for statement, values in job.statements:
                driver.many(statement, values)
            if job.action is not None:
                job.result = job.action(driver)

    def _add(self, record: Record) -> None:
        to = self._packing
        if isinstance(record, MessageRecord):
            self._add_message(record)
        elif isinstance(record, StepRecord):
            self._steps[record.id] = _rows.step_row(record, to)
        elif isinstance(record, RunRecord):
            self._runs[record.id] = _rows.run_row(record, to, self._now)
            if record.status != "running" and record.fidelity != "imported":
                # What came from there does not go back.
                now = to.time(self._now)
                self._outbox.append(entered("run", record.id, now))
                self._woken.append((now, now, record.id, to.id(record.id)))
        elif isinstance(record, ChunkRecord):
            self._chunks[record.message_id, record.index] = _rows.chunk_row(record, to)
        elif isinstance(record, VolatileRecord):
            key = (record.run_id, record.scope, record.name, record.occurrence)
            self._volatile[key] = _rows.volatile_row(record, to)
        else:
            raise TypeError(f"{type(record).__name__} is no record")

    def _add_message(self, message: MessageRecord) -> None:
        row = _rows.message_row(message, self._packing)
        exchanges = _rows.exchange_rows(message, self._packing)
        self._messages[message.id] = row
        self._requests.add(row[_REQUEST_HASH])
        for attempt, exchange in enumerate(exchanges):
            self._exchanges[message.id, attempt] = exchange
            self._responses.add(exchange[_BODY_HASH])
        if message.status != "running":
            self._folded.append((row[0],))


_BODY_HASH = _rows.EXCHANGE.index("body_hash")
_REQUEST_HASH = _rows.MESSAGE.index("request_hash")
