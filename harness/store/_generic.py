"""Saving and loading rows of the tables that evaluation and the workers write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import Column, Dialect, select
from sqlalchemy import Table as SqlTable

from harness.errors import UsageError
from harness.store import _eval_tables, _tables
from harness.store._columns import Table
from harness.store._database import Database
from harness.store._driver import Driver
from harness.store._outbox_sources import score_id
from harness.store._outbox_sql import enter_anew, entered
from harness.store._packing import pack_text
from harness.store._sql import insert_new, upsert
from harness.store._types import Money, Time

__all__ = ["_eval_tables", "_tables", "claim", "load", "score_entries", "statements"]

Statement = tuple[str, list[list[Any]]]


def statements(table: str, rows: Iterable[Mapping[str, Any]], *, dialect: Dialect, mark: str) -> list[Statement]:
    """Upserts of rows, one statement per set of columns.

    Raises:
        UsageError: The table is unknown, belongs to recording, or a row lacks its key.
    """
    target = _writable(table)
    grouped: dict[tuple[str, ...], list[list[Any]]] = {}
    updates: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in rows:
        given = _given(target, row)
        values = {**_defaults(target, given), **given}
        names = tuple(values)
        grouped.setdefault(names, []).append([_bound(target.c[name], values[name], dialect) for name in names])
        updates.setdefault(names, tuple(given))
    return [(_upsert(target, names, updates[names], mark), values) for names, values in grouped.items()]


def score_entries(rows: Iterable[Mapping[str, Any]], *, dialect: Dialect, mark: str) -> list[Statement]:
    """What enters these scores into the outbox, known ones only where a value given differs from the stored one.

    It has to run before ``statements`` of the same rows.
    """
    target = _writable("scores")
    now = _bound(Table.metadata.tables["outbox"].c["created_at"], datetime.now(UTC), dialect)
    grouped: dict[tuple[str, ...], list[list[Any]]] = {}
    for row in rows:
        given = _given(target, row)
        values = {**_defaults(target, given), **given}
        compared = [_bound(target.c[name], value, dialect) for name, value in values.items()]
        entry = entered("score", pack_text(score_id(values)), now)
        grouped.setdefault(tuple(values), []).append([*entry, *compared])
    return [(enter_anew(mark, unless=_alike(target.name, names, mark)), values) for names, values in grouped.items()]


def _alike(table: str, names: Sequence[str], mark: str) -> str:
    """A query that finds the row with these values, if there is one."""
    # A cast-free null-safe comparison; on PostgreSQL the column gives the parameter its type.
    equal = " AND ".join(f'{table}."{name}" IS NOT DISTINCT FROM {mark}' for name in names)
    return f"SELECT 1 FROM {table} WHERE {equal}"  # noqa: S608 - names are constants


def claim(table: str, row: Mapping[str, Any], *, dialect: Dialect, mark: str) -> Callable[[Driver], bool]:
    """What inserts a row if its key is free, and says whether it was.

    Raises:
        UsageError: The table is unknown, belongs to recording, or the row lacks its key.
    """
    target = _writable(table)
    given = _given(target, row)
    values = {**_defaults(target, given), **given}
    bound = [_bound(target.c[name], value, dialect) for name, value in values.items()]
    key = [column.name for column in target.primary_key.columns]
    statement = insert_new(table, tuple(values), key=key, mark=mark)
    return lambda driver: driver.many(statement, [bound]) == 1


def load(database: Database, table: str, equals: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows whose columns equal the given values, in order of their key; see ``Store.load``."""
    target = _known(table)
    wanted = select(target).order_by(*target.primary_key.columns)
    for name, value in equals.items():
        if name not in target.c:
            raise UsageError(f"table {table!r} has no column {name!r}; it has {', '.join(target.c.keys())}")
        column = target.c[name]
        wanted = wanted.where(column.is_(None) if value is None else column == value)
    with database.reading() as connection:
        rows = [dict(row) for row in connection.execute(wanted).mappings()]
    for row in rows:
        row.update(row.pop("extra", None) or {})
    return rows


def _known(table: str) -> SqlTable:
    if table not in Table.metadata.tables:
        raise UsageError(f"there is no table {table!r}; there are {', '.join(sorted(Table.metadata.tables))}")
    return Table.metadata.tables[table]


def _writable(table: str) -> SqlTable:
    target = _known(table)
    if "extra" not in target.c and table != "step_edges":
        raise UsageError(f"table {table!r} is written by Store.write, not by Store.save")
    return target


def _given(target: SqlTable, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row's columns, what has none folded into ``extra``."""
    given = {name: value for name, value in row.items() if name in target.c and name != "extra"}
    rest = {name: value for name, value in row.items() if name not in given}
    if rest and "extra" not in target.c:
        raise UsageError(f"table {target.name!r} has no column {next(iter(rest))!r}")
    return {**given, "extra": rest} if rest else given


def _defaults(target: SqlTable, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of required columns that the row does not name."""
    values: dict[str, Any] = {}
    for column in target.c:
        if column.name in given or column.nullable:
            continue
        default = column.default
        if column.server_default is not None and default is None:
            continue
        if default is None:
            raise UsageError(f"a row of table {target.name!r} lacks {column.name!r}")
        values[column.name] = default.arg(None) if default.is_callable else default.arg  # type: ignore[attr-defined] # both kinds have arg
    return values


def _bound(column: Column[Any], value: Any, dialect: Dialect) -> Any:
    if isinstance(column.type, Time) and isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(column.type, Money) and isinstance(value, str | int | float):
        try:
            value = Decimal(str(value))
        except InvalidOperation as error:
            raise UsageError(f"{value!r} in column {column.name!r} is no amount of money") from error
    process: Callable[[Any], Any] | None = column.type.bind_processor(dialect)
    try:
        return value if process is None else process(value)
    except ValueError as error:
        raise UsageError(f"column {column.name!r} of table {column.table.name!r}: {error}") from error


def _upsert(target: SqlTable, names: Sequence[str], given: Sequence[str], mark: str) -> str:
    key = [column.name for column in target.primary_key.columns]
    kept = [name for name in names if name not in given and name not in key]
    return upsert(target.name, names, key=key, mark=mark, leave=kept)
