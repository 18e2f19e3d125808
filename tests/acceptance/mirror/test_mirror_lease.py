"""One lease per outbox: entries do not say which project they went to, so that one sender serves one project."""

import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.errors import UsageError
from harness.mirror import Project, Unanswered, backfill, run_link, status
from harness.mirror._lane import LANE

SPANS = "/api/public/otel/v1/traces"
MAIL = "jane.roe@example.org"


def posts(server):
    return [seen for seen in server.requests if seen.path == SPANS]


def test_two_keys_are_two_senders_of_one_outbox_and_only_one_sends(fleet, store, server, sender, clock):
    fleet.fill(store, 3)
    assert sender.run_once().held
    other = fleet.project_of(server, public_key="pk-lf-second", clock=clock)
    second = fleet.Sender(store, other, clock=clock, sleep=clock.sleep)
    assert not second.run_once().held
    second.close()


def test_another_project_is_refused_until_everything_was_entered_for_it(fleet, store, server, sender, clock):
    rows = fleet.fill(store, 3)
    # As it is after a sender for another project.
    store.outbox.note(LANE, {"project_id": "project-before", "project": "Before", "address": "https://before.example"})
    for act in (sender.run_once, lambda: sender.verify(everything=True), lambda: sender.flush(5.0)):
        with pytest.raises(UsageError, match=r"'project-before'.*backfill --again") as refused:
            act()
        assert "\n" not in str(refused.value)
    assert posts(server) == []
    assert store.outbox.counts()["pending"] == 3

    assert backfill(store) == 0
    with pytest.raises(UsageError, match="project-before"):
        sender.run_once()
    backfill(store, again=True)
    assert fleet.drive(sender, clock)
    assert set(fleet.seen_rows(server)) == set(rows)
    now = status(store, fleet.project_of(server), clock=clock)["project"]
    assert now["url"] == server.url
    assert now["id"] != "project-before"
    link = run_link(store, fleet.fixed_id("run", 0))
    assert link.startswith(f"{server.url}/project/{now['id']}/traces/")
    # Entering everything let one change of project through, not the next one as well.
    store.outbox.note(LANE, {"project_id": "project-after"})
    sender.close()
    second = fleet.Sender(store, fleet.project_of(server), clock=clock, sleep=clock.sleep)
    with pytest.raises(UsageError, match="project-after"):
        second.run_once()
    second.close()


def test_a_sender_at_work_keeps_its_project_when_everything_is_entered_again(fleet, store, server, sender, clock):
    fleet.fill(store, 2)
    assert fleet.drive(sender, clock)
    before = run_link(store, fleet.fixed_id("run", 0))
    assert backfill(store, again=True) == 2
    assert fleet.drive(sender, clock, merge=server.merge)
    assert before is not None
    assert run_link(store, fleet.fixed_id("run", 0)) == before


def test_verified_runs_that_left_the_store_stay_as_they_are(fleet, store, server, sender, clock):
    fleet.fill(store, 2)
    store.outbox.enter("run", ["gone"])
    [gone] = [e for e in store.outbox.due(("run",), ("pending",), now=clock(), limit=9) if e.id == "gone"]
    store.outbox.update([replace(gone, state="verified")])
    assert fleet.drive(sender, clock)
    for _ in range(2):
        clock.sleep(5.0)
        assert sender.verify(everything=True).looked == 2
        assert store.outbox.counts() == {"pending": 0, "accepted": 0, "verified": 3, "dead": 0}


def test_a_page_of_scores_that_was_not_finished_keeps_its_state(fleet, store, server, sender, clock):
    fleet.fill(store, 60, scores=60)
    assert fleet.drive(sender, clock)
    clock.sleep(5.0)
    before = {row["id"]: row["due_at"] for row in store.load("outbox", kind="score")}
    server.fault("500", times=1, when=lambda request: request.path == "/api/public/v3/scores")
    with pytest.raises(Unanswered, match="after 60 of 120 were seen: HTTP 500"):
        sender.verify(everything=True)
    rows = store.load("outbox", kind="score")
    assert {row["id"]: row["due_at"] for row in rows} == before
    assert {(row["state"], row["frozen"]) for row in rows} == {("verified", None)}


def test_an_experiments_scores_and_spans_name_the_same_experiment(fleet, store, server, sender, clock):
    name = f"night of {MAIL}"
    for k in range(2):
        made, blobs = fleet.records(k)
        run = replace(made[0], experiment=name, case="c", trial=k)
        store.write(*made[1:], run, blobs=blobs).result()
    store.save("experiments", [{"id": name, "dataset": "d", "started_at": fleet.START, "status": "ok"}])
    score = {"experiment": name, "evaluator": "exact", "name": "exact", "status": "scored", "value": 0.5}
    store.save("scores", [score])
    assert fleet.drive(sender, clock)
    [whole] = server.scores()
    sent = b"".join(seen.body for seen in posts(server))
    named = {id_.decode() for id_ in re.findall(rb'"langfuse.experiment.id","value":\{"stringValue":"([^"]+)"', sent)}
    assert named == {whole["datasetRunId"], f"{whole['datasetRunId']}-t1"}
    assert MAIL not in whole["datasetRunId"]


class _Dripping(BaseHTTPRequestHandler):
    """Answers one byte after another, without an end in sight."""

    def log_message(self, *words):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "100")
        self.end_headers()
        for _ in range(100):
            if self.server.over.wait(0.05):
                return
            self.wfile.write(b" ")
            self.wfile.flush()


def test_an_answer_that_never_ends_is_given_up():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Dripping) as server:
        server.over = threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        project = Project(public_key="pk", secret_key="sk", base_url=f"http://127.0.0.1:{server.server_port}")
        project.finish_within(0.3)
        assert project.post_spans(b"{}").outcome == "ambiguous"
        server.over.set()
        project.close()
        server.shutdown()
