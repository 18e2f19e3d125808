"""Runs of a real pipeline on their way to a collector on loopback that fails in every way collectors do."""

import base64
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.errors import UsageError
from harness.gateway import wrap
from harness.mirror._batch import MAX_SPANS
from harness.mirror._freeze import freeze_run
from harness.mirror._ids import span_id, trace_id
from harness.mirror._otel_sender import KIND, LANE, OtelLane
from harness.mirror._otel_settings import OtelSettings
from harness.mirror._render import Context
from harness.pipeline import step, tool, workflow
from harness.session import Mode, RunPlan, planned
from harness.testing import ScriptedServer

KEY = "sk-canary-0123456789"
MAIL = "jane.roe@example.org"
CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}


class Collector(ThreadingHTTPServer):
    """An OTLP/HTTP receiver that reads every request as the protocol defines it, then answers as it was told."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = []
        self.wire = []
        self.bodies = []
        self.headers = []
        self.paths = []
        self.before_answer = lambda: None
        self.refuse = lambda body: None
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def runs(self):
        """The runs whose spans arrived, in order of arrival."""
        return [span["traceId"] for body in self.bodies for span in spans(body) if "parentSpanId" not in span]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_POST(self):
        wire = self.rfile.read(int(self.headers["content-length"]))
        body = gzip.decompress(wire) if self.headers.get("content-encoding") == "gzip" else wire
        assert self.headers["content-type"] == "application/json"
        parse(body)
        self.server.wire.append(wire)
        self.server.bodies.append(body)
        self.server.headers.append(dict(self.headers))
        self.server.paths.append(self.path)
        self.server.before_answer()
        answers = self.server.answers
        status, headers, answer = self.server.refuse(body) or (answers.pop(0) if answers else (200, {}, b"{}"))
        if status == 0:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers, "content-length": len(answer)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(answer)


def spans(body):
    return [s for r in json.loads(body)["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]


def parse(body):
    """The request as the protocol's own definition reads it; OTLP/JSON has ids in hex where protobuf has base64."""
    value = json.loads(body)
    for resource in value["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(value, ExportTraceServiceRequest())


@pytest.fixture
def collector():
    with Collector() as server:
        yield server
        server.shutdown()


@pytest.fixture
def lanes(store, clock):
    """Makes lanes to an endpoint; each is closed at the end."""
    made = []

    def lane(endpoint, **variables):
        found = OtelSettings.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **variables})
        made.append(OtelLane(store, found, clock=clock, sleep=clock.sleep, jitter=lambda: 1.0))
        return made[-1]

    yield lane
    for each in made:
        each.close()


@pytest.fixture
def record(store):
    """Runs a small pipeline for real; gives the ids of its runs."""

    def run(*tickets, **plan):
        with ScriptedServer() as provider, wrap(
            openai.OpenAI(base_url=provider.url, api_key=KEY, max_retries=0)
        ) as client, planned(RunPlan(mode=Mode.LIVE, sink=store, **plan)) as runs:  # fmt: skip

            @tool(determinism="deterministic")
            def look(query):
                return [f"policy for {query}"]

            @step
            def draft(ticket):
                found = look(ticket)
                asked = [{"role": "user", "content": f"{ticket} {found}"}]
                return client.chat.completions.create(model="m", messages=asked).choices[0].message.content

            @workflow("triage")
            def triage(ticket):
                return draft(ticket)

            for ticket in tickets:
                triage(ticket)
        return [made.id for made in runs]

    return run


def entry(store, run):
    return next(row for row in store.load("outbox", kind=KIND, id=run))


def test_a_run_arrives_as_the_tree_it_is(store, collector, lanes, record):
    (run,) = record("late", metadata={"session_id": "s-9"})
    progress = lanes(collector.url, **CONTENT).run_once()
    assert (progress.entered, progress.sent, progress.dead, progress.trouble) == (1, 1, 0, "")
    assert collector.paths == ["/v1/traces"]
    recording = store.recording(run)
    (chat,) = recording.messages
    parents = {span["spanId"]: span.get("parentSpanId") for span in spans(collector.bodies[0])}
    expected = {
        span_id("step", s.id): span_id("step", s.parent_id) if s.parent_id else None for s in recording.steps
    } | {span_id("message", chat.id): span_id("step", chat.step_id)}
    assert parents == expected
    assert {span["traceId"] for span in spans(collector.bodies[0])} == {trace_id(run)}
    names = [span["name"] for span in spans(collector.bodies[0])]
    assert names == ["invoke_workflow triage", "invoke_agent draft", "execute_tool look", "chat m"]
    assert b"policy for late" in collector.bodies[0]
    assert collector.bodies[0].count(b'"s-9"') == 4


def test_the_ids_are_those_that_langfuse_gets(store, collector, lanes, record):
    (run,) = record("late")
    lanes(collector.url).run_once()
    mirrored = freeze_run(store.recording(run), Context(environment="default", release=None, run_url=""))
    sent = spans(collector.bodies[0])
    assert {span["traceId"] for span in sent} == {mirrored.trace_id}
    assert sorted(span["spanId"] for span in sent) == sorted(mirrored.span_ids)


def test_what_was_sent_is_verified_pruned_and_not_sent_again(store, collector, lanes, record):
    runs = record("a", "b", "c")
    lane = lanes(collector.url)
    lane.run_once()
    assert sorted(collector.runs) == sorted(map(trace_id, runs))
    for run in runs:
        row = entry(store, run)
        assert (row["state"], row["attempts"], row["frozen"]) == ("verified", 1, None)
    assert lane.run_once().wait > 0
    assert lanes(collector.url).run_once().held is False
    lane.close()
    assert lanes(collector.url).run_once().sent == 0
    assert len(collector.bodies) == 3


def test_runs_that_finish_later_follow(collector, lanes, record, clock):
    lane = lanes(collector.url)
    for number in range(3):
        record(f"ticket {number}")
        assert lane.run_once().sent == 1
        clock.sleep(3600)
    assert len(collector.runs) == 3


def test_the_langfuse_entries_are_left_alone(store, collector, lanes, record):
    (run,) = record("a")
    lanes(collector.url).run_once()
    (row,) = store.load("outbox", kind="run", id=run)
    assert row["state"] == "pending"


def test_imported_runs_and_runs_that_are_gone(store, collector, lanes, record):
    (run,) = record("a")
    imported = replace(store.run(run), id="019ad3b4-1111-7000-8000-00000000000f", fidelity="imported")
    store.write(imported).result()
    store.outbox.enter(KIND, ["019ad3b4-1111-7000-8000-0000000000ff"])
    progress = lanes(collector.url).run_once()
    assert (progress.sent, progress.dead) == (1, 1)
    assert "no longer" in entry(store, "019ad3b4-1111-7000-8000-0000000000ff")["error"]
    assert collector.runs == [trace_id(run)]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 302, 307, 0])
def test_trouble_is_waited_out_and_the_same_bytes_go_again(store, collector, lanes, record, clock, status):
    (run,) = record("late")
    collector.answers = [(status, {"location": "/elsewhere"}, b"busy")] * 3
    lane = lanes(collector.url, OTEL_EXPORTER_OTLP_COMPRESSION="gzip")
    first = lane.run_once()
    assert (first.sent, first.dead) == (0, 0)
    assert first.wait == 1.0
    assert entry(store, run)["state"] == "pending"
    assert store.outbox.notes(LANE)["trouble"] == first.trouble
    assert lane.run_once().wait > 0
    assert len(collector.bodies) == 1, "nothing is sent before the pause is over"
    assert lane.flush(600)
    assert len(collector.wire) == 4
    assert len(set(collector.wire)) == 1
    row = entry(store, run)
    assert (row["state"], row["attempts"], row["error"]) == ("verified", 4, None)
    assert "trouble" not in store.outbox.notes(LANE)


def test_a_collector_that_is_away_for_a_day_loses_nothing(store, collector, lanes, record, clock):
    runs = record("a", "b")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        away = lanes(f"http://127.0.0.1:{held.getsockname()[1]}")
        end = clock.now + timedelta(days=1)
        while clock.now < end:
            clock.sleep(away.run_once().wait)
    assert store.outbox.counts((KIND,))["pending"] == 2
    away.close()
    assert lanes(collector.url).flush(600)
    assert sorted(collector.runs) == sorted(map(trace_id, runs))


def test_retry_after_is_honoured(collector, lanes, record, clock):
    record("late")
    collector.answers = [(429, {"retry-after": "120"}, b"")]
    lane = lanes(collector.url)
    assert lane.run_once().wait == 120
    clock.sleep(119)
    lane.run_once()
    assert len(collector.bodies) == 1
    clock.sleep(1)
    assert lane.run_once().sent == 1


@pytest.mark.parametrize("status", [400, 422])
def test_one_refused_span_ends_its_run_as_dead_and_all_others_are_taken(store, collector, lanes, record, status):
    record("a", "b", "c")
    words = f"span name \u0007 of {MAIL} is too long".encode()
    poisoned = []

    def refuse(body):
        # The first tool span that comes along, in whatever company.
        poisoned.extend(span["spanId"] for span in spans(body) if not poisoned and span["name"] == "execute_tool look")
        return (status, {}, words) if any(span["spanId"] in poisoned for span in spans(body)) else None

    collector.refuse = refuse
    progress = lanes(collector.url).run_once()
    assert (progress.sent, progress.dead, progress.trouble) == (2, 1, "")
    (dead,) = [row for row in store.load("outbox", kind=KIND) if row["state"] == "dead"]
    assert dead["error"].startswith(f"HTTP {status}: span name \\u0007 of ")
    assert dead["error"].endswith("(1 of 4 spans; the others were taken)")
    assert MAIL not in dead["error"]
    taken = [span["spanId"] for body in collector.bodies for span in spans(body) if not refuse(body)]
    assert len(taken) == len(set(taken)) == 11


def test_a_run_of_which_nothing_is_taken_says_so_with_the_collectors_words(store, collector, lanes, record):
    (run,) = record("a")
    collector.refuse = lambda body: (400, {}, b"no spans on Sundays") if spans(body) else None
    assert lanes(collector.url).run_once().dead == 1
    assert entry(store, run)["error"] == "HTTP 400: no spans on Sundays"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_collector_that_refuses_everything_closes_the_lane_and_nothing_is_dead(
    store, collector, lanes, record, status
):
    record("a", "b")
    collector.refuse = lambda body: (status, {}, b"<html>nope</html>")
    progress = lanes(collector.url).run_once()
    assert progress.dead == 0
    assert progress.wait >= 300
    assert f"HTTP {status}: <html>nope</html>" in progress.trouble
    assert store.outbox.notes(LANE)["paused"] == progress.trouble
    assert store.outbox.counts((KIND,))["pending"] == 2


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_what_is_too_large_together_goes_in_smaller_pieces(store, collector, lanes, record, compression):
    (run,) = record("late")
    collector.refuse = lambda body: (413, {}, b"") if len(spans(body)) > 1 else None
    assert lanes(collector.url, OTEL_EXPORTER_OTLP_COMPRESSION=compression).run_once().sent == 1
    assert entry(store, run)["state"] == "verified"
    assert [len(spans(body)) for body in collector.bodies] == [4, 2, 1, 1, 2, 1, 1]


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_a_span_that_is_too_large_alone_is_dead_where_smaller_requests_pass(
    store, collector, lanes, record, compression
):
    (run,) = record("late " * 10_000)
    collector.refuse = lambda body: (413, {}, b"over the limit") if b"late late" in body else None
    lane = lanes(collector.url, OTEL_EXPORTER_OTLP_COMPRESSION=compression, **CONTENT)
    assert lane.run_once().dead == 1
    assert entry(store, run)["error"].startswith("HTTP 413: over the limit")
    # Whether less passes was asked with a request of that size on the wire.
    probes = [wire for wire, body in zip(collector.wire, collector.bodies, strict=True) if not spans(body)]
    assert probes
    assert all(10_000 <= len(wire) < 11_000 for wire in probes)


@pytest.mark.parametrize("rejected", ["2", 2], ids=["as text", "as number"])
def test_partial_success_with_rejected_spans_is_dead(store, collector, lanes, record, rejected):
    (run,) = record("late")
    answer = {"partialSuccess": {"rejectedSpans": rejected, "errorMessage": "quota exceeded"}}
    collector.answers = [(200, {}, json.dumps(answer).encode())]
    assert lanes(collector.url).run_once().dead == 1
    assert entry(store, run)["error"] == "the collector rejected 2 spans: quota exceeded"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"ok",
        b"[]",
        b"[" * 100_000,
        b'{"partialSuccess": {}}',
        b'{"partialSuccess": {"rejectedSpans": "0", "errorMessage": "please upgrade"}}',
        b'{"partialSuccess": {"rejectedSpans": "many"}}',
        b'{"partialSuccess": 3}',
    ],
)
def test_any_other_2xx_is_success(store, collector, lanes, record, answer):
    (run,) = record("late")
    collector.answers = [(202, {}, answer)]
    assert lanes(collector.url).run_once().sent == 1
    assert entry(store, run)["state"] == "verified"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_address_closes_the_lane_and_says_so(store, collector, lanes, record, status):
    record("a", "b")
    collector.answers = [(status, {}, b"who are you?")]
    progress = lanes(collector.url).run_once()
    assert progress.wait >= 300
    assert "OTEL_EXPORTER_OTLP_HEADERS" in progress.trouble
    assert len(collector.bodies) == 1
    assert store.outbox.counts((KIND,))["pending"] == 2


def test_a_lane_that_was_taken_over_stops_between_two_requests(store, collector, lanes, record, clock):
    (small,) = record("late")
    first, second = lanes(collector.url), lanes(collector.url)
    assert first.flush(60)
    clock.sleep(3600)
    recording = store.recording(small)
    run = replace(recording.run, id="019ad3b4-1111-7000-8000-0000000000ab")
    steps = [
        replace(recording.steps[-1], id=f"019ad3b4-1111-7000-8000-{n:012x}", run_id=run.id, seq=n, parent_id=None)
        for n in range(MAX_SPANS + 1)
    ]
    store.write(*steps, run).result()

    def taken_over():
        collector.before_answer = lambda: None
        clock.sleep(3600)
        assert store.outbox.lease(LANE, "another", seconds=60, now=clock())

    collector.before_answer = taken_over
    first.run_once()
    assert len(collector.bodies) == 2
    assert (entry(store, run.id)["state"], entry(store, run.id)["attempts"]) == ("pending", 0)
    clock.sleep(61)
    assert second.flush(60)
    assert [len(spans(body)) for body in collector.bodies[1:]] == [MAX_SPANS, MAX_SPANS, 1]
    assert collector.bodies[1] == collector.bodies[2]


def test_a_large_run_goes_on_where_it_stopped(store, collector, lanes, record, clock):
    (small,) = record("late")
    lane = lanes(collector.url)
    lane.run_once()
    clock.sleep(3600)
    recording = store.recording(small)
    run = replace(recording.run, id="019ad3b4-1111-7000-8000-0000000000aa")
    steps = [
        replace(recording.steps[-1], id=f"019ad3b4-1111-7000-8000-{n:012x}", run_id=run.id, seq=n, parent_id=None)
        for n in range(2 * MAX_SPANS + 1)
    ]
    store.write(*steps, run).result()
    collector.answers = [(200, {}, b""), (503, {}, b"")]
    lane.run_once()
    assert entry(store, run.id)["state"] == "pending"
    assert lane.flush(60)
    assert [len(spans(body)) for body in collector.bodies] == [4, MAX_SPANS, MAX_SPANS, MAX_SPANS, 1]
    assert collector.bodies[2] == collector.bodies[3]
    assert entry(store, run.id)["state"] == "verified"


SENDER = """
import sys
from harness.mirror._otel_sender import OtelLane
from harness.mirror._otel_settings import OtelSettings
from harness.store import open_store
OtelLane(open_store(sys.argv[1]), OtelSettings.from_environment()).run_once()
"""


def test_killed_between_send_and_commit_the_same_bytes_go_again(store, url, collector, lanes, record):
    (run,) = record("late")
    children = []

    def kill():
        if len(collector.bodies) == 1:
            os.kill(children[0].pid, signal.SIGKILL)
            children[0].wait()

    started = threading.Event()
    collector.before_answer = lambda: (started.wait(), kill())
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    children.append(subprocess.Popen([sys.executable, "-c", SENDER, url], env=environment))
    started.set()
    assert children[0].wait(60) == -signal.SIGKILL
    assert entry(store, run)["state"] == "pending"
    # Rendered again it would be something else: what was frozen goes, whatever the variables say by now.
    assert lanes(collector.url, OTEL_SERVICE_NAME="other", **CONTENT).run_once().sent == 1
    assert collector.bodies[0] == collector.bodies[1]
    assert len(collector.bodies) == 2


def test_content_goes_along_only_when_asked_and_never_a_secret(store, collector, lanes, record, tmp_path):
    ticket = f"write to {MAIL} or 4111 1111 1111 1111 about sk-abcdefghijklmnop1234, parcel lost"
    record(ticket)
    lane = lanes(collector.url)
    lane.run_once()
    lane.close()
    record(ticket)
    key = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{KEY}"}
    lanes(collector.url, **CONTENT, **key).run_once()
    quiet, told = collector.bodies
    assert b"parcel lost" not in quiet
    assert b"parcel lost" in told
    for planted in (MAIL, "4111 1111 1111 1111", "4111111111111111", "sk-abcdef", KEY):
        assert planted.encode() not in quiet + told
    assert [headers.get("authorization") for headers in collector.headers] == [None, f"Bearer {KEY}"]
    store.flush()
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_langfuses_own_endpoint_gets_nothing(store, collector, lanes, record):
    record("late")
    lane = lanes(f"{collector.url}/api/public/otel")
    progress = lane.run_once()
    assert "Langfuse's own" in progress.skipped
    assert lane.flush(5)
    assert collector.bodies == []
    assert store.load("outbox", kind=KIND) == []


def test_a_forked_child_is_refused(collector, lanes):
    lane = lanes(collector.url)
    lane._pid = 1
    with pytest.raises(UsageError, match="forked child"):
        lane.run_once()
