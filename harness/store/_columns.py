"""How a column of the schema is declared: its type and its description, in one line."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Integer, MetaData
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Table(SQLModel, registry=registry(metadata=MetaData(naming_convention=_NAMES))):
    """Base of the store's tables; its metadata is apart from the application's own SQLModel tables."""


BigKey = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit key; on SQLite the alias of the row id."""


def column(
    kind: Any,
    description: str,
    *,
    nullable: bool = False,
    primary_key: bool = False,
    default: Any = None,
    refers_to: str | None = None,
) -> Any:
    """A column and what it means.

    Args:
        kind: The column type.
        description: Shown in docs/schema.md.
        nullable: Whether it may be unknown.
        primary_key: Whether it is (part of) the primary key.
        default: Python-side default; also the database's when it is a number or text.
        refers_to: ``table.column`` of a foreign key that the database enforces.
    """
    extra: dict[str, Any] = {}
    if default is not None and not callable(default):
        extra["server_default"] = str(int(default)) if isinstance(default, bool | int) else str(default)
    if primary_key and refers_to is None and kind is not BigKey:
        extra["autoincrement"] = False
    arguments: dict[str, Any] = {"description": description, "sa_type": kind, "primary_key": primary_key}
    if not primary_key:
        arguments["nullable"] = nullable
    if callable(default):
        arguments["default_factory"] = default
    elif default is not None or nullable or kind is BigKey:
        arguments["default"] = default
    if refers_to is not None:
        arguments["sa_column_args"] = [ForeignKey(refers_to)]
    return Field(sa_column_kwargs=extra, **arguments)
