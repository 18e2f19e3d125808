"""check finds every kind of damage, gc removes only what nothing needs, stats tells what takes the room."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from harness.errors import DatasetMissing
from harness.store import open_store


@pytest.fixture
def filled(sqlite_url, tmp_path, records, conversation):
    """A store with a conversation of six turns, and a connection to damage it with."""
    with open_store(sqlite_url, durability="normal") as store:
        run = records.run(output_hash=records.hash(b"output " * 50))
        store.write(run, blobs=records.blobs(b"output " * 50)).result(30)
        for number in range(6):
            request, response, _ = conversation.turn(number)
            store.write(records.message(run, request, response, seq=number), blobs=records.blobs(request, response))
        assert store.flush()
        connection = sqlite3.connect(tmp_path / "goldfork.db", isolation_level=None)
        yield store, connection
        connection.close()


def test_a_whole_store_passes(filled):
    store, _ = filled
    report = store.check()
    assert (report.ok, report.messages, report.faults) == (True, 6, ())
    assert report.blobs == len(store.load("blobs"))


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE blobs SET data = zeroblob(length(data)) WHERE codec = 1 AND size > 500", "content"),
        ("UPDATE blobs SET hash = randomblob(32) WHERE id = (SELECT max(id) FROM blobs)", "has changed"),
        ("UPDATE blobs SET chain = (SELECT min(id) FROM chains) WHERE codec = 2", "has changed"),
        ("UPDATE blobs SET base = NULL WHERE codec = 3", "relies on is gone"),
        ("DELETE FROM blobs WHERE codec = 2", "refers to request"),
        ("DELETE FROM blobs WHERE codec = 1 AND size > 1000", "exchange of message"),
        ("DELETE FROM chains WHERE id = 3", "belongs to link"),
        ("DELETE FROM runs", "belongs to run"),
        ("DELETE FROM messages", "belongs to message"),
        ("UPDATE runs SET output_hash = randomblob(32)", "refers to output"),
    ],
)
def test_damage_is_found_and_named(filled, damage, fault):
    store, connection = filled
    assert connection.execute(damage).rowcount > 0
    report = store.check()
    assert not report.ok
    assert any(fault in sentence for sentence in report.faults), report.faults


def test_a_damaged_file_is_a_fault_not_a_crash(sqlite_url, tmp_path, records):
    path = tmp_path / "goldfork.db"
    with open_store(sqlite_url) as store:
        for _ in range(300):
            store.write(records.run(metadata={"text": "word " * 200}))
    data = bytearray(path.read_bytes())
    for start in range(len(data) // 8192 // 2 * 8192, len(data), 8192):
        data[start + 100 : start + 4000] = b"\xff" * 3900
    path.write_bytes(data)
    with open_store(sqlite_url, read_only=True) as store:
        assert not store.check().ok


def test_gc_spares_what_was_touched_within_the_hour(filled):
    store, connection = filled
    connection.execute("DELETE FROM exchanges")
    connection.execute("DELETE FROM messages")
    report = store.gc()
    assert (report.blobs, report.chains) == (0, 0)
    assert report.kept_recent > 0


def test_gc_removes_what_nothing_needs_and_keeps_the_rest(filled, records):
    store, connection = filled
    store.write(blobs=records.blobs(b"lost" * 100)).result(30)
    last = max(store.load("messages"), key=lambda row: row["seq"])
    connection.execute("DELETE FROM exchanges")
    connection.execute("DELETE FROM messages WHERE seq < 5")
    for table in ("blobs", "chains"):
        connection.execute(f"UPDATE {table} SET touched = 0")
    seen = []
    report = store.gc(progress=lambda what, done, total: seen.append((what, done, total)))
    assert report.blobs > 0
    assert report.bytes > 0
    assert len(json.loads(store.read(last["request_hash"]))["messages"]) == 12
    assert store.check().faults == ()
    assert seen[-1][1] == seen[-1][2] > 0
    connection.execute("DELETE FROM messages")
    connection.execute("DELETE FROM runs")
    store.gc()
    assert store.load("blobs") == store.load("chains") == []


def test_gc_on_both_backends_leaves_a_sound_store(store, records):
    run = records.run()
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 900}] * 3}).encode()
    store.write(run, records.message(run, body), blobs=records.blobs(body, b"{}", b"lost" * 100)).result(30)
    _age(store)
    assert store.gc().blobs == 1
    assert store.read(records.hash(body)) == body
    assert store.check().ok


def test_gc_drops_shared_tool_results_past_their_ttl_with_their_content(store, records):
    now = datetime.now(UTC)
    results = {name: f"result {name} ".encode() * 50 for name in ("expired", "fresh", "for ever", "timeless")}
    store.write(blobs=records.blobs(*results.values())).result(30)
    rows = [
        {"key": "expired", "determinism": "time-bound", "ttl": 60.0, "stored_at": now - timedelta(seconds=61)},
        {"key": "fresh", "determinism": "time-bound", "ttl": 3600.0, "stored_at": now - timedelta(seconds=61)},
        {"key": "for ever", "determinism": "deterministic", "ttl": None, "stored_at": now - timedelta(days=999)},
        # What never changes does not expire, whatever is noted beside it.
        {"key": "timeless", "determinism": "deterministic", "ttl": 60.0, "stored_at": now - timedelta(days=999)},
    ]
    store.save("tool_cache", [{**row, "output_hash": records.hash(results[row["key"]])} for row in rows])
    for key, holder in (("expired", None), ("fresh", "somebody")):
        store.outbox.lease(f"tool:{key}", "somebody", seconds=60, now=now)
        if holder is None:
            store.outbox.release(f"tool:{key}", "somebody")
    _age(store)
    report = store.gc()
    assert (report.expired_tool_results, report.blobs) == (1, 1)
    assert [row["key"] for row in store.load("tool_cache")] == ["for ever", "fresh", "timeless"]
    assert [row["name"] for row in store.load("leases")] == ["tool:fresh"]
    with pytest.raises(DatasetMissing):
        store.read(records.hash(results["expired"]))
    assert store.gc().expired_tool_results == 0
    assert store.check().ok


def test_a_piece_may_itself_be_a_body_in_pieces(store, records):
    inner = {"history": [{"role": "user", "content": f"turn {number} " * 40} for number in range(6)]}
    outer = [inner, inner | {"n": 1}, inner | {"n": 2}, inner | {"n": 3}]
    first, second = (json.dumps(value, separators=(",", ":")).encode() for value in (inner, outer))
    run = records.run(input_hash=records.hash(first), output_hash=records.hash(second))
    store.write(blobs=records.blobs(first)).result(30)
    store.write(run, blobs=records.blobs(second)).result(30)
    assert sum(row["codec"] == 2 for row in store.load("blobs")) == 2
    _age(store)
    assert store.gc().blobs == 0
    assert store.read(run.output_hash) == second
    assert store.check().ok


def test_content_that_gc_removed_is_stored_again_by_the_same_writer(store, records):
    content = b"again" * 100
    store.write(blobs=records.blobs(content)).result(30)
    _age(store)
    store._writer._content.rolled_back()
    store.gc()
    run = records.run(output_hash=records.hash(content))
    store.write(run, blobs=records.blobs(content)).result(30)
    assert store.check().ok


def test_a_writer_that_meets_old_content_touches_it(store, records):
    content = b"old" * 100
    store.write(blobs=records.blobs(content)).result(30)
    _age(store)
    store._writer._content.rolled_back()
    store.write(blobs=records.blobs(content)).result(30)
    assert store.gc().blobs == 0


def _age(store):
    from harness.store._group import Job

    job = Job(
        statements=[(f"UPDATE {table} SET touched = {store._database.mark}", [(0,)]) for table in ("blobs", "chains")]
    )
    store._writer.submit(job)
    job.future.result(30)


def test_stats_count_rows_and_bytes(store, records):
    run = records.run()
    for number in range(20):
        body = json.dumps({"messages": [{"role": "user", "content": "hello " * 200}], "n": number}).encode()
        store.write(run, records.message(run, body, seq=number), blobs=records.blobs(body, b"{}")).result(30)
    found = store.stats()
    sizes = {size.table: size for size in found.tables}
    assert (sizes["runs"].rows, sizes["messages"].rows) == (1, 20)
    assert sizes["messages"].bytes > 0
    assert found.bytes >= sizes["messages"].bytes
    assert found.content_bytes > 20_000 > 5 * found.stored_bytes
    assert found.whole_requests == 0
