"""The table of observations against a model of it, and many clients at once."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.testing.langfuse_server import LangfuseServer

TRACES = [f"{n:032x}" for n in range(1, 4)]
START = 1_700_000_000_000_000_000

spans = st.builds(
    lambda trace, number, offset, name: {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(START + offset),
    },
    st.sampled_from(TRACES),
    st.integers(1, 4),
    st.sampled_from([0, 999_999, 1_000_000, 5_500_000]),
    st.sampled_from("abc"),
)
works = st.one_of(
    st.tuples(st.just("send"), st.lists(spans, min_size=1, max_size=6)),
    st.tuples(st.just("delete"), st.sampled_from(TRACES)),
    st.tuples(st.just("merge"), st.none()),
)


@pytest.fixture(scope="module")
def shared():
    with (
        LangfuseServer() as server,
        httpx.Client(base_url=server.url, auth=(server.public_key, server.secret_key)) as client,
    ):
        yield server, client


def post(client, listed):
    body = {"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]}
    response = client.post("/api/public/otel/v1/traces", json=body, headers={"x-langfuse-ingestion-version": "4"})
    assert response.status_code == 200


def key(span):
    return span["traceId"], span["spanId"], int(span["startTimeUnixNano"]) // 1_000_000


def paged(client, **query):
    seen = []
    while True:
        answer = client.get("/api/public/v2/observations", params=query).json()
        seen += answer["data"]
        if not answer["meta"].get("cursor"):
            return seen
        query["cursor"] = answer["meta"]["cursor"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=st.lists(works, max_size=8), limit=st.integers(1, 7))
def test_sends_deletes_and_merges_agree_with_a_model(shared, plan, limit):
    server, client = shared
    server.reset()
    physical = []
    for word, what in plan:
        if word == "send":
            post(client, what)
            physical += what
        elif word == "delete":
            client.delete(f"/api/public/traces/{what}").raise_for_status()
            physical = [span for span in physical if span["traceId"] != what]
        else:
            server.merge()
            physical = list({key(span): span for span in physical}.values())
    assert sorted((*row.key, row.name) for row in server.rows) == sorted((*key(s), s["name"]) for s in physical)
    last = {key(span): span["name"] for span in physical}
    merged = server.observations()
    assert sorted((each["traceId"], each["id"], each["name"]) for each in merged) == sorted(
        (trace, span, name) for (trace, span, _), name in last.items()
    )

    listed = paged(client, limit=limit)
    assert len(listed) == len(physical)
    starts = [each["startTime"] for each in listed]
    assert starts == sorted(starts, reverse=True)
    for trace in TRACES:
        one = [each for each in listed if each["traceId"] == trace]
        assert paged(client, limit=limit, traceId=trace) == one


def test_rows_that_arrive_between_two_pages_are_not_shown_twice(shared):
    server, client = shared
    server.reset()

    def span(number):
        start = str(START + number * 1_000_000)
        return {"traceId": TRACES[0], "spanId": f"{number:016x}", "name": "x", "startTimeUnixNano": start}

    post(client, [span(number) for number in range(10)])
    first = client.get("/api/public/v2/observations", params={"limit": 5}).json()
    post(client, [span(number) for number in range(10, 15)])
    rest = paged(client, limit=5, cursor=first["meta"]["cursor"])
    assert [int(each["id"], 16) for each in first["data"] + rest] == list(range(9, -1, -1))


def test_many_senders_and_readers_at_once(shared):
    server, client = shared
    server.reset()

    def send(worker):
        trace = f"{worker + 1:032x}"
        for number in range(20):
            post(client, [{"traceId": trace, "spanId": f"{number:016x}", "name": "x", "startTimeUnixNano": str(START)}])
            assert len(paged(client, traceId=trace, limit=1000)) == number + 1
        return trace

    with ThreadPoolExecutor(8) as pool:
        traces = list(pool.map(send, range(8)))
    assert len(server.rows) == 160
    assert {row.trace_id for row in server.rows} == set(traces)
    assert [request.number for request in server.requests] == list(range(320))


def test_an_empty_object_in_metadata_is_lost_and_a_path_through_a_value_keeps_its_dots(shared):
    server, client = shared
    server.reset()
    whole = {"kept": {"a": 1, "empty": {}}, "empty": {}, "list": [{}], "x": 1, "x.y": 2}
    attribute = {"key": "langfuse.observation.metadata", "value": {"stringValue": json.dumps(whole)}}
    post(client, [{"traceId": TRACES[0], "spanId": "1" * 16, "name": "x", "attributes": [attribute]}])
    metadata = server.observations()[0]["metadata"]
    own = {key: value for key, value in metadata.items() if key not in ("attributes", "scope")}
    assert own == {"kept": {"a": 1}, "list": [{}], "x": 1, "x.y": 2}
