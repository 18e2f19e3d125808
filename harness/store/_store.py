"""The store as the other layers see it."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal, Self

from harness.errors import StoreOpenError, UsageError
from harness.record import RECORDED, Hash, Record, Recording, RunRecord
from harness.store._outbox import Outbox
from harness.store._values import CheckReport, GcReport, RunStatus, RunSummary, StoreStats

if TYPE_CHECKING:
    from harness.store._database import Database
    from harness.store._reader import Reader
    from harness.store._writer import Writer

Durability = Literal["full", "normal"]
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

_FORK_SECONDS = 10.0


class Store:
    """One database, and this process's writer to it. Thread-safe; made by ``open_store``.

    A forked child may go on using the object: it opens connections and a writer of its own.
    """

    def __init__(self, database: Database) -> None:
        from harness.store._reader import Reader
        from harness.store._writer import Writer

        self._database = database
        self._reader: Reader = Reader(database)
        self._writer: Writer = Writer(database.name, database.driver)
        self._pid = os.getpid()
        self._closed = False
        _OPEN.add(self)

    @property
    def name(self) -> str:
        """What the store is called in messages: its file, or its URL without a password."""
        return self._database.name

    def write(self, *records: Record, blobs: Mapping[Hash, bytes] | None = None) -> Future[None]:
        """Queue records and content for one transaction; the future completes after its commit.

        A record with a known id replaces the earlier one; the final record of a message removes its chunks; the
        final record of a run enters it into the outbox. Waits only while the queue is full.

        Args:
            records: In the order in which they happened.
            blobs: Request bodies, response bodies and snapshots by SHA-256; known ones are not stored twice.

        Returns:
            A future that fails with ``StoreError`` when this call's records could not be stored.
        """
        from harness.store._group import Job

        job = Job(records=records, blobs=dict(blobs or {}))
        self._own_writer.submit(job)
        return job.future

    def read(self, content: Hash) -> bytes:
        """The content of a hash: a body as sent or received, a snapshot.

        Raises:
            DatasetMissing: Nothing is stored under that hash.
            StoreError: What is stored is damaged.
        """
        return self._reader.content(content)

    def recording(self, ref: str, *, arm: str = RECORDED, trial: int = 0) -> Recording | None:
        """What is needed to run again.

        Args:
            ref: A run id, or a workflow's name for its newest good run that is no replay or fork of another.
            arm: ``recorded`` for that run itself; a fork's arm for the newest good fork of run ``ref``.
            trial: Which repetition.

        Returns:
            The recording, or ``None``. Messages that were under way when their process died have the status
            ``interrupted`` and hold what had arrived.
        """
        return self._reader.recording(ref, arm=arm, trial=trial)

    def recordings(self, ids: Sequence[str]) -> list[Recording]:
        """The recordings of many runs in few queries: as ``recording`` gives them, in order, unknown ids left out."""
        return self._reader.recordings(ids)

    @property
    def outbox(self) -> Outbox:
        """What the mirror still has to do."""
        return Outbox(self._database, lambda: self._own_writer)

    def tag(self, run: str, tags: Sequence[str]) -> None:
        """Replace the tags of a finished run, and have the mirror correct what it sent.

        Raises:
            UsageError: There is no such run, or it is still running.
        """
        from harness.store._group import Job
        from harness.store._packing import pack_json

        found = self._reader.run(run)
        if found is None or found.status == "running":
            why = "there is no such run" if found is None else "it is still running"
            raise UsageError(f"run {run!r} cannot be tagged: {why}; `goldfork run list` shows what the store holds")
        mark = self._database.mark
        values = (pack_json(list(tags)), self._database.driver().packing.id(found.id))
        made: list[Any] = [(f"UPDATE runs SET tags = {mark} WHERE id = {mark}", [values])]  # noqa: S608 - marks
        if found.fidelity != "imported":
            made.append(self.outbox.reentry("run", [found.id], repair=True))
        job = Job(statements=made)
        self._own_writer.submit(job)
        job.future.result()

    def runs(
        self, limit: int = 50, *, workflow: str | None = None, status: RunStatus | None = None
    ) -> list[RunSummary]:
        """The newest runs, newest first; ``abandoned`` is a run that says running but whose process is gone."""
        return self._reader.runs(limit, workflow=workflow, status=status)

    def run(self, ref: str) -> RunRecord | None:
        """The run of an id or of an unambiguous beginning of one; an abandoned run is ``interrupted``.

        Raises:
            UsageError: Several runs begin so.
        """
        return self._reader.run(ref)

    def save(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows of an evaluation table in one transaction, and wait for its commit.

        Args:
            table: ``experiments``, ``trials``, ``scores``, ``labels``, ``reviews``, ``datasets``,
                ``dataset_versions``, ``cases``, ``reservations``, ``tool_cache``, ``outbox``, ``leases`` or
                ``step_edges``.
            rows: Column values; a known key replaces the columns named and leaves the others alone. Names that
                are no columns are kept as JSON and come back from ``load`` like columns.

        New and changed scores are entered into the outbox by the same transaction.

        Raises:
            UsageError: The table or a value is wrong.
            StoreError: The database did not take the rows.
        """
        self.save_together({table: rows})

    def save_together(self, tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        """Write rows of several evaluation tables in one transaction, and wait for its commit; see ``save``.

        Args:
            tables: Rows by table, in the order in which they are to be written.
        """
        from harness.store._generic import score_entries, statements
        from harness.store._group import Job

        writer, dialect, mark = self._own_writer, self._database.engine.dialect, self._database.mark
        made: list[Any] = []
        for table, given in tables.items():
            rows = list(given)
            if table == "scores":
                # Before the rows themselves: what they were is what tells a changed score from one saved again.
                made += score_entries(rows, dialect=dialect, mark=mark)
            made += statements(table, rows, dialect=dialect, mark=mark)
        job = Job(statements=made)
        writer.submit(job)
        job.future.result()

    def claim(self, table: str, row: Mapping[str, Any]) -> bool:
        """Insert a row if its key is free; false when somebody else has it. For leases, reservations and misses.

        Raises:
            UsageError: The table or a value is wrong.
            StoreError: The database did not take the row.
        """
        from harness.store._generic import claim
        from harness.store._group import Job

        action = claim(table, row, dialect=self._database.engine.dialect, mark=self._database.mark)
        job = Job(action=action)
        self._own_writer.submit(job)
        return bool(job.future.result())

    def load(self, table: str, **equals: Any) -> list[dict[str, Any]]:
        """The rows of any table whose columns equal the given values, in order of the key.

        Raises:
            UsageError: There is no such table or column.
        """
        from harness.store._generic import load

        return load(self._database, table, equals)

    def check(self, *, progress: Progress | None = None) -> CheckReport:
        """Verify everything: every hash, every request re-joined, every reference, the database itself."""
        from harness.store._check import check

        return check(self._database, progress or _quiet)

    def gc(self, *, progress: Progress | None = None) -> GcReport:
        """Remove shared results of tools past their ttl, and content that nothing refers to.

        Content that was touched within the hour is spared.

        Raises:
            StoreError: The database did not take a deletion; what was removed before stays removed.
        """
        from harness.store._collect import collect

        return collect(self._database, self._own_writer, progress or _quiet)

    def stats(self) -> StoreStats:
        """Rows and bytes per table, and what takes the room."""
        from harness.store._stats import stats

        return stats(self._database)

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until everything written so far is committed or has failed; false when time is up."""
        return self._own_writer.flush(timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Commit what is queued and let go of the database; what time does not allow fails its futures."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        _OPEN.discard(self)
        self._writer.close(timeout)
        self._database.close()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()

    @property
    def _own_writer(self) -> Writer:
        """The writer, after making sure that it is this process's own and may write."""
        if self._database.read_only:
            raise StoreOpenError(f"the store {self.name} was opened read-only; open it again to write")
        if self._pid != os.getpid():
            self._after_fork_in_child()
        return self._writer

    def _before_fork(self) -> None:
        self._writer.before_fork(_FORK_SECONDS)
        self._database.before_fork(_FORK_SECONDS)

    def _after_fork_in_parent(self) -> None:
        self._database.after_fork_in_parent()
        self._writer.after_fork_in_parent()

    def _after_fork_in_child(self) -> None:
        with _fork_lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._database.after_fork_in_child()
                self._writer.after_fork_in_child()


def open_store(url: str, *, durability: Durability = "full", read_only: bool = False) -> Store:
    """Open the store, creating or upgrading its tables where needed.

    Args:
        url: ``sqlite:///path/to/file.db`` or ``postgresql://user@host/name``.
        durability: ``full`` survives the loss of power, ``normal`` the death of the process.
        read_only: Open for reading; nothing is created or upgraded.

    Raises:
        SchemaTooNew: A newer Goldfork wrote the database.
        StoreOpenError: The database cannot be opened.
    """
    from harness.store._database import Database

    return Store(Database(url, durability=durability, read_only=read_only))


def _quiet(what: str, done: int, total: int) -> None:
    """No progress is wanted."""


_OPEN: weakref.WeakSet[Store] = weakref.WeakSet()
_fork_lock = threading.Lock()


def _before_fork() -> None:
    for store in list(_OPEN):
        store._before_fork()  # noqa: SLF001 - the same module


def _after_fork_in_parent() -> None:
    for store in list(_OPEN):
        store._after_fork_in_parent()  # noqa: SLF001 - the same module


def _after_fork_in_child() -> None:
    global _fork_lock  # noqa: PLW0603 - a thread of the parent may have held it
    _fork_lock = threading.Lock()
    for store in list(_OPEN):
        store._after_fork_in_child()  # noqa: SLF001 - the same module


def _close_all() -> None:
    for store in list(_OPEN):
        store.close()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
atexit.register(_close_all)
