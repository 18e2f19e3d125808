"""Going through entries a page at a time: each once, by id, whatever is written back meanwhile."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from harness.store import OutboxEntry

BEGIN = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


def entry(number, **changes):
    # Many are made at one moment, as a backfill makes them.
    made = BEGIN + timedelta(seconds=number // 700)
    id_ = f"{number:05d}/\ud800"
    return OutboxEntry(
        **{"kind": "span", "id": id_, "state": "dead", "attempts": 1, "created_at": made, "due_at": made} | changes
    )


def test_every_entry_comes_once_by_id_although_each_page_is_written_back(store):
    entries = [entry(number) for number in range(2300)]
    others = [entry(1, kind="run", id="r"), entry(2, state="verified", id="v")]
    store.outbox.update([*reversed(entries), *others])
    seen = []
    for page in store.outbox.pages("span", "dead"):
        assert 0 < len(page) <= 1000
        seen += [found.id for found in page]
        store.outbox.update([replace(found, state="verified") for found in page])
    assert seen == [made.id for made in entries]
    assert list(store.outbox.pages("span", "dead")) == []
    assert [[found.id] for [found] in store.outbox.pages("run", "dead")] == [["r"]]
