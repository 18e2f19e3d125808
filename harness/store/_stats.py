"""What a store holds and what takes the room."""

from __future__ import annotations

from harness.store._columns import Table
from harness.store._database import Database
from harness.store._values import StoreStats, TableSize

_WHOLE_BYTES = 1024


def stats(database: Database) -> StoreStats:
    """Rows and bytes per table; see ``Store.stats``."""
    sizes = _sqlite_sizes(database) if database.path is not None else _postgres_sizes(database)
    tables = []
    for name in Table.metadata.tables:
        [(rows,)] = database.rows(f"SELECT count(*) FROM {name}")  # noqa: S608 - names are constants
        tables.append(TableSize(table=name, rows=rows, bytes=sizes.get(name, 0)))
    [(content, stored)] = database.rows(
        "SELECT coalesce(sum(b.size), 0), coalesce(sum(length(b.data)), 0) FROM blobs b"
    )
    [(whole,)] = database.rows(
        "SELECT count(DISTINCT m.request_hash) FROM messages m JOIN blobs b ON b.hash = m.request_hash "
        "WHERE b.codec <> 2 AND b.size > ?",
        (_WHOLE_BYTES,),
    )
    return StoreStats(
        tables=tuple(sorted(tables, key=lambda size: (-size.bytes, size.table))),
        bytes=_total(database),
        content_bytes=int(content),
        stored_bytes=int(stored),
        whole_requests=int(whole),
    )


def _sqlite_sizes(database: Database) -> dict[str, int]:
    rows = database.rows(
        "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name "
        "WHERE s.aggregate = TRUE GROUP BY m.tbl_name"
    )
    return {str(name): int(size) for name, size in rows}


def _postgres_sizes(database: Database) -> dict[str, int]:
    rows = database.rows(
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    )
    return {str(name): int(size) for name, size in rows}


def _total(database: Database) -> int:
    if database.path is None:
        [(size,)] = database.rows("SELECT pg_database_size(current_database())")
        return int(size)
    [(pages,)] = database.rows("PRAGMA page_count")
    [(page,)] = database.rows("PRAGMA page_size")
    return int(pages) * int(page)
