"""The two databases as the writer uses them: one connection, explicit transactions, driver batches."""

from __future__ import annotations

import fcntl
import os
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.store._packing import Packing, PostgresPacking, SqlitePacking

Trouble = Literal["retry", "gone", "environment", "poison"]
"""What a database error calls for: again, again on a new connection, give the group up, blame one job."""

PAGE_BYTES = 2048
"""Small, because a conversation spreads over a dozen trees that each end in a page half full: with 8 KiB pages that
rounding alone made growth look quadratic on small files."""
_BUSY_MS = 30_000
_CHECKPOINT_BYTES = 8 << 20
"""Write-ahead log grown by about this much is folded back by the writer."""
_COMMIT_BYTES = 12 * PAGE_BYTES
"""What a small transaction adds to the log: one page per index it touches."""


_MOST_PARAMETERS = 16_000
"""Of one statement on PostgreSQL, far below what it takes."""


class Driver(Protocol):
    """A connection that the writer owns."""

    mark: str
    packing: Packing
    errors: tuple[type[Exception], ...]
    """What the driver raises."""

    def connect(self) -> None:
        """Open the connection if it is not open."""
        ...

    def begin(self) -> None:
        """Start a transaction that may write."""
        ...

    def commit(self) -> None:
        """Make it durable."""
        ...

    def rollback(self) -> None:
        """Give it up; never raises."""
        ...

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each row; returns how many rows changed."""
        ...

    def together(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """As ``many`` for an insert whose rows have different keys; as one statement where that costs less."""
        ...

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        ...

    def allocate(self, table: str, count: int) -> list[int]:
        """New ids for a table, inside a transaction."""
        ...

    def trouble(self, error: Exception) -> Trouble:
        """What an error calls for."""
        ...

    def idle(self, written: int) -> None:
        """After a commit of about that many bytes: housekeeping."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


_FAULTY_DATA = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


class SqliteDriver:
    """One SQLite connection in WAL mode."""

    mark = "?"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: Path, *, full: bool) -> None:
        self.packing: Packing = SqlitePacking()
        self._path = path
        self._full = full
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._next: dict[str, int] = {}
        self._grown = 0

    def connect(self) -> None:
        """Open the connection if it is not open."""
        if self._connection is None:
            self._connection = connect_sqlite(self._path)
            self._file = _identity(self._path)
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if self._full else 'NORMAL'}")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
            self._connection.execute("PRAGMA busy_timeout = 0")

    @property
    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError("the connection is closed")
        return self._connection

    def begin(self) -> None:
        """Take the write lock at once: a read lock cannot be upgraded once another has written."""
        if _identity(self._path) != self._file:
            raise sqlite3.OperationalError(f"{str(self._path)!r} has been removed or replaced")
        self._begin_immediate(time.monotonic() + _BUSY_MS / 1000)
        self._next.clear()

    def _begin_immediate(self, deadline: float) -> None:
        """Take turns with other processes; SQLite itself would sleep up to a tenth of a second between tries."""
        while True:
            try:
                self._open.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if self.trouble(error) != "retry" or time.monotonic() > deadline:
                    raise
            time.sleep(0.0005 + random.random() * 0.001)  # noqa: S311 - jitter

    def commit(self) -> None:
        """Make it durable."""
        self._open.execute("COMMIT")

    def rollback(self) -> None:
        """Give it up; never raises."""
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each row; returns how many rows changed."""
        return self._open.executemany(statement, rows).rowcount

    together = many

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._open.execute(statement, values).fetchall()

    def allocate(self, table: str, count: int) -> list[int]:
        """New ids; the write lock keeps others from taking the same."""
        if table not in self._next:
            [(top,)] = self.query(f"SELECT coalesce(max(id), 0) FROM {table}")  # noqa: S608 - names are constants
            self._next[table] = top + 1
        first = self._next[table]
        self._next[table] = first + count
        return list(range(first, first + count))

    def trouble(self, error: Exception) -> Trouble:
        """What an error calls for."""
        if isinstance(error, _FAULTY_DATA):
            return "poison"
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return "retry"
        if code is not None and code & 0xFF in {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH}:
            return "poison"
        return "environment"

    def idle(self, written: int) -> None:
        """Fold the log back, one process at a time: concurrent checkpoints race in SQLite before 3.51.3."""
        self._grown += written + _COMMIT_BYTES
        if self._grown >= _CHECKPOINT_BYTES and self._checkpoint("PASSIVE"):
            self._grown = 0

    def close(self) -> None:
        """Close the connection; the log is folded back if nobody else uses it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _checkpoint(self, kind: str) -> bool:
        lock = os.open(f"{self._path}-checkpoint", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._open.execute(f"PRAGMA wal_checkpoint({kind})").fetchall()
            return True
        except (BlockingIOError, sqlite3.OperationalError):
            return False
        finally:
            os.close(lock)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect_sqlite(path: Path, *, options: str = "mode=rw") -> sqlite3.Connection:
    """A connection in autocommit, usable from any thread (one at a time).

    Raises:
        sqlite3.Error: The file cannot be opened.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=_BUSY_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return connection


class PostgresDriver:
    """One PostgreSQL connection; executemany runs in pipeline mode."""

    mark = "%s"

    def __init__(self, connect: Callable[[], Any], *, full: bool) -> None:
        import psycopg

        self.packing: Packing = PostgresPacking()
        self.errors: tuple[type[Exception], ...] = (psycopg.Error,)
        self._errors = psycopg.errors
        self._connect = connect
        self._full = full
        self._connection: Any = None

    def connect(self) -> None:
        """Open the connection if it is not open."""
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
            self._connection.execute(f"SET synchronous_commit = {'on' if self._full else 'off'}")
            self._connection.execute("SET lock_timeout = '30s'")
            self._connection.commit()

    def begin(self) -> None:
        """The driver starts the transaction with the first statement."""

    def commit(self) -> None:
        """Make it durable."""
        self._connection.commit()

    def rollback(self) -> None:
        """Give it up; never raises."""
        if self._connection is not None and not self._connection.closed:
            try:
                self._connection.rollback()
            except self.errors:
                self.close()

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each row; returns how many rows changed."""
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, rows)
            return int(cursor.rowcount)

    def together(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """A statement for many rows: triggers that run once for each would otherwise run for every row."""
        if len(rows) < 2:
            return self.many(statement, rows)
        one, changed = f"({', '.join([self.mark] * len(rows[0]))})", 0
        at_once = _MOST_PARAMETERS // len(rows[0])
        with self._connection.cursor() as cursor:
            for start in range(0, len(rows), at_once):
                some = rows[start : start + at_once]
                text = statement.replace(f"VALUES {one}", f"VALUES {', '.join([one] * len(some))}", 1)
                cursor.execute(text, [value for row in some for value in row], prepare=False)
                changed += int(cursor.rowcount)
        return changed

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        rows: list[tuple[Any, ...]] = self._connection.execute(statement, values).fetchall()
        return rows

    def allocate(self, table: str, count: int) -> list[int]:
        """New ids from the table's sequence."""
        rows = self.query("SELECT nextval(%s::regclass) FROM generate_series(1, %s)", (f"{table}_id_seq", count))
        return [int(value) for (value,) in rows]

    def trouble(self, error: Exception) -> Trouble:
        """What an error calls for."""
        errors = self._errors
        if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected | errors.LockNotAvailable):
            return "retry"
        if self._connection is None or self._connection.closed or self._connection.broken:
            return "gone"
        if isinstance(error, errors.DataError | errors.IntegrityError | errors.ProgrammingError):
            return "poison"
        return "environment"

    def idle(self, written: int) -> None:
        """Nothing to do; the server checkpoints."""

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
