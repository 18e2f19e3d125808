"""Keys take few bytes on disk and come back as they were; a writer keeps no more in memory than it says."""

import sqlite3
import threading
import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.record import RunRecord
from harness.store import _writer, open_store
from harness.store._packing import pack_key, unpack_key

HEX = "0123456789abcdef" * 4


@given(st.text(st.characters(exclude_categories=[])) | st.sampled_from(["x" * n for n in (30, 31, 32, 33)]))
def test_any_key_comes_back(key):
    assert unpack_key(pack_key(key)) == key


@pytest.mark.parametrize(
    ("key", "size"), [(HEX, 32), (f"v1:{HEX}", 34), (f"v12:{HEX}", 34), ("custom", 7), (HEX.upper(), 65)]
)
def test_a_digest_takes_its_own_bytes(key, size):
    assert len(pack_key(key)) == size
    assert unpack_key(pack_key(key)) == key


def test_keys_of_different_kinds_stay_apart():
    keys = [HEX, f"v1:{HEX}", f"v2:{HEX}", HEX.upper(), bytes.fromhex(HEX).decode("latin-1"), "\x02" * 31, "\x01" * 31]
    assert len({pack_key(key) for key in keys}) == len(keys)


def test_a_writer_that_cannot_keep_up_makes_its_callers_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(_writer, "_QUEUE_JOBS", 2)
    with open_store(f"sqlite:///{tmp_path / 'goldfork.db'}", durability="normal") as store:
        now = datetime.now(UTC)
        other = sqlite3.connect(tmp_path / "goldfork.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        runs = [
            RunRecord(id=str(uuid.uuid4()), workflow="w", status="ok", mode="live", started_at=now) for _ in range(8)
        ]
        futures = []
        caller = threading.Thread(target=lambda: futures.extend(store.write(run) for run in runs))
        caller.start()
        caller.join(0.3)
        assert caller.is_alive()
        other.execute("COMMIT")
        other.close()
        caller.join(30)
        assert [future.result(30) for future in futures] == [None] * 8
        assert len(store.runs()) == 8
