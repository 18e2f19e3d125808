"""The statements of the writer: upserts by key, for executemany."""

from __future__ import annotations

from collections.abc import Sequence


def upsert(
    table: str,
    columns: Sequence[str],
    *,
    key: Sequence[str],
    mark: str,
    keep: Sequence[str] = (),
    leave: Sequence[str] = (),
) -> str:
    """Insert rows; a row with a known key replaces the earlier one.

    Args:
        table: Name of the table.
        columns: Columns in the order of the values.
        key: Columns of the key.
        mark: The driver's parameter mark.
        keep: Columns where a null leaves the earlier value alone.
        leave: Columns whose earlier value always stands.
    """
    updates = ", ".join(
        f'"{name}" = coalesce(excluded."{name}", {table}."{name}")' if name in keep else f'"{name}" = excluded."{name}"'
        for name in columns
        if name not in key and name not in leave
    )
    action = f"DO UPDATE SET {updates}" if updates else "DO NOTHING"
    return f"{insert(table, columns, mark=mark)} ON CONFLICT ({_names(key)}) {action}"


def insert_new(table: str, columns: Sequence[str], *, key: Sequence[str], mark: str) -> str:
    """Insert rows; one with a known key is left out."""
    return f"{insert(table, columns, mark=mark)} ON CONFLICT ({_names(key)}) DO NOTHING"


def insert(table: str, columns: Sequence[str], *, mark: str) -> str:
    """Insert rows."""
    return f"INSERT INTO {table} ({_names(columns)}) VALUES ({', '.join([mark] * len(columns))})"  # noqa: S608 - names are constants


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
