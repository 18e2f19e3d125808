"""Records written to the store come back as they were, on every backend."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from sqlalchemy import create_engine, text

from harness.errors import DatasetMissing, StoreError, UsageError
from harness.record import ChunkRecord, Exchange, Usage, VolatileRecord
from harness.store import open_store


def _write(store, *values, blobs=None):
    store.write(*values, blobs=blobs).result(30)


def _requests(turns):
    messages = [{"role": "system", "content": "You answer briefly. " * 60}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Question {turn}: where is my parcel? " * 5})
        yield json.dumps({"model": "m", "messages": messages}).encode()
        messages.append({"role": "assistant", "content": f"Answer {turn}"})


def test_a_run_comes_back_equal(store, records):
    run = records.done(
        records.run(
            tags=("a", "b"),
            metadata={"user": "ü", "n": 2**70, "none": None},
            input_hash=records.hash(b"in"),
            output_hash=records.hash(b"out"),
            change={"kind": "model", "at": "draft", "name": "", "value": "m-2"},
            case="parcel-late",
            trial=3,
        )
    )
    step = records.step(run, determinism="time-bound", ttl=300.0, version="2", kind="tool", error="KeyError: 'x'")
    message = records.message(run, b'{"a":1}', step_id=step.id, streamed=True)
    chunked = replace(message.exchanges[0], chunks=((10, 0.5), (20, 1.25)))
    failed = Exchange(status=None, error="ConnectError: refused")
    message = replace(message, exchanges=(failed, chunked))
    values = [
        VolatileRecord(run_id=run.id, scope="draft", name="now", occurrence=n, value=value)
        for n, value in enumerate(["2026-11-30", 1.5, None, True])
    ]
    _write(store, run, step, message, *values, blobs=records.blobs(b'{"a":1}', b"{}", b"in", b"out"))
    found = store.recording(run.id)
    assert found.run == run
    assert found.steps == (step,)
    assert found.messages == (message,)
    assert found.volatile == tuple(values)
    assert found.read(run.output_hash) == b"out"
    assert found.rules == "v1"
    assert store.check().ok


def test_unknown_usage_and_cost_stay_unknown(store, records):
    run = records.run()
    message = records.message(run, b"{}", usage=Usage(), cost=None, latency_ms=None)
    _write(store, run, message, blobs=records.blobs(b"{}"))
    [found] = store.recording(run.id).messages
    assert found.usage == Usage()
    assert found.cost is None
    [summary] = store.runs()
    assert (summary.input_tokens, summary.cost, summary.unknown_usage) == (None, None, 1)


def test_costs_in_two_currencies_have_no_sum(store, records):
    run = records.run()
    for number, currency in enumerate(["EUR", "USD"]):
        message = records.message(run, b"{}", cost=Decimal(1), currency=currency, seq=number)
        _write(store, message, blobs=records.blobs(b"{}"))
    _write(store, run)
    assert [message.currency for message in store.recording(run.id).messages] == ["EUR", "USD"]
    assert store.runs()[0].cost is None


def test_a_run_of_other_key_rules_is_refused_in_one_sentence(url, records):
    run = records.run()
    with open_store(url) as store:
        _write(store, run)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE runs SET rules = 'v0'"))
    engine.dispose()
    with open_store(url) as store, pytest.raises(UsageError, match="under key rules 'v0', this version uses 'v1'"):
        store.recording(run.id)


def test_money_is_exact(store, records):
    run = records.run()
    costs = [Decimal("0.1"), Decimal("0.2"), Decimal("0.00000000000000000000000001")]
    for number, cost in enumerate(costs):
        _write(store, records.message(run, b"{}", cost=cost, seq=number), blobs=records.blobs(b"{}"))
    _write(store, run)
    assert [message.cost for message in store.recording(run.id).messages] == costs
    assert store.runs()[0].cost == sum(costs)


def test_order_is_by_seq_not_by_clock_or_arrival(store, records):
    run = records.run()
    late = records.message(run, b"{}", seq=1, started_at=datetime(2026, 12, 1, tzinfo=UTC))
    early = records.message(run, b"{}", seq=2, started_at=datetime(2026, 1, 1, tzinfo=UTC))
    _write(store, early, blobs=records.blobs(b"{}"))
    _write(store, run, late)
    assert [message.seq for message in store.recording(run.id).messages] == [1, 2]


def test_times_are_utc_and_zoneless_ones_are_refused(store, records):
    local = datetime(2026, 3, 29, 3, 0, 1, tzinfo=timezone(timedelta(hours=2)))
    run = records.run(started_at=local)
    _write(store, run)
    found = store.run(run.id)
    assert found.started_at == local
    assert found.started_at.tzinfo is UTC
    with pytest.raises(StoreError, match="no zone"):
        store.write(records.run(started_at=datetime(2026, 3, 29, 3, 0, 1))).result(30)  # noqa: DTZ001 - what is refused


def test_a_later_record_replaces_the_earlier_one(store, records):
    run = records.run()
    request = b'{"messages":[]}'
    message = records.message(run, request, b"answer")
    _write(store, run, replace(message, status="running", exchanges=()), blobs=records.blobs(request))
    _write(store, message, blobs=records.blobs(b"answer"))
    _write(store, records.done(run))
    found = store.recording(run.id)
    assert found.run.status == "ok"
    assert found.messages == (message,)
    assert found.read(message.request_hash) == request


def test_known_content_is_not_stored_again(store, records):
    run = records.run()
    content = b"x" * 5000
    _write(store, run, blobs=records.blobs(content))
    _write(store, blobs=records.blobs(content))
    assert [row["size"] for row in store.load("blobs")] == [5000]


def test_request_bodies_come_back_byte_for_byte(store, records):
    run = records.run()
    bodies = list(_requests(12))
    for number, body in enumerate(bodies):
        _write(store, records.message(run, body, seq=number), run, blobs=records.blobs(body, b"{}"))
    found = store.recording(run.id)
    assert [found.read(message.request_hash) for message in found.messages] == bodies
    rows = store.load("blobs")
    assert sum(row["codec"] == 2 for row in rows) == len(bodies)
    assert sum(row["size"] for row in rows if row["codec"] != 2) < 2 * len(bodies[-1])
    assert all(row["request_chain"] is not None for row in store.load("messages"))
    assert store.check().ok


def test_the_chain_stays_when_the_final_record_comes_without_the_body(store, records):
    run = records.run()
    body = list(_requests(5))[-1]
    message = records.message(run, body)
    _write(store, run, replace(message, status="running", exchanges=()), blobs=records.blobs(body))
    [before] = store.load("messages")
    store._writer._content.rolled_back()
    _write(store, message, blobs=records.blobs(b"{}"))
    [after] = store.load("messages")
    assert after["request_chain"] == before["request_chain"] is not None


def test_a_second_process_continues_the_chain(store, url, records):
    run = records.run()
    *earlier, last = _requests(9)
    for number, body in enumerate(earlier):
        _write(store, records.message(run, body, seq=number), run, blobs=records.blobs(body, b"{}"))
    before = len(store.load("chains"))
    with open_store(url, durability="normal") as other:
        _write(other, records.message(run, last, seq=50), blobs=records.blobs(last))
        assert other.read(records.hash(last)) == last
    assert len(store.load("chains")) == before + 2


def test_a_body_that_is_no_json_is_kept_whole(store, records):
    run = records.run()
    body = b'{"messages":[{"role":"user","content":"' + b"\xff\x00" * 2000 + b'"}]}'
    _write(store, run, records.message(run, body), blobs=records.blobs(body, b"{}"))
    assert store.read(records.hash(body)) == body
    assert store.stats().whole_requests == 1


def test_chunks_of_a_dead_process_become_an_interrupted_message(store, records):
    run = records.run(owner="elsewhere:1:1")
    message = records.message(run, b"{}", status="running", exchanges=(), streamed=True)
    pieces = [
        ChunkRecord(message_id=message.id, index=n, data=b"data: %d\n\n" % n, offset_ms=n + 0.5) for n in range(3)
    ]
    _write(store, run, message, *pieces, blobs=records.blobs(b"{}"))
    [running] = store.recording(run.id).messages
    assert running.status == "running"
    _silence(store, run)
    found = store.recording(run.id)
    [interrupted] = found.messages
    assert (found.run.status, interrupted.status) == ("interrupted", "interrupted")
    assert found.read(interrupted.answer.body_hash) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert interrupted.answer.chunks == ((9, 0.5), (18, 1.5), (27, 2.5))


def _silence(store, run):
    """Let the run's last heartbeat be two minutes old."""
    from harness.store._group import Job

    packing, mark = store._database.driver().packing, store._database.mark
    stamp = packing.time(datetime.now(UTC) - timedelta(minutes=2))
    statement = f"UPDATE runs SET heartbeat_at = {mark} WHERE id = {mark}"
    job = Job(statements=[(statement, [(stamp, packing.id(run.id))])])
    store._writer.submit(job)
    job.future.result(30)


def test_the_writer_says_that_its_runs_are_alive(store, records):
    run = records.run(owner="elsewhere:1:1")
    _write(store, run)
    _silence(store, run)
    assert [found.status for found in store.runs()] == ["abandoned"]
    store._writer._beat = 0.0
    store.write().result(30)
    assert store.flush()
    assert [found.status for found in store.runs()] == ["running"]


def test_the_final_record_removes_the_chunks(store, records):
    run = records.run()
    message = records.message(run, b"{}", b"data: 1\n\n", streamed=True)
    running = replace(message, status="running", exchanges=())
    _write(store, run, running, ChunkRecord(message_id=message.id, index=0, data=b"data:", offset_ms=1.0))
    _write(store, message, blobs=records.blobs(b"{}", b"data: 1\n\n"))
    assert store.load("chunks") == []
    assert store.recording(run.id).messages == (message,)


def test_a_run_is_abandoned_when_its_process_is_gone(store, records):
    import os

    gone = records.run(owner=f"{os.uname().nodename}:4194303:1")
    silent = records.run(owner="elsewhere:1:1")
    alive = records.run(owner="elsewhere:2:1")
    ended = records.done(records.run())
    _write(store, gone, silent, alive, ended)
    _silence(store, silent)
    assert {run.id: run.status for run in store.runs()} == {
        gone.id: "abandoned",
        silent.id: "abandoned",
        alive.id: "running",
        ended.id: "ok",
    }
    assert {run.id for run in store.runs(status="abandoned")} == {gone.id, silent.id}
    assert [run.id for run in store.runs(status="running")] == [alive.id]
    assert store.run(gone.id).status == "interrupted"


def test_a_run_is_found_by_an_unambiguous_beginning(store, records):
    first, second = records.run(), records.run()
    _write(store, first, second)
    assert store.run(first.id.replace("-", "")[:12].upper()).id == first.id
    assert store.run("no-such-run") is None
    with pytest.raises(UsageError, match="ambiguous"):
        store.run(first.id[:3])


def test_a_workflow_name_finds_its_newest_good_run(store, records):
    good = records.done(records.run())
    newer = records.done(records.run())
    replayed = records.done(records.run(mode="replay", parent_run_id=newer.id))
    failed = records.done(records.run(), status="error")
    unusable = records.done(records.run(usable=False))
    imported = records.done(records.run(fidelity="imported"))
    other = records.done(records.run(workflow="other"))
    fork = records.done(records.run(parent_run_id=newer.id, arm="fork:abc"))
    _write(store, good, newer, replayed, failed, unusable, imported, other, fork)
    assert store.recording("triage").run.id == newer.id
    assert store.recording("nothing") is None
    assert store.recording(newer.id, arm="fork:abc").run.id == fork.id
    assert store.recording(good.id, arm="fork:abc") is None
    assert store.recording(fork.id).run.id == fork.id


def test_missing_content_is_named(store, records):
    with pytest.raises(DatasetMissing, match="0" * 64):
        store.read("0" * 64)


def test_a_finished_run_enters_the_outbox_once(store, records):
    run = records.run()
    _write(store, run)
    assert store.load("outbox") == []
    _write(store, records.done(run))
    _write(store, records.done(run))
    assert [(row["kind"], row["id"], row["state"]) for row in store.load("outbox")] == [("run", run.id, "pending")]


def test_a_bad_record_fails_only_its_own_future(store, records):
    run = records.run()
    bad = replace(records.run(), id="not-a-uuid")
    too_big = records.message(run, b"{}", seq=2**80)
    futures = [store.write(record) for record in (run, bad, too_big, records.step(run))]
    for future in (futures[0], futures[3]):
        future.result(30)
    with pytest.raises(StoreError, match="not-a-uuid"):
        futures[1].result(30)
    with pytest.raises(StoreError, match="did not take"):
        futures[2].result(30)
    assert len(store.recording(run.id).steps) == 1


def test_a_url_with_a_password_is_never_shown(postgres_url, records):
    with open_store(postgres_url.replace("postgres:@", "postgres:secret-word@")) as store:
        assert "secret-word" not in store.name
        store.close()
        error = store.write(records.run()).exception(30)
        assert "secret-word" not in str(error)
