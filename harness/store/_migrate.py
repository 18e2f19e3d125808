"""Bringing a database to the current schema; the only module that loads Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x676F6C64
"""Key of the advisory lock that keeps two processes from migrating one PostgreSQL database at once."""


def upgrade(engine: Engine) -> None:
    """Run the missing revisions in one transaction, one process at a time."""
    with engine.connect().execution_options(immediate=True) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        _run(connection)


def config() -> Config:
    """The packaged migrations, without any ini file."""
    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS))
    settings.set_main_option("path_separator", "os")
    return settings


def _run(connection: Connection) -> None:
    settings = config()
    settings.attributes["connection"] = connection
    command.upgrade(settings, "head")
