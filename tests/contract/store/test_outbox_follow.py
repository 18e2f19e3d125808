"""A second lane for the same runs: entered once each, whenever they come."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta


def kinds(store):
    return sorted((row["kind"], row["id"], row["state"]) for row in store.load("outbox"))


def test_everything_is_followed_once(store):
    store.outbox.enter("run", [f"run {number:04}" for number in range(2500)])
    store.outbox.enter("score", ["[]"])
    assert store.outbox.follow("otel", of="run", since=None) == 2500
    assert store.outbox.follow("otel", of="run", since=None) == 0
    store.outbox.enter("run", ["a", "run 0000", "ü/ö"])
    assert store.outbox.follow("otel", of="run", since=None) == 2
    assert {kind: sum(k == kind for k, _, _ in kinds(store)) for kind in ("run", "score", "otel")} == {
        "run": 2502, "score": 1, "otel": 2502}  # fmt: skip


def test_only_what_was_made_since(store):
    store.outbox.enter("run", ["a", "b"])
    assert store.outbox.follow("otel", of="run", since=datetime.now(UTC) + timedelta(hours=1)) == 0
    assert store.outbox.follow("otel", of="run", since=datetime.now(UTC) - timedelta(hours=1)) == 2
    assert store.outbox.follow("otel", of="run", since=datetime.now(UTC) - timedelta(hours=1)) == 0


def test_what_the_followed_entry_becomes_does_not_matter(store):
    store.outbox.enter("run", ["a"])
    (entry,) = store.outbox.due(("run",), ("pending",), now=datetime.now(UTC) + timedelta(hours=1), limit=9)
    store.outbox.update([replace(entry, state="verified")])
    store.outbox.follow("otel", of="run", since=datetime.now(UTC) - timedelta(hours=1))
    assert kinds(store) == [("otel", "a", "pending"), ("run", "a", "verified")]
    store.outbox.enter("run", ["a"], repair=True)
    assert store.outbox.follow("otel", of="run", since=None) == 0
