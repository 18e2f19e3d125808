"""What is entered anew, by whom, and what a late update of an earlier round may not undo."""

import json
import socket
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.record import ChunkRecord
from harness.store import OutboxEntry, open_store, score_id

FAR = timedelta(days=1)
SCORE = {"experiment": "e", "case": "c", "arm": "recorded", "trial": 0, "evaluator": "judge", "name": "tone"}
GONE = f"{socket.gethostname()}:999999999:1"


def now():
    return datetime.now(UTC)


def due(store, kind="run", state="pending"):
    return store.outbox.due((kind,), (state,), now=now() + FAR, limit=10_000)


def verify(store, kind="run"):
    store.outbox.update([replace(entry, state="verified", frozen=None) for entry in due(store, kind)])


def finished(records, **changes):
    return replace(records.run(), status="ok", ended_at=now(), **changes)


@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        ("value", 0.5, 0.25),
        ("value", 1, None),
        ("value", None, "yes"),
        ("reason", "because \x00 ü", "because"),
        ("low", None, 0.1),
        ("n", 3, 4),
        ("detail", {"a": [1]}, {"a": [2]}),
        ("status", "failed", "scored"),
    ],
)
def test_a_score_saved_again_is_sent_again_only_when_it_changed(store, column, before, after):
    row = {**SCORE, "value": 1, "low": 0.25, "high": 1, "n": 2, "note": {"kept": True}}
    store.save("scores", [{**row, column: before}])
    verify(store, "score")
    store.save("scores", [{**row, column: before}])
    assert due(store, "score") == []
    store.save("scores", [{**row, column: after}])
    assert [entry.id for entry in due(store, "score")] == [score_id(SCORE)]


def test_a_score_saved_in_part_is_compared_in_that_part(store):
    store.save("scores", [{**SCORE, "value": 1, "reason": "r"}])
    verify(store, "score")
    store.save("scores", [{**SCORE, "value": 1}])
    assert due(store, "score") == []
    store.save("scores", [{**SCORE, "name": "other", "value": 1}])
    assert len(due(store, "score")) == 1


def test_a_score_whose_write_fails_is_not_entered(store):
    with pytest.raises(UsageError):
        store.save("scores", [SCORE, {"experiment": "e"}])
    assert due(store, "score") == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(max_size=12), case=st.text(max_size=12))
def test_a_score_has_one_id_whoever_enters_it(store, name, case):
    row = {**SCORE, "experiment": "own", "case": case, "name": name}
    store.save("scores", [row])
    assert store.outbox.backfill(again=False) == 0
    [entry] = [e for e in due(store, "score") if e.id == score_id(row)]
    assert json.loads(entry.id) == ["own", case, "recorded", 0, "judge", name]


def test_a_refused_piece_is_dead_again_in_a_later_round(store):
    piece = OutboxEntry(kind="span", id="r/s", state="dead", attempts=1, created_at=now(), due_at=now(), error="no")
    store.outbox.update([piece])
    store.outbox.update([replace(piece, state="verified", error="sent again")])
    store.outbox.update([replace(piece, error="no again", round=1)])
    assert [entry.error for entry in due(store, "span", "dead")] == ["no again"]
    store.outbox.update([replace(piece, state="verified", round=0)])
    assert len(due(store, "span", "dead")) == 1


def test_a_run_that_was_swept_in_and_finishes_after_all_is_sent_anew(store, records):
    run = records.run(owner=GONE)
    store.write(run).result()
    assert store.outbox.sweep() == 1
    verify(store)
    store.write(replace(run, status="ok", ended_at=now())).result()
    [entry] = due(store)
    assert (entry.extra, entry.round) == ({"repair": True}, 1)
    verify(store)
    store.write(replace(run, status="ok", ended_at=now())).result()
    assert due(store) == []


def test_every_abandoned_run_is_swept_in_once(store, records):
    store.write(*(records.run(owner=GONE) for _ in range(1200)), records.run()).result()
    store.write(records.run(owner=GONE, fidelity="imported")).result()
    assert store.outbox.sweep() == 1200
    assert store.outbox.sweep() == 0


def test_backfill_keeps_the_bytes_of_what_is_dead_and_leaves_the_waiting_alone(store, records):
    store.write(*(finished(records) for _ in range(3))).result()
    dead, accepted, verified = due(store)
    store.outbox.update(
        [
            replace(dead, state="dead", frozen=b"x", frozen_hash="a" * 64, error="no", attempts=9),
            replace(accepted, state="accepted", frozen=b"y", frozen_hash="b" * 64),
            replace(verified, state="verified"),
        ]
    )
    store.outbox.update(
        [OutboxEntry(kind="span", id="r/s", state="dead", attempts=1, created_at=now(), due_at=now(), error="no")]
    )
    assert store.outbox.backfill(again=True) == 2
    found = {entry.id: entry for entry in due(store)}
    assert set(found) == {dead.id, verified.id}
    assert (found[dead.id].frozen, found[dead.id].error, found[dead.id].attempts) == (b"x", None, 0)
    assert [entry.id for entry in due(store, state="accepted")] == [accepted.id]
    assert len(due(store, "span", "dead")) == 1


def test_others_write_while_a_backfill_runs(url):
    with open_store(url, durability="normal") as store, open_store(url, durability="normal") as other:
        store.outbox.enter("run", [f"{number:06}" for number in range(12_000)])
        store.outbox.update([replace(entry, state="verified") for entry in due(store)])
        written, done = [], threading.Event()

        def write():
            while not done.is_set():
                other.outbox.note("lane", {"at": time.time()})
                written.append(1)

        thread = threading.Thread(target=write)
        thread.start()
        while not written:
            time.sleep(0.001)
        before = len(written)
        assert store.outbox.backfill(again=True) == 10_000
        during = len(written) - before
        done.set()
        thread.join()
    assert during > 2


def test_however_many_are_due_at_one_moment_only_as_many_as_asked_come(store):
    store.outbox.enter("run", [f"r{number}" for number in range(30)])
    store.outbox.enter("score", ["[]"])
    moment = now()
    store.outbox.update([replace(entry, due_at=moment) for entry in due(store)])
    [score] = due(store, "score")
    store.outbox.update([replace(score, due_at=moment - timedelta(seconds=1))])
    found = store.outbox.due(("run", "score"), ("pending", "accepted"), now=moment, limit=10)
    assert len(found) == 10
    assert found[0].kind == "score"
    assert len({entry.id for entry in found}) == 10


def test_the_counts_of_one_lane_leave_out_the_others(store):
    store.outbox.enter("run", ["a", "b"])
    store.outbox.enter("otel", ["a", "b", "c"])
    store.outbox.enter("score", ["[]"])
    verify(store, "otel")
    verify(store, "score")
    assert store.outbox.counts(("run", "score")) == {"pending": 2, "accepted": 0, "verified": 1, "dead": 0}
    assert store.outbox.counts(("otel",)) == {"pending": 0, "accepted": 0, "verified": 3, "dead": 0}
    assert store.outbox.counts() == {"pending": 2, "accepted": 0, "verified": 4, "dead": 0}


def test_a_running_run_is_not_tagged(store, records):
    run, imported = records.run(), finished(records, fidelity="imported")
    store.write(run, imported).result()
    with pytest.raises(UsageError, match=f"{run.id}.*still running"):
        store.tag(run.id, ["x"])
    store.tag(imported.id, ["x"])
    assert store.run(imported.id).tags == ("x",)
    assert due(store) == []


def test_two_processes_note_at_once_and_neither_note_is_lost(url):
    code = textwrap.dedent(
        """
        import sys
        from harness.store import open_store
        with open_store(sys.argv[1]) as store:
            for i in range(25):
                store.outbox.note(f"lane{i}", {sys.argv[2]: i})
        """
    )
    open_store(url).close()
    racing = [subprocess.Popen([sys.executable, "-c", code, url, name]) for name in "ab"]
    assert [process.wait(60) for process in racing] == [0, 0]
    with open_store(url) as store:
        assert [store.outbox.notes(f"lane{i}") for i in range(25)] == [{"a": i, "b": i} for i in range(25)]


def test_a_lease_taken_over_is_not_given_back_by_its_earlier_holder(store):
    start = now()
    assert store.outbox.lease("lane", "a", seconds=5, now=start)
    assert store.outbox.lease("lane", "b", seconds=5, now=start + timedelta(seconds=5))
    assert not store.outbox.lease("lane", "a", seconds=5, now=start + timedelta(seconds=6))
    store.outbox.release("lane", "a")
    assert store.outbox.holder("lane", now=start + timedelta(seconds=6)) == "b"
    store.outbox.note("lane", {"kept": 1})
    store.outbox.release("lane", "b")
    assert store.outbox.notes("lane") == {"kept": 1}


def test_more_recordings_than_one_query_takes_with_what_an_abandoned_one_had_received(store, records):
    runs = [finished(records) for _ in range(450)]
    store.write(*runs).result()
    gone = records.run(owner=GONE)
    message = records.message(gone, b"{}", status="running", exchanges=(), streamed=True)
    pieces = [ChunkRecord(message_id=message.id, index=i, data=b"part%d" % i, offset_ms=float(i)) for i in range(3)]
    store.write(gone, records.step(gone, status="running"), message, *pieces, blobs=records.blobs(b"{}")).result()
    ids = [runs[0].id, gone.id, *(run.id for run in runs[1:]), runs[0].id]
    many = store.recordings(ids)
    assert [one.run.id for one in many] == ids
    for one in (many[0], many[1], many[-2]):
        alone = store.recording(one.run.id)
        assert (one.run, one.steps, one.messages, one.volatile, one.rules) == (
            alone.run, alone.steps, alone.messages, alone.volatile, alone.rules)  # fmt: skip
    assert many[1].run.status == many[1].steps[0].status == "interrupted"
    assert many[1].read(many[1].messages[0].answer.body_hash) == b"part0part1part2"
