"""``goldfork store`` as a person and a machine call it."""

import hashlib
import json
import sqlite3
import sys

import pytest

import harness.cli._store
from harness.cli import main
from harness.store import open_store

assert harness.cli._store  # registers the command


@pytest.fixture
def goldfork(monkeypatch, capsys):
    """Runs a command on the store of a file; exit code, stdout, stderr."""

    def run(path, *arguments):
        monkeypatch.setenv("GOLDFORK_DATABASE_URL", f"sqlite:///{path}")
        monkeypatch.setattr(sys, "argv", ["goldfork", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


@pytest.fixture
def path(tmp_path):
    with open_store(f"sqlite:///{tmp_path / 'goldfork.db'}") as store:
        content = b"content " * 50
        store.write(blobs={hashlib.sha256(content).hexdigest(): content}).result(30)
    return tmp_path / "goldfork.db"


def test_check_prints_one_json_object_and_fails_on_damage(goldfork, path):
    code, out, err = goldfork(path, "store", "check", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"ok": True, "blobs": 1, "messages": 0, "faults": []}
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE blobs SET hash = zeroblob(32)")
    connection.close()
    code, out, _ = goldfork(path, "store", "check")
    assert code == 1
    assert "faults: 1" in out
    assert "has changed" in out


def test_stats_and_gc_print_json(goldfork, path):
    stats = json.loads(goldfork(path, "store", "stats", "--json")[1])
    assert stats["content_bytes"] == 400
    assert {"table": "runs", "rows": 0} in [{"table": t["table"], "rows": t["rows"]} for t in stats["tables"]]
    removed = json.loads(goldfork(path, "store", "gc", "--json")[1])
    assert removed == {"blobs": 0, "chains": 0, "bytes": 0, "kept_recent": 1, "expired_tool_results": 0}


def test_a_store_that_is_not_there_is_one_line_and_exit_code_2(goldfork, tmp_path):
    code, _, err = goldfork(tmp_path / "none.db", "store", "check")
    assert code == 2
    assert err.startswith("goldfork: cannot open")
    assert err.count("\n") == 1
    assert not (tmp_path / "none.db").exists()
