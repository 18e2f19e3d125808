"""``goldfork store`` as a person and a machine call it."""

import hashlib
import json
import sqlite3
import subprocess
import sys

import pytest

from harness.store import open_store

_MAIN = "import sys, harness.cli._store; from harness.cli import main; sys.argv[0] = 'goldfork'; main()"


def _goldfork(path, *arguments):
    return subprocess.run(
        [sys.executable, "-c", _MAIN, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"GOLDFORK_DATABASE_URL": f"sqlite:///{path}", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )


@pytest.fixture
def path(tmp_path):
    with open_store(f"sqlite:///{tmp_path / 'goldfork.db'}") as store:
        content = b"content " * 50
        store.write(blobs={hashlib.sha256(content).hexdigest(): content}).result(30)
    return tmp_path / "goldfork.db"


def test_check_prints_one_json_object_and_fails_on_damage(path):
    done = _goldfork(path, "store", "check", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"ok": True, "blobs": 1, "messages": 0, "faults": []}
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE blobs SET hash = zeroblob(32)")
    connection.close()
    damaged = _goldfork(path, "store", "check")
    assert damaged.returncode == 1
    assert "faults: 1" in damaged.stdout
    assert "has changed" in damaged.stdout


def test_stats_and_gc_print_json(path):
    stats = json.loads(_goldfork(path, "store", "stats", "--json").stdout)
    assert stats["content_bytes"] == 400
    assert {"table": "runs", "rows": 0} in [{"table": t["table"], "rows": t["rows"]} for t in stats["tables"]]
    removed = json.loads(_goldfork(path, "store", "gc", "--json").stdout)
    assert removed == {"blobs": 0, "chains": 0, "bytes": 0, "kept_recent": 1}


def test_a_store_that_is_not_there_is_one_line_and_exit_code_2(tmp_path):
    done = _goldfork(tmp_path / "none.db", "store", "check")
    assert done.returncode == 2
    assert done.stderr.startswith("goldfork: cannot open")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "none.db").exists()
