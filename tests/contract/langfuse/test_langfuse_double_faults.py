"""What only the double does: faults on request, a clock of its own, views for assertions."""

import gzip
import json
import time
from threading import Thread
from uuid import uuid4

import httpx
import pytest
from langfuse import Langfuse
from opentelemetry.sdk.trace import TracerProvider

from harness.testing.langfuse_server import LangfuseServer

TRACES = "/api/public/otel/v1/traces"


class Clock:
    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


def span(number, trace="a" * 32):
    start = 1_700_000_000_000_000_000 + number * 1_000_000
    return {"traceId": trace, "spanId": f"{number:016x}", "name": f"s{number}", "startTimeUnixNano": str(start)}


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key), timeout=10) as client:
        yield client


def post(client, *spans, version="4"):
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    if version:
        headers["x-langfuse-ingestion-version"] = version
    return client.post(TRACES, content=gzip.compress(body), headers=headers)


def names(server):
    return sorted(row.name for row in server.rows)


@pytest.mark.parametrize(
    ("kind", "given", "status"),
    [("500", {}, 500), ("302", {}, 302), ("401", {}, 401), ("413", {"limit": 10}, 413), ("429", {}, 429)],
)
def test_a_status_is_answered_so_often_and_nothing_is_stored(server, client, kind, given, status):
    fault = server.fault(kind, times=2, **given)
    assert [post(client, span(1)).status_code for _ in range(3)] == [status, status, 200]
    assert fault.hits == 2
    assert names(server) == ["s1"]


def test_too_large_is_only_what_is_over_the_limit(server, client):
    server.fault("413", limit=400)
    assert post(client, span(1)).status_code == 200
    many = [span(n, trace=f"{n * 7919:032x}") for n in range(100)]
    assert post(client, *many).status_code == 413
    assert len(server.rows) == 1


@pytest.mark.parametrize("wait", [7, "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_retry_after_is_sent_as_given(server, client, wait):
    server.fault("429", retry_after=wait, times=1)
    assert post(client, span(1)).headers["retry-after"] == str(wait)


def test_a_redirect_leads_to_a_login_page(server, client):
    server.fault("302", times=1)
    assert post(client, span(1)).headers["location"] == "/auth/sign-in"


@pytest.mark.parametrize(("kind", "stored"), [("down", []), ("cut-before", []), ("cut-after", ["s1"])])
def test_a_cut_connection_says_nothing_about_what_was_stored(server, client, kind, stored):
    server.fault(kind, times=1)
    with pytest.raises(httpx.TransportError):
        post(client, span(1))
    assert names(server) == stored
    assert post(client, span(2)).status_code == 200


def test_a_closed_port_refuses_and_opens_again(server, client):
    with server.refusing(), pytest.raises(httpx.ConnectError):
        post(client, span(1))
    assert post(client, span(2)).status_code == 200
    assert names(server) == ["s2"]


def test_a_hang_lasts_by_the_clock(client):
    clock = Clock()
    with LangfuseServer(clock=clock) as server:
        server.fault("hang", seconds=3600, times=1)
        statuses = []
        with httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key), timeout=10) as other:
            waiting = Thread(target=lambda: statuses.append(post(other, span(1)).status_code))
            waiting.start()
            waiting.join(0.1)
            assert waiting.is_alive()
            clock.now += 3601
            waiting.join(10)
        assert statuses == [500]
        assert server.rows == []


def test_a_hang_outlasts_a_clients_patience(server, client):
    server.fault("hang", seconds=30, times=1)
    with pytest.raises(httpx.ReadTimeout):
        client.get("/api/public/health", timeout=0.1)


def test_a_share_and_every_nth_strike_evenly_and_always_the_same(server, client):
    server.fault("500", share=0.3)
    statuses = [post(client, span(n)).status_code for n in range(100)]
    assert 27 <= statuses.count(500) <= 33
    server.reset()
    server.fault("500", share=0.3)
    assert [post(client, span(n)).status_code for n in range(100)] == statuses
    server.reset()
    server.fault("500", every=3)
    assert [post(client, span(n)).status_code for n in range(6)] == [200, 200, 500, 200, 200, 500]


def test_a_predicate_chooses_requests(server, client):
    server.fault("500", when=lambda request: request.path.startswith("/api/public/otel") and b"s7" in request.body)
    assert [post(client, span(n)).status_code for n in (6, 7, 8)] == [200, 500, 200]
    assert client.get("/api/public/health").status_code == 200


def test_accepted_then_lost(server, client):
    server.fault("lose", when=lambda row: row.name == "s2", times=1)
    assert post(client, span(1), span(2), span(3)).status_code == 200
    assert names(server) == ["s1", "s3"]
    assert post(client, span(2)).status_code == 200
    assert names(server) == ["s1", "s2", "s3"]


def test_every_nth_span_is_lost(server, client):
    server.fault("lose", every=3)
    assert post(client, *(span(n) for n in range(9))).status_code == 200
    assert len(server.rows) == 6


def test_delivered_twice_until_the_merge(server, client):
    server.fault("twice", when=lambda row: row.name == "s1")
    post(client, span(1), span(2))
    assert names(server) == ["s1", "s1", "s2"]
    assert server.observations(fields=["core"])[0]["id"] == f"{1:016x}"
    assert "input" not in server.observations(fields=["core"])[0]
    assert "input" in server.observations()[0]
    shown = client.get("/api/public/v2/observations", params={"traceId": "a" * 32}).json()["data"]
    assert [each["name"] for each in shown] == ["s2", "s1", "s1"]
    server.merge()
    assert names(server) == ["s1", "s2"]


def test_two_copies_are_paged_without_gap_or_repeat(server, client):
    server.fault("twice")
    post(client, *(span(n) for n in range(10)))
    seen, query = [], {"limit": 3}
    while True:
        answer = client.get("/api/public/v2/observations", params=query).json()
        seen += [each["id"] for each in answer["data"]]
        if "cursor" not in answer["meta"]:
            break
        query["cursor"] = answer["meta"]["cursor"]
    assert sorted(seen) == sorted(2 * [f"{n:016x}" for n in range(10)])


def test_work_shows_after_the_lag_and_slow_rows_later():
    clock = Clock()
    with (
        LangfuseServer(lag=5, clock=clock) as server,
        httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key)) as client,
    ):
        server.fault("slow", seconds=20, when=lambda row: row.name == "s2")
        assert post(client, span(1), span(2)).status_code == 200
        assert names(server) == []
        clock.now += 5
        assert names(server) == ["s1"]
        clock.now += 20
        assert names(server) == ["s1", "s2"]
        client.delete("/api/public/traces/" + "a" * 32)
        assert names(server) == ["s1", "s2"]
        clock.now += 5
        assert names(server) == []
        post(client, span(3))
        server.settle()
        assert names(server) == ["s3"]


def test_rows_without_the_ingestion_version_show_late():
    clock = Clock()
    with (
        LangfuseServer(clock=clock) as server,
        httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key)) as client,
    ):
        post(client, span(1), version=None)
        post(client, span(2), version="3")
        post(client, span(3))
        assert names(server) == ["s3"]
        clock.now += 601
        assert names(server) == ["s1", "s2", "s3"]


def test_chosen_scores_are_refused_without_being_named(server, client):
    server.fault("207", when=lambda score: score["id"] == "b")
    scores = [{"id": each, "name": "n", "value": 1, "traceId": "a" * 32} for each in "abc"]
    answer = client.post("/api/public/scores", json=scores)
    assert answer.status_code == 207
    assert answer.json() == {"accepted": 2, "rejected": 1, "errors": [{"message": "Score was refused"}]}
    assert sorted(each["id"] for each in server.scores()) == ["a", "c"]


def test_a_chosen_score_is_accepted_and_lost(server, client):
    server.fault("lose-score", when=lambda score: score["id"] == "b", times=1)
    scores = [{"id": each, "name": "n", "value": 1, "traceId": "a" * 32} for each in "abc"]
    assert client.post("/api/public/scores", json=scores).status_code == 202
    assert sorted(each["id"] for each in server.scores()) == ["a", "c"]
    assert client.post("/api/public/scores", json=scores[1:2]).status_code == 202
    assert sorted(each["id"] for each in server.scores()) == ["a", "b", "c"]


def test_an_older_server_takes_one_score_ignores_its_time_and_goes_by_id_alone():
    clock = Clock()
    with (
        LangfuseServer("4.58.1", clock=clock) as server,
        httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key)) as client,
    ):
        score = {"id": "x", "name": "n", "value": 1, "traceId": "a" * 32, "timestamp": "2020-01-01T00:00:00Z"}
        assert client.post("/api/public/scores", json=score).json() == {"id": "x"}
        clock.now += 86_400
        client.post("/api/public/scores", json={**score, "name": "m", "value": 2})
        (seen,) = server.scores()
        assert (seen["name"], seen["value"], seen["timestamp"]) == ("n", 2, 1_700_000_000_000)
        event = {"id": "e", "type": "score-create", "timestamp": "2020-01-01T00:00:00Z", "body": {**score, "id": "y"}}
        client.post("/api/public/ingestion", json={"batch": [event]})
        assert {each["id"]: each["timestamp"] for each in server.scores()}["y"] == 1_577_836_800_000


def test_the_sdks_scores_are_lost_on_an_older_server():
    with LangfuseServer("4.58.0", keys=(f"pk-lf-{uuid4().hex}", "sk-lf-x")) as server:
        sdk = Langfuse(
            public_key=server.public_key,
            secret_key=server.secret_key,
            base_url=server.url,
            tracer_provider=TracerProvider(),
        )
        with sdk.start_as_current_observation(name="seen"):
            pass
        sdk.create_score(name="lost", value=1, trace_id="a" * 32)
        sdk.shutdown()
        assert names(server) == ["seen"]
        assert server.scores() == []
        assert sorted(request.path for request in server.requests) == [TRACES, "/api/public/scores"]


def test_a_newer_server_makes_another_score_of_another_day(server, client):
    score = {"id": "x", "name": "n", "value": 1, "traceId": "a" * 32}
    for stamp in ("2026-11-29T23:59:59Z", "2026-11-30T00:00:00Z", "2026-11-30T10:00:00Z"):
        client.post("/api/public/scores", json=[{**score, "timestamp": stamp}])
    assert len(server.scores()) == 2


def test_a_third_generation_server_has_none_of_the_newer_lists():
    with (
        LangfuseServer("3.140.0") as server,
        httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key)) as client,
    ):
        assert client.get("/api/public/health").json() == {"status": "OK", "version": "3.140.0"}
        for path in ("v2/observations", "v3/scores"):
            assert client.get(f"/api/public/{path}").status_code == 404


def test_a_person_may_score(server, client):
    score_id = server.annotate({"name": "verdict", "value": "good", "traceId": "a" * 32}, author="user-1")
    (seen,) = client.get("/api/public/v3/scores", params={"fields": "annotation", "source": "annotation"}).json()[
        "data"
    ]
    assert (seen["id"], seen["source"], seen["authorUserId"]) == (score_id, "ANNOTATION", "user-1")


def test_requests_are_kept_with_their_decoded_bytes(server, client):
    post(client, span(1))
    client.get("/api/public/health", params={"a": "b"})
    first, second = server.requests
    assert (first.method, first.path) == ("POST", TRACES)
    assert b'"s1"' in first.body
    assert b'"s1"' not in first.raw
    assert (second.method, second.path, second.query) == ("GET", "/api/public/health", {"a": ["b"]})
    server.reset()
    assert (server.requests, server.rows) == ([], [])


def test_an_unknown_fault_and_an_unknown_path_are_named(server, client):
    with pytest.raises(ValueError, match="there is no fault 'boredom'"):
        server.fault("boredom")
    assert client.get("/api/public/nothing").status_code == 404
    assert client.get("/api/public/otel/v1/traces").status_code == 405
    assert client.get("/").status_code == 404


def test_closing_ends_a_hanging_request_at_once():
    server = LangfuseServer().start()
    server.fault("hang", seconds=3600)
    failed = []

    def ask():
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{server.url}/api/public/health", timeout=30)
        failed.append(True)

    waiting = Thread(target=ask)
    waiting.start()
    while not server.requests:
        time.sleep(0.01)
    server.close()
    waiting.join(10)
    assert failed == [True]
