"""Opening a database: its file or server, its schema version, and connections to read with."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from harness.errors import SchemaTooNew, StoreError, StoreOpenError
from harness.store._driver import PAGE_BYTES, Driver, PostgresDriver, SqliteDriver, connect_sqlite

REVISIONS: Final = ("0001",)
"""The schema's revisions, oldest first; the last one is what this code reads and writes."""


class Database:
    """One database and this process's connection to read from it."""

    def __init__(self, url: str, *, durability: str, read_only: bool) -> None:
        self._url = _parse(url)
        self._full = durability == "full"
        self.read_only = read_only
        self.name = self._url.render_as_string(hide_password=True)
        self._lock = threading.RLock()
        self._held = False
        self._connection: Connection | None = None
        self._options = "mode=rw"
        self.path = Path(self._url.database or "") if self._url.get_backend_name() == "sqlite" else None
        if self.path is not None:
            self.name = repr(str(self.path))
            self._options = _prepare_file(self.path, read_only=read_only)
        self.engine = self._make_engine()
        self._prepare_schema()

    @property
    def mark(self) -> str:
        """The driver's parameter mark."""
        return "?" if self.path is not None else "%s"

    def driver(self) -> Driver:
        """A connection for the writer."""
        if self.path is not None:
            return SqliteDriver(self.path, full=self._full)
        return PostgresDriver(self._connect, full=self._full)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """The read connection, one thread at a time, in a transaction of its own."""
        with self._lock:
            connection = self._reader()
            try:
                yield connection
            except DBAPIError as error:
                if error.connection_invalidated:
                    self._drop()
                raise self._unreadable(error) from error
            finally:
                if self._connection is not None:
                    self._connection.rollback()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a driver statement, with ``?`` for parameters; the fast way for look-ups by key.

        Raises:
            StoreError: The database cannot be read.
        """
        with self._lock:
            raw: Any = self._reader().connection.driver_connection
            try:
                if self.path is not None:
                    found: list[tuple[Any, ...]] = raw.execute(statement, values).fetchall()
                    return found
                found = raw.execute(statement.replace("?", "%s"), values).fetchall()
                raw.rollback()
                return found
            except self.engine.dialect.loaded_dbapi.Error as error:
                self._drop()
                raise self._unreadable(error) from error

    def close(self) -> None:
        """Close the read connection."""
        with self._lock:
            self._drop()

    def before_fork(self, timeout: float) -> None:
        """Close the read connection, so that a child inherits none."""
        self._held = self._lock.acquire(timeout=timeout)
        if self._held:
            self._drop()

    def after_fork_in_parent(self) -> None:
        """Go on; the connection is opened again when needed."""
        if self._held:
            self._held = False
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Leave an inherited connection alone."""
        if not self._held:
            _INHERITED.append(self._connection)
        self._connection = None
        self._held = False
        self._lock = threading.RLock()

    def _reader(self) -> Connection:
        if self._connection is None or self._connection.closed or self._connection.invalidated:
            try:
                self._connection = self.engine.connect()
            except DBAPIError as error:
                raise self._unreadable(error) from error
        return self._connection

    def _unreadable(self, error: Exception) -> StoreError:
        return StoreError(f"the store {self.name} cannot be read: {_reason(error)}; run `goldfork store check`")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.close()

    def _connect(self) -> Any:
        if self.path is not None:
            return connect_sqlite(self.path, options=self._options)
        arguments, options = self.engine.dialect.create_connect_args(self._url)
        dbapi: Any = self.engine.dialect.dbapi
        return dbapi.connect(*arguments, **options)

    def _make_engine(self) -> Engine:
        try:
            engine = create_engine(self._url, creator=self._connect, poolclass=NullPool)
        except (ModuleNotFoundError, NoSuchModuleError, ArgumentError) as error:
            raise StoreOpenError(
                f"cannot open {self.name}: {error}; install goldfork[postgres], or use a sqlite:/// URL"
            ) from error
        if self.path is not None:
            event.listen(engine, "begin", _begin)
        return engine

    def _prepare_schema(self) -> None:
        try:
            version = self._version()
            if version is None and self.read_only:
                raise StoreOpenError(f"{self.name} is no Goldfork store; nothing has been recorded there")
            if version is None or version in REVISIONS[:-1]:
                if not self.read_only:
                    self._upgrade()
            elif version not in REVISIONS:
                raise SchemaTooNew(
                    f"{self.name} has schema {version!r}, which is newer than {REVISIONS[-1]!r}, "
                    "the newest that this Goldfork knows; upgrade goldfork"
                )
        except (DBAPIError, sqlite3.Error) as error:
            raise StoreOpenError(f"cannot open {self.name}: {_reason(error)}") from error

    def _version(self) -> str | None:
        """The schema's revision; ``None`` for an empty database."""
        with self.engine.connect() as connection:
            if not connection.dialect.has_table(connection, "alembic_version"):
                tables = connection.dialect.get_table_names(connection)
                if "runs" in tables or "messages" in tables:
                    raise StoreOpenError(
                        f"{self.name} holds tables of another application; give the store a database of its own"
                    )
                return None
            found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        return None if found is None else str(found)

    def _upgrade(self) -> None:
        from harness.store._migrate import upgrade

        if self.path is not None:
            _prepare_pages(self.path)
        upgrade(self.engine)


_INHERITED: list[Connection | None] = []
"""Read connections of a parent process: never used and never closed here."""


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreOpenError(
            "the database URL cannot be read; write sqlite:///path/to/file.db or postgresql://user@host/name"
        ) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database in {None, "", ":memory:"}:
            raise StoreOpenError("a store in memory cannot be shared by its connections; name a file: sqlite:///path")
        return parsed
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreOpenError(f"a store on {backend!r} is not supported; use a sqlite:/// or postgresql:// URL")


def _prepare_file(path: Path, *, read_only: bool) -> str:
    """Make sure that the file can be opened; returns the options to open it with."""
    if path.is_dir():
        raise StoreOpenError(f"cannot open {str(path)!r}: it is a folder; name a file in it")
    if read_only:
        if not path.exists():
            raise StoreOpenError(f"cannot open {str(path)!r}: there is no such file; record a run first")
        return _read_options(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except OSError as error:
        raise StoreOpenError(f"cannot open {str(path)!r} for writing: {error.strerror or error}") from error
    return "mode=rw"


def _read_options(path: Path) -> str:
    """A log that nobody can create is no loss where there is nothing in it."""
    try:
        with contextlib.closing(connect_sqlite(path, options="mode=ro")) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.OperationalError as error:
        log = path.with_name(path.name + "-wal")
        if not log.exists() or not log.stat().st_size:
            return "mode=ro&immutable=1"
        raise StoreOpenError(f"cannot open {str(path)!r}: {_reason(error)}") from error
    except sqlite3.Error as error:
        raise StoreOpenError(f"cannot open {str(path)!r}: {_reason(error)}") from error
    return "mode=ro"


def _prepare_pages(path: Path) -> None:
    with contextlib.closing(connect_sqlite(path)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")


def _reason(error: Exception) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    text = " ".join(str(original).split())
    if "not a database" in text:
        return "it is not a SQLite database; move it away or name another file"
    return text
