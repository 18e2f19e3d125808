"""The numbers that the triggers keep are those that counting gives, whatever happens to the rows."""

import threading
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.store import open_store
from harness.store._group import Job

KINDS = ("run", "score", "otel", "span")
STATES = ("pending", "accepted", "verified", "dead")
IDS = st.lists(st.sampled_from("abcdef"), max_size=6)
DEEDS = st.lists(
    st.tuples(st.just("enter"), st.sampled_from(KINDS), IDS, st.booleans())
    | st.tuples(st.just("move"), st.sampled_from(KINDS), IDS, st.sampled_from(STATES))
    | st.tuples(st.just("delete"), st.sampled_from(KINDS), st.sampled_from(STATES))
    | st.tuples(st.just("again"), st.booleans()),
    max_size=12,
)


def counted(store, kinds=KINDS):
    found = dict.fromkeys(STATES, 0)
    for row in store.load("outbox"):
        found[row["state"]] += row["kind"] in kinds
    return found


def do(store, deed):
    outbox = store.outbox
    match deed:
        case ("enter", kind, ids, repair):
            outbox.enter(kind, ids, repair=repair)
        case ("move", kind, ids, state):
            entries = outbox.entries((kind,), STATES, limit=100)
            outbox.update([replace(entry, state=state) for entry in entries if entry.id in ids])
        case ("delete", kind, state):
            statement = f"DELETE FROM outbox WHERE kind = {store._database.mark} AND state = {store._database.mark}"
            job = Job(statements=[(statement, [(kind, state)])])
            store._writer.submit(job)
            job.future.result(30)
        case ("again", again):
            outbox.backfill(again=again)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=DEEDS)
def test_counts_are_what_counting_gives(store, deeds):
    for deed in deeds:
        do(store, deed)
        assert store.outbox.counts() == counted(store)
    for kinds in (("run",), ("score", "span")):
        assert store.outbox.counts(kinds) == counted(store, kinds)


def test_counts_of_several_writers_add_up(url, records):
    def write(number):
        with open_store(url, durability="normal") as store:
            for turn in range(20):
                run = records_of[number][turn]
                store.write(run).result(30)
                store.outbox.enter("score", [f"{number}-{turn}", f"{number}-{turn}-b"])
            entries = store.outbox.due(("score",), ("pending",), now=datetime.now(UTC), limit=1000)
            store.outbox.update([replace(one, state="dead") for one in entries if one.id.startswith(f"{number}-")])

    records_of = [[records.done(records.run()) for _ in range(20)] for _ in range(4)]
    with open_store(url) as store:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.outbox.counts() == counted(store) == {"pending": 80, "accepted": 0, "verified": 0, "dead": 160}


def test_what_is_rolled_back_is_not_counted(store):
    def fail(driver):
        driver.many(f"DELETE FROM outbox WHERE kind = {store._database.mark}", [("run",)])
        raise ValueError("on purpose")

    store.outbox.enter("run", ["a", "b"])
    job = Job(action=fail)
    store._writer.submit(job)
    assert job.future.exception(30) is not None
    assert store.outbox.counts()["pending"] == 2
