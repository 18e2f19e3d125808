"""Column types: the Python values of the tables, on SQLite and on PostgreSQL."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import DateTime, Dialect, LargeBinary, Numeric, String, Text, Uuid
from sqlalchemy.types import TypeDecorator, TypeEngine

from harness.store._packing import (
    PostgresPacking,
    SqlitePacking,
    pack_hash,
    pack_json,
    pack_key,
    pack_text,
    pack_time_text,
    unpack_json,
    unpack_key,
    unpack_text,
    unpack_time_text,
)

_SQLITE = SqlitePacking()
_POSTGRES = PostgresPacking()


class Id(TypeDecorator[str]):
    """A UUID: text in Python, 16 bytes on SQLite, ``uuid`` on PostgreSQL."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the database's own type."""
        return dialect.type_descriptor(Uuid() if dialect.name == "postgresql" else LargeBinary(16))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """To the database."""
        return (_POSTGRES if dialect.name == "postgresql" else _SQLITE).id(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """From the database."""
        del dialect
        if value is None:
            return None
        return str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value))


class Sha256(TypeDecorator[str]):
    """A content hash: 64 hex digits in Python, 32 bytes on disk."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """To the database."""
        del dialect
        return None if value is None else pack_hash(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """From the database."""
        del dialect
        return None if value is None else bytes(value).hex()


class Key(TypeDecorator[str]):
    """A content key, usually a SHA-256."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """To the database."""
        del dialect
        return None if value is None else pack_key(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """From the database."""
        del dialect
        return None if value is None else unpack_key(bytes(value))


class Words(TypeDecorator[str]):
    """Text, with what a database cannot carry escaped reversibly."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """To the database."""
        del dialect
        return None if value is None else pack_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """From the database."""
        del dialect
        return None if value is None else unpack_text(value)


class Json(TypeDecorator[Any]):
    """Any JSON value as ASCII text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """To the database."""
        del dialect
        return None if value is None else pack_json(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """From the database."""
        del dialect
        return None if value is None else unpack_json(value)


class Time(TypeDecorator[datetime]):
    """An aware UTC time: ISO text on SQLite, ``timestamptz`` on PostgreSQL."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the database's own type."""
        return dialect.type_descriptor(DateTime(timezone=True) if dialect.name == "postgresql" else String(27))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """To the database."""
        if value is None:
            return None
        return _POSTGRES.time(value) if dialect.name == "postgresql" else pack_time_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """From the database."""
        del dialect
        if value is None:
            return None
        return unpack_time_text(value) if isinstance(value, str) else value.astimezone(UTC)


class Money(TypeDecorator[Decimal]):
    """An exact amount: decimal text on SQLite, ``numeric`` on PostgreSQL."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the database's own type."""
        return dialect.type_descriptor(Numeric() if dialect.name == "postgresql" else String())

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Any:
        """To the database."""
        return (_POSTGRES if dialect.name == "postgresql" else _SQLITE).money(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        """From the database."""
        del dialect
        return None if value is None else Decimal(value)
