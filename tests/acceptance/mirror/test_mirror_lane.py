"""One lane per project: who sends, when it stops, what it says."""

import json
import threading
import zlib
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness.mirror import Project, dead, retry, status, thaw

FAR = timedelta(days=365)
SPANS = "/api/public/otel/v1/traces"


def test_one_poisoned_span_ends_as_dead_and_the_rest_goes_through(fleet, store, server, sender, clock):
    rows = fleet.fill(store, 30)
    server.fault("500", times=1, when=lambda request: request.path == SPANS)
    sender.run_once()
    # Frozen and not sent yet: one span becomes what the server refuses a whole request for.
    entry = next(
        entry for entry in store.outbox.due(("run",), ("pending",), now=clock() + FAR, limit=100) if entry.frozen
    )
    spans = thaw(entry.frozen)
    poisoned = json.loads(spans[2])["spanId"]
    spans[2] = spans[2][:-1] + b',"events":{"not":"a list"}}'
    store.outbox.update([replace(entry, frozen=zlib.compress(b"\n".join(spans)))])

    assert fleet.drive(sender, clock)
    [refused] = dead(store)
    assert (refused.kind, refused.id) == ("span", f"{entry.id}/{poisoned}")
    assert refused.error.startswith("HTTP 400")
    assert "events must be a list" in refused.error
    assert set(fleet.seen_rows(server)) == {row for row in rows if row.id != poisoned}
    assert store.outbox.counts() == {"pending": 0, "accepted": 0, "verified": 30, "dead": 1}

    retry(store, refused.id, clock=clock)
    assert fleet.drive(sender, clock)
    assert set(fleet.seen_rows(server)) == set(rows)
    assert len(server.rows) == len(rows)
    assert store.outbox.counts()["dead"] == 0


def test_a_wrong_key_pauses_the_lane_and_says_so_and_the_right_one_resumes(fleet, store, server, clock):
    rows = fleet.fill(store, 5)
    wrong = fleet.project_of(server, secret_key="sk-lf-wrong-0123456789", clock=clock)
    sender = fleet.Sender(store, wrong, clock=clock, sleep=clock.sleep)
    for _ in range(20):
        progress = sender.run_once()
        clock.sleep(30.0)
    assert "401" in progress.trouble
    state = status(store, wrong, clock=clock)
    assert "LANGFUSE_SECRET_KEY" in state["paused"]
    assert "sk-lf-wrong" not in str(state)
    assert state["pending"] == 5
    assert state["dead"] == 0
    # It asks every five minutes, not every round.
    assert len([seen for seen in server.requests if seen.path.endswith("traces")]) <= 3
    sender.close()

    right = fleet.project_of(server, clock=clock)
    sender = fleet.Sender(store, right, clock=clock, sleep=clock.sleep)
    assert fleet.drive(sender, clock)
    assert status(store, right, clock=clock)["paused"] is None
    assert set(fleet.seen_rows(server)) == set(rows)
    sender.close()


def test_a_second_sender_waits_and_takes_over_when_the_first_has_died(fleet, store, server, clock):
    rows = fleet.fill(store, 3)
    project = fleet.project_of(server, clock=clock)
    first = fleet.Sender(store, project, clock=clock, sleep=clock.sleep)
    second = fleet.Sender(store, project, clock=clock, sleep=clock.sleep)
    server.fault("500", times=1)
    assert first.run_once().held
    assert not second.run_once().held
    state = status(store, project, clock=clock)
    assert state["lane"]["owner"] == first.owner
    clock.sleep(3600.0)
    assert fleet.drive(second, clock)
    assert status(store, project, clock=clock)["lane"]["owner"] == second.owner
    assert set(fleet.seen_rows(server)) == set(rows)
    first.close()
    second.close()


def test_the_lag_is_the_age_of_the_oldest_unverified(fleet, store, server, sender, clock):
    server.lag = 3000.0
    fleet.fill(store, 2)
    before = status(store, fleet.project_of(server), clock=clock)["oldest_unverified_s"]
    sender.run_once()
    clock.sleep(1000.0)
    state = status(store, fleet.project_of(server), clock=clock)
    assert state["accepted"] == 2
    assert abs(state["oldest_unverified_s"] - before - 1000.0) < 5.0
    assert fleet.drive(sender, clock, merge=server.merge)
    state = status(store, fleet.project_of(server), clock=clock)
    assert state["oldest_unverified_s"] is None
    assert state["project"]["id"]


def test_a_huge_run_is_split_and_small_ones_travel_together(fleet, store, server, sender, clock):
    rows = fleet.fill(store, 1, steps=700)
    rows += fleet.fill(store, 40, first=1)
    assert fleet.drive(sender, clock)
    assert set(fleet.seen_rows(server)) == set(rows)
    posts = [seen.body.count(b'"spanId"') for seen in server.requests if seen.path == SPANS]
    assert max(posts) <= 200
    assert len(posts) <= 12


def test_other_start_times_at_the_server_are_repaired(fleet, store, server, sender, clock):
    rows = fleet.fill(store, 2)
    assert fleet.drive(sender, clock)
    sent = next(seen for seen in server.requests if seen.path == SPANS)
    # Somebody sent the same spans a second later: another row each, for ever.
    nanos = {str(row.start * 1_000_000).encode(): str((row.start + 1000) * 1_000_000).encode() for row in rows}
    body = sent.body
    for old, new in nanos.items():
        body = body.replace(b'"startTimeUnixNano":"' + old, b'"startTimeUnixNano":"' + new)
    stranger = fleet.project_of(server)
    assert stranger.post_spans(body).outcome == "accepted"
    stranger.close()
    assert len(server.rows) == 2 * len(rows)
    clock.sleep(1.0)
    found = sender.verify(everything=True)
    assert (found.looked, found.repaired) == (2, 2)
    assert fleet.drive(sender, clock)
    assert len(server.rows) == len(rows)
    assert set(fleet.seen_rows(server)) == set(rows)


def test_late_tags_are_sent_by_deleting_the_trace_first(fleet, store, server, sender, clock):
    rows = fleet.fill(store, 3, scores=1)
    assert fleet.drive(sender, clock)
    store.tag(fleet.fixed_id("run", 0), ["nightly", "approved"])
    server.lag = 4.0
    assert fleet.drive(sender, clock, merge=server.merge)
    assert set(fleet.seen_rows(server)) == set(rows)
    assert len(server.rows) == len(rows)
    tags = {row["traceId"]: set(row["tags"]) for row in server.observations()}
    assert tags[fleet.trace_id(fleet.fixed_id("run", 0))] >= {"nightly", "approved"}
    assert "approved" not in tags[fleet.trace_id(fleet.fixed_id("run", 1))]
    assert len(server.scores()) == 1
    # The score went with its trace and came back with it.
    assert sum(seen.path == "/api/public/scores" for seen in server.requests) == 2


def test_backfill_rebuilds_an_empty_server_and_twice_never_doubles(fleet, store, server, sender, clock):
    rows = fleet.fill(store, 25, scores=5)
    assert fleet.drive(sender, clock)
    server.reset()
    assert server.rows == []
    for _ in range(2):
        assert store.outbox.backfill(again=True) == 30
        clock.sleep(1.0)
        assert fleet.drive(sender, clock, merge=server.merge)
        assert set(fleet.seen_rows(server)) == set(rows)
        assert len(server.rows) == len(rows)
        assert len(server.scores()) == 5
    assert store.outbox.backfill(again=False) == 0


class RefusesAll(BaseHTTPRequestHandler):
    """A proxy that answers 400 to whatever is posted; health and project are the real thing's."""

    def do_GET(self):
        project = {"id": "p", "name": "n", "metadata": {}, "organization": {"id": "o", "name": "o"}}
        found = {"status": "OK", "version": "4.59.0"} if self.path.endswith("health") else {"data": [project]}
        self.answer(200, json.dumps(found).encode())

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(400, b"no")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_a_server_that_refuses_even_nothing_pauses_the_lane_and_kills_no_span(fleet, store, clock):
    fleet.fill(store, 10)
    with ThreadingHTTPServer(("127.0.0.1", 0), RefusesAll) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        project = Project(public_key="pk", secret_key="sk", base_url=f"http://127.0.0.1:{proxy.server_port}")
        sender = fleet.Sender(store, project, clock=clock, sleep=clock.sleep)
        for _ in range(5):
            sender.run_once()
            clock.sleep(30.0)
        sender.close()
        proxy.shutdown()
        thread.join()
    state = status(store, project, clock=clock)
    assert (state["dead"], state["pending"]) == (0, 10)
    assert "LANGFUSE_BASE_URL" in state["paused"]


def test_an_address_that_is_no_langfuse_pauses_the_lane(fleet, store, server, clock):
    fleet.fill(store, 1)
    project = fleet.project_of(server, base_url=f"{server.url}/elsewhere")
    sender = fleet.Sender(store, project, clock=clock, sleep=clock.sleep)
    assert "404" in sender.run_once().trouble
    assert "LANGFUSE_BASE_URL" in status(store, project, clock=clock)["paused"]
    sender.close()


def test_what_the_server_says_is_kept_short_and_without_secrets(fleet, store, server, sender, clock):
    fleet.fill(store, 1, scores=1)
    server.fault("207", when=lambda score: True)
    fleet.drive(sender, clock)
    [entry] = dead(store)
    assert entry.kind == "score"
    assert "207" in entry.error
    assert len(entry.error) <= 500


def test_doubles_are_verified_only_when_the_server_has_merged_them(fleet, store, server, sender, clock):
    fleet.fill(store, 4)
    server.fault("twice")
    assert not fleet.drive(sender, clock, hours=3.0)
    assert store.outbox.counts()["accepted"] == 4
    # Waiting is all: sending again would only make more of them.
    assert sum(seen.path == SPANS for seen in server.requests) == 1
    server.merge()
    assert fleet.drive(sender, clock)
