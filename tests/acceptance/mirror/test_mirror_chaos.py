"""Whatever goes wrong between the store and Langfuse: afterwards everything is there exactly once."""

import email.utils
import time
from datetime import timedelta

import pytest

from harness.store import open_store

MANY = 6_000
"""What fits two minutes of a busy machine; tests/benchmarks/mirror_chaos.py sends ten thousand."""

STORM = [
    ("down for a day", "down", {}, 24.0),
    ("answers 500", "500", {"times": 6}, 0.0),
    ("hangs", "hang", {"times": 2, "seconds": 1e9}, 0.0),
    ("cut before accepting", "cut-before", {"times": 3}, 0.0),
    ("cut after accepting", "cut-after", {"times": 3}, 0.0),
    ("redirects to a login page", "302", {"times": 4}, 0.0),
    ("refuses large bodies", "413", {"limit": 3000}, 0.0),
    ("asks to wait by seconds", "429", {"times": 3, "retry_after": 120}, 0.0),
    ("asks to wait until a date", "429", {"times": 2, "retry_after": "date"}, 0.0),
    ("refuses scores in a list", "207", {"every": 4, "times": 2}, 0.0),
    ("refuses the keys for a while", "401", {"times": 2}, 0.0),
    ("accepts and loses", "lose", {"share": 0.2, "times": 12}, 0.0),
    ("delivers twice", "twice", {"share": 0.5}, 0.0),
    ("is slow by 20 s", "slow", {"seconds": 20.0}, 0.0),
]


def weather(fleet, store, server, sender, clock, runs, passed=lambda *figures: None):
    """Some runs under each fault in turn; returns the rows that must be there."""
    share = -(-runs // len(STORM))
    rows, first = [], 0
    for name, kind, options, hours in STORM:
        began, simulated, requests = time.perf_counter(), clock.unix(), len(server.requests)
        count = min(share, runs - first)
        rows += fleet.fill(store, count, first=first, scores=min(count, 10))
        first += count
        if options.get("retry_after") == "date":
            options = {**options, "retry_after": email.utils.format_datetime(clock.now + timedelta(minutes=7))}
        server.fault(kind, **options)
        if hours:
            end = clock.now + timedelta(hours=hours)
            fleet.drive(sender, clock, until=lambda end=end: clock.now >= end)
            assert sender.left >= count
            server.clear_faults()
        done = fleet.drive(sender, clock, merge=server.merge)
        assert done, (kind, store.outbox.counts())
        server.clear_faults()
        took = time.perf_counter() - began
        passed(name, count, clock.unix() - simulated, len(server.requests) - requests, took)
    return rows


def check(fleet, store, server, rows, runs):
    seen = fleet.seen_rows(server)
    assert fleet.once_each(seen) == set()
    assert len(seen) == len(rows)
    assert set(seen) == set(rows)
    # Physically, too: what the server shows without merging.
    assert len(server.rows) == len(rows)
    wanted = {name["case"] for name in store.load("scores")}
    scores = server.scores()
    assert len(scores) == len({score["id"] for score in scores}) == len(wanted)
    for score in scores:
        number = int(score["metadata"]["goldfork"]["case"].rpartition("-")[2])
        assert score["value"] == number % 3 / 2
        assert score["traceId"] == fleet.trace_id(fleet.fixed_id("run", number))
        assert score["observationId"] == fleet.span_id("step", fleet.fixed_id("step", number, 0))
    counts = store.outbox.counts()
    assert counts["pending"] == counts["accepted"] == counts["dead"] == 0
    assert counts["verified"] == runs + len(wanted)


def test_every_run_step_message_and_score_is_there_exactly_once(fleet, url, server, clock):
    with open_store(url, durability="normal") as store:
        sender = fleet.Sender(
            store,
            fleet.project_of(server, clock=clock, timeout=0.2),
            clock=clock,
            sleep=clock.sleep,
            jitter=lambda: 0.5,
        )
        rows = weather(fleet, store, server, sender, clock, 300)
        check(fleet, store, server, rows, 300)
        sender.close()


@pytest.mark.slow
def test_six_thousand_runs_come_through_the_same_storm(fleet, store, server, clock):
    sender = fleet.Sender(
        store,
        fleet.project_of(server, clock=clock, timeout=0.5),
        clock=clock,
        sleep=clock.sleep,
        jitter=lambda: 0.5,
    )
    rows = weather(fleet, store, server, sender, clock, MANY)
    check(fleet, store, server, rows, MANY)
    sender.close()
