"""The outbox: what is entered when, what comes back first, and who may work on it."""

import socket
import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from harness.errors import UsageError
from harness.store import OutboxEntry, open_store, score_id

FAR = timedelta(days=1)
SCORE = {"experiment": "e", "case": "c", "arm": "recorded", "trial": 0, "evaluator": "judge", "name": "tone"}


def now():
    return datetime.now(UTC)


def due(store, kind="run", state="pending", at=None):
    return store.outbox.due((kind,), (state,), now=at or now() + FAR, limit=1000)


def finished(records, **changes):
    return replace(records.run(), status="ok", ended_at=now(), **changes)


def test_a_finished_run_is_entered_once_with_it(store, records):
    run = records.run()
    store.write(run).result()
    assert due(store) == []
    done = replace(run, status="ok", ended_at=now())
    store.write(done).result()
    store.write(done).result()
    [entry] = due(store)
    assert (entry.kind, entry.id, entry.state, entry.attempts, entry.frozen) == ("run", run.id, "pending", 0, None)
    assert entry.due_at <= now()


def test_an_imported_run_is_never_entered(store, records):
    store.write(finished(records, fidelity="imported")).result()
    store.outbox.backfill(again=False)
    assert due(store) == []


def test_a_score_is_entered_with_it_and_again_when_it_is_saved_again(store):
    store.save("scores", [{**SCORE, "value": 1}])
    [entry] = due(store, "score")
    assert entry.id == score_id(SCORE) == '["e","c","recorded",0,"judge","tone"]'
    store.outbox.update([replace(entry, state="verified")])
    store.save("scores", [{**SCORE, "value": 0}])
    assert [e.id for e in due(store, "score")] == [entry.id]


def test_entries_come_back_as_they_were_written(store):
    assert store.outbox.enter("run", ["r/1 ü\x00", "r2"]) == 2
    assert store.outbox.enter("run", ["r2", "r3"]) == 1
    [first, *_] = due(store)
    written = replace(
        first,
        state="accepted",
        attempts=3,
        error="went\x00wrong",
        frozen=b"\x00bytes",
        frozen_hash="a" * 64,
        extra={"step": [1, None, "ü"]},
        due_at=now() + timedelta(hours=1),
    )
    store.outbox.update([written])
    [again] = store.outbox.entries(("run",), ("accepted",), limit=9)
    assert replace(again, updated_at=None) == written
    assert again.updated_at is not None
    assert due(store, state="accepted", at=now()) == []


def test_the_longest_waiting_come_first_and_no_more_than_asked(store):
    store.outbox.enter("run", [f"r{i}" for i in range(5)])
    entries = due(store)
    start = now()
    store.outbox.update([replace(e, due_at=start + timedelta(seconds=5 - i)) for i, e in enumerate(entries)])
    assert [e.id for e in due(store)] == ["r4", "r3", "r2", "r1", "r0"]
    assert [e.id for e in store.outbox.due(("run",), ("pending",), now=start + timedelta(seconds=3), limit=2)] == [
        "r4",
        "r3",
    ]


def test_an_update_may_bring_a_new_entry(store):
    store.outbox.update(
        [OutboxEntry(kind="span", id="r/s", state="dead", attempts=1, created_at=now(), due_at=now(), error="no")]
    )
    assert [e.error for e in store.outbox.entries(("span",), ("dead",), limit=9)] == ["no"]


def test_what_is_entered_for_repair_is_not_overwritten_by_who_worked_on_it(store):
    store.outbox.enter("run", ["r"])
    [entry] = due(store)
    worked_on = replace(entry, state="verified", frozen=b"x", frozen_hash="b" * 64)
    assert store.outbox.enter("run", ["r"], repair=True) == 1
    store.outbox.update([worked_on])
    [again] = due(store)
    assert (again.state, again.frozen, again.extra) == ("pending", None, {"repair": True})
    store.outbox.update([replace(again, state="verified", extra={})])
    assert store.outbox.counts()["verified"] == 1


def test_counts_and_the_oldest_unverified(store):
    assert store.outbox.oldest_unverified() is None
    store.outbox.enter("run", ["a", "b"])
    store.outbox.enter("score", ["c"])
    a, b = due(store)
    assert store.outbox.oldest_unverified(("run",)) == min(a.created_at, b.created_at)
    store.outbox.update([replace(a, state="verified"), replace(b, state="dead")])
    assert store.outbox.counts() == {"pending": 1, "accepted": 0, "verified": 1, "dead": 1}
    assert store.outbox.counts(("run",)) == {"pending": 0, "accepted": 0, "verified": 1, "dead": 1}
    assert store.outbox.oldest_unverified(("run",)) is None


def test_backfill_enters_everything_and_doubles_nothing(store, records):
    runs = [finished(records) for _ in range(3)]
    store.write(*runs).result()
    store.save("scores", [{**SCORE, "case": f"c{i}"} for i in range(4)])
    assert store.outbox.backfill(again=False) == 0
    store.outbox.update([replace(e, state="verified") for kind in ("run", "score") for e in due(store, kind)])
    assert store.outbox.backfill(again=False) == 0
    assert store.outbox.backfill(again=True) == 7
    assert len(due(store)) == 3
    assert {e.id for e in due(store, "score")} == {score_id({**SCORE, "case": f"c{i}"}) for i in range(4)}


def test_an_abandoned_run_is_swept_in_and_a_running_one_is_not(store, records):
    gone = records.run(owner=f"{socket.gethostname()}:999999999:1")
    store.write(records.run(), gone).result()
    assert store.outbox.sweep() == 1
    assert [e.id for e in due(store)] == [gone.id]


def test_tags_are_replaced_and_sent_again(store, records):
    run = finished(records)
    store.write(run).result()
    [entry] = due(store)
    store.outbox.update([replace(entry, state="verified")])
    store.tag(run.id[:13], ["good", "ü"])
    assert store.run(run.id).tags == ("good", "ü")
    assert [e.extra for e in due(store)] == [{"repair": True}]
    with pytest.raises(UsageError, match="no such run"):
        store.tag("ffffffff", ["x"])


def test_a_lease_is_held_by_one(store):
    outbox, start = store.outbox, now()
    assert outbox.lease("lane", "a", seconds=10, now=start)
    assert not outbox.lease("lane", "b", seconds=10, now=start + timedelta(seconds=9))
    assert outbox.lease("lane", "a", seconds=10, now=start + timedelta(seconds=9))
    assert outbox.holder("lane", now=start + timedelta(seconds=15)) == "a"
    assert outbox.lease("lane", "b", seconds=10, now=start + timedelta(seconds=19))
    outbox.release("lane", "a")
    assert outbox.holder("lane", now=start + timedelta(seconds=20)) == "b"
    outbox.release("lane", "b")
    assert outbox.lease("lane", "c", seconds=10, now=start + timedelta(seconds=20))


def test_notes_are_merged_whoever_holds_the_lease(store):
    outbox = store.outbox
    assert outbox.notes("lane") == {}
    outbox.note("lane", {"paused": "401", "project": "p"})
    outbox.lease("lane", "a", seconds=1, now=now())
    outbox.note("lane", {"paused": None, "cursor": [1]})
    assert outbox.notes("lane") == {"project": "p", "cursor": [1]}


def test_two_processes_never_hold_one_lease(url):
    code = textwrap.dedent(
        """
        import sys, time
        from datetime import UTC, datetime
        from harness.store import open_store
        won = 0
        with open_store(sys.argv[1]) as store:
            for i in range(30):
                now = datetime.now(UTC)
                won += store.outbox.lease(f"lane{i}", sys.argv[2], seconds=600, now=now)
        print(won)
        """
    )
    open_store(url).close()
    racing = [
        subprocess.Popen([sys.executable, "-c", code, url, name], stdout=subprocess.PIPE, text=True) for name in "ab"
    ]
    won = [int(process.communicate(timeout=60)[0]) for process in racing]
    assert sum(won) == 30


def test_many_recordings_equal_those_read_one_by_one(store, records):
    runs = [finished(records) for _ in range(5)]
    for run in runs:
        step, request = records.step(run), f'{{"n": {run.id!r}}}'.encode()
        message = records.message(run, request, step_id=step.id)
        store.write(step, message, run, blobs=records.blobs(request, b"{}")).result()
    abandoned = records.run(owner=f"{socket.gethostname()}:999999999:1")
    store.write(abandoned, records.step(abandoned)).result()
    ids = [abandoned.id, *(run.id for run in reversed(runs))]
    many = store.recordings([*ids, "00000000-0000-7000-8000-000000000000", "nonsense"])
    assert [one.run.id for one in many] == ids
    for one in many:
        alone = store.recording(one.run.id)
        assert (one.run, one.steps, one.messages, one.volatile) == (
            alone.run,
            alone.steps,
            alone.messages,
            alone.volatile,
        )
