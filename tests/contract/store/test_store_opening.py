"""Opening a store: new, old, newer, foreign, damaged, unwritable."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from harness.errors import SchemaTooNew, StoreError, StoreOpenError
from harness.store import open_store
from harness.store._columns import Table
from harness.store._database import REVISIONS
from harness.store._migrate import config


def test_migrations_make_the_schema_that_the_tables_declare(store):
    with store._database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Table.metadata) == []
        connection.rollback()


def test_revisions_are_those_in_the_package():
    assert [script.revision for script in ScriptDirectory.from_config(config()).walk_revisions()][::-1] == list(
        REVISIONS
    )


def test_a_newer_schema_is_refused_by_name(url, records):
    with open_store(url) as store:
        store.write(records.run()).result(30)
        engine = create_engine(store._database._url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(SchemaTooNew, match=r"'9999'.*'0001'") as caught:
        open_store(url)
    assert ("goldfork.db" if url.startswith("sqlite") else "postgresql") in str(caught.value)


def test_the_older_schema_is_upgraded_with_its_rows(sqlite_url, tmp_path):
    """A database that has the bookkeeping table but no revision yet, as a first start that was cut short leaves it."""
    with sqlite3.connect(tmp_path / "goldfork.db") as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    connection.close()
    with open_store(sqlite_url) as store:
        assert store.runs() == []


def test_two_processes_may_open_a_new_database_at_once(url):
    code = "import sys; from harness.store import open_store; open_store(sys.argv[1]).close()"
    children = [subprocess.Popen([sys.executable, "-c", code, url], stderr=subprocess.PIPE) for _ in range(2)]
    assert [child.communicate(timeout=60)[1] for child in children] == [b"", b""]


def test_a_file_that_is_no_database_is_named(sqlite_url, tmp_path):
    (tmp_path / "goldfork.db").write_bytes(b"this is a letter, not a database\n" * 100)
    for read_only in (False, True):
        with pytest.raises(StoreOpenError, match=r"goldfork\.db.*not a SQLite database") as caught:
            open_store(sqlite_url, read_only=read_only)
        assert "\n" not in str(caught.value)


def test_a_database_of_another_application_is_left_alone(url):
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE runs (id INTEGER)")
    engine.dispose()
    with pytest.raises(StoreOpenError, match="another application"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("sqlite://", "in memory"),
        ("mysql://u:secret-word@h/d", "not supported"),
        ("no url at all", "cannot be read"),
        ("postgresql://u:secret-word@127.0.0.1:1/d?connect_timeout=2", "cannot open"),
    ],
)
def test_a_wrong_url_is_one_sentence_without_its_password(url, match):
    with pytest.raises(StoreOpenError, match=match) as caught:
        open_store(url)
    assert "secret-word" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_or_a_missing_file_cannot_be_opened(tmp_path):
    with pytest.raises(StoreOpenError, match="it is a folder"):
        open_store(f"sqlite:///{tmp_path}")
    with pytest.raises(StoreOpenError, match="no such file"):
        open_store(f"sqlite:///{tmp_path / 'none.db'}", read_only=True)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreOpenError, match="for writing"):
        open_store(f"sqlite:///{tmp_path / 'file' / 'goldfork.db'}")


_AS_NOBODY = """
import os, sys
import sqlalchemy.dialects.sqlite
import harness.store._check, harness.store._database, harness.store._reader, harness.store._writer
from harness.errors import StoreOpenError
from harness.store import open_store
os.setgid(65534), os.setuid(65534)
with open_store(sys.argv[1], read_only=True) as store:
    print(len(store.runs()), store.check().ok)
try:
    open_store(sys.argv[1])
except StoreOpenError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_read_only_folder_can_still_be_read(records):
    with tempfile.TemporaryDirectory(prefix="goldfork-readonly-") as name:
        url = f"sqlite:///{name}/goldfork.db"
        with open_store(url) as store:
            store.write(records.run()).result(30)
        Path(name).chmod(0o555)
        child = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, url], capture_output=True, text=True, timeout=60, check=False
        )
        assert child.stderr == ""
        first, second = child.stdout.splitlines()
        assert first == "1 True"
        assert "for writing: Permission denied" in second


def test_a_read_only_store_reads_and_refuses_to_write(url, records):
    run = records.run()
    with open_store(url) as store:
        store.write(run).result(30)
    with open_store(url, read_only=True) as store:
        assert store.run(run.id) == run
        with pytest.raises(StoreOpenError, match="read-only"):
            store.write(run)


def test_a_closed_store_says_so(store, records):
    store.write(records.run()).result(30)
    store.close()
    store.close()
    assert isinstance(store.write(records.run()).exception(1), StoreError)


def test_closing_commits_what_is_queued(url, records):
    with open_store(url, durability="normal") as store:
        futures = [store.write(records.run()) for _ in range(200)]
    assert all(future.exception(0) is None for future in futures)
    with open_store(url) as store:
        assert len(store.runs(limit=500)) == 200


def test_importing_the_store_loads_no_database_library():
    code = (
        "import sys, harness.store; "
        "print([name for name in sys.modules if name.split('.')[0] in "
        "{'sqlalchemy', 'sqlmodel', 'alembic', 'psycopg', 'pydantic', 'numpy'}])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_opening_a_current_database_does_not_load_alembic(sqlite_url):
    open_store(sqlite_url).close()
    code = (
        f"import sys; from harness.store import open_store; open_store({sqlite_url!r}); print('alembic' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
