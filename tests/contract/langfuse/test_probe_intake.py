"""Getting spans in: what is taken, what is refused whole, what makes two rows one."""

import base64
import gzip
import json

import pytest


def protobuf(target, *spans):
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = json.loads(target.body(*spans))
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in {"traceId", "spanId", "parentSpanId"} & set(span):
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return ParseDict(request, ExportTraceServiceRequest()).SerializeToString()


def test_answers_with_a_job_and_stores_ids_times_and_parent(target):
    trace = target.trace()
    response = target.post(target.body(target.span(trace, 1), target.span(trace, 2, parentSpanId=f"{1:016x}")))
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("application/json")
    assert {"name", "data", "id"} <= set(response.json())

    seen = target.seen(trace, 2)
    assert [seen[name]["id"] for name in ("step 1", "step 2")] == [f"{1:016x}", f"{2:016x}"]
    assert seen["step 2"]["parentObservationId"] == f"{1:016x}"
    assert not seen["step 1"].get("parentObservationId")
    assert [seen[name]["isRootObservation"] for name in ("step 1", "step 2")] == [True, False]
    assert seen["step 1"]["latency"] == pytest.approx(0.005)


@pytest.mark.parametrize("body", [b'{"resourceSpans":[]}', b"{}"])
def test_an_empty_request_gives_an_empty_object(target, body):
    response = target.post(body)
    assert (response.status_code, response.json()) == (200, {})


@pytest.mark.parametrize("lacking", ["traceId", "spanId"])
def test_one_span_without_ids_refuses_the_whole_request(target, lacking):
    trace = target.trace()
    bad = target.span(trace, 2)
    del bad[lacking]
    assert target.post(target.body(target.span(trace, 1), bad)).status_code == 400

    target.send(target.span(trace, 3))
    assert set(target.seen(trace)) == {"step 3"}


def test_an_object_in_place_of_the_list_of_attributes_refuses_the_whole_request(target):
    trace = target.trace()
    bad = {**target.span(trace, 2), "attributes": {"langfuse.observation.type": "tool"}}
    assert target.post(target.body(target.span(trace, 1), bad)).status_code == 400

    target.send(target.span(trace, 3))
    assert set(target.seen(trace)) == {"step 3"}


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{}", {"content_type": "text/plain"}),
        (b"{}", {"x_langfuse_ingestion_version": "5"}),
        (b'{"resourceSpans": [', {}),
        (b"\xff\xff\xff\xff", {"content_type": "application/x-protobuf"}),
    ],
    ids=["content type", "newer version", "cut JSON", "no protobuf"],
)
def test_what_cannot_be_read_is_refused(target, body, headers):
    assert target.post(body, **headers).status_code == 400


def test_wrong_keys_are_refused(target):
    for auth in [(target.public_key, "sk-lf-wrong"), ("pk-lf-wrong", target.secret_key)]:
        assert target.http.post("/api/public/otel/v1/traces", json={}, auth=auth).status_code == 401


def test_json_and_protobuf_plain_and_zipped_mean_the_same(target):
    trace = target.trace()
    attributes = {"langfuse.observation.type": "tool", "langfuse.observation.metadata.n": "42", "count": 3}
    spans = [target.span(trace, n, attributes=attributes, parentSpanId=f"{9:016x}") for n in range(1, 5)]
    json_plain, json_zipped = target.body(spans[0]), gzip.compress(target.body(spans[1]))
    pb_plain, pb_zipped = protobuf(target, spans[2]), gzip.compress(protobuf(target, spans[3]))
    assert target.post(json_plain).status_code == 200
    assert target.post(json_zipped, content_encoding="gzip").status_code == 200
    assert target.post(pb_plain, content_type="application/x-protobuf").status_code == 200
    assert target.post(pb_zipped, content_type="application/x-protobuf", content_encoding="gzip").status_code == 200

    own = {"id", "name", "startTime", "endTime", "createdAt", "updatedAt", "traceName"}
    rows = target.seen(trace, 4).values()
    shared = [{key: value for key, value in row.items() if key not in own} for row in rows]
    assert shared[1:] == shared[:-1]
    assert shared[0]["type"] == "TOOL"


def test_a_start_is_floored_to_milliseconds(target):
    trace = target.trace()
    target.send(target.span(trace, 1), target.span(trace, 1, ns=999_999))
    rows = target.merged(trace, 1)
    assert rows[0]["startTime"].endswith("Z")
    assert {row["startTime"] for row in rows} == {target.rows(trace)[0]["startTime"]}


def test_one_millisecond_later_is_another_row_for_ever(target):
    trace = target.trace()
    target.send(target.span(trace, 1))
    target.send(target.span(trace, 1, ns=1_000_000))
    rows = target.wait(lambda: target.rows(trace), lambda rows: len({row["startTime"] for row in rows}) == 2)
    assert {row["id"] for row in rows} == {f"{1:016x}"}
    assert len(target.merged(trace, 2)) == 2


def test_a_later_send_replaces_the_whole_row(target):
    trace = target.trace()
    target.send(target.span(trace, 1, attributes={"langfuse.observation.input": "asked"}))
    target.seen(trace)
    target.send(target.span(trace, 1, attributes={"langfuse.observation.output": "answered"}))
    target.wait(lambda: target.rows(trace), lambda rows: any(row["output"] for row in rows))
    (row,) = target.merged(trace, 1)
    assert row["output"] == "answered"
    assert not row["input"]


def test_the_same_span_thrice_is_one_row_after_a_merge(target):
    trace = target.trace()
    for _ in range(3):
        target.send(target.span(trace, 1))
    if target.double:
        assert len(target.rows(trace)) == 3
        assert target.double.observations() == target.double.observations()
        assert len(target.double.observations()) == 1
    assert len(target.merged(trace, 1)) == 1


def test_the_same_span_id_in_two_traces_is_two_rows(target):
    first, second = target.trace(), target.trace()
    target.send(target.span(first, 1), target.span(second, 1))
    assert len(target.seen(first)) == len(target.seen(second)) == 1


def test_a_child_may_come_before_its_parent_and_without_it(target):
    trace = target.trace()
    target.send(target.span(trace, 2, parentSpanId=f"{1:016x}"), target.span(trace, 3, parentSpanId=f"{77:016x}"))
    target.send(target.span(trace, 1))
    seen = target.seen(trace, 3)
    assert seen["step 2"]["parentObservationId"] == f"{1:016x}"
    assert seen["step 3"]["parentObservationId"] == f"{77:016x}"
    assert not seen["step 3"]["isRootObservation"]


def test_a_deleted_trace_is_gone_and_may_be_sent_again(target):
    trace, other = target.trace(), target.trace()
    target.send(target.span(trace, 1), target.span(trace, 2), target.span(other, 1))
    target.seen(trace, 2)
    target.seen(other)
    response = target.http.delete(f"/api/public/traces/{trace}")
    assert response.status_code == 200
    assert "message" in response.json()
    target.wait(lambda: target.rows(trace), lambda rows: not rows)
    assert len(target.rows(other)) == 1

    target.send(target.span(trace, 1))
    assert set(target.seen(trace)) == {"step 1"}


def test_an_end_of_zero_is_the_start_and_one_before_the_start_is_kept(target):
    assert target.stored(endTimeUnixNano="0")["latency"] == 0
    early = target.stored(endTimeUnixNano=str(10**18))
    assert early["latency"] < 0


def test_a_start_twenty_years_back_is_taken(target):
    trace = target.trace()
    old = 1_164_000_000_000_000_000
    target.send(target.span(trace, 1, startTimeUnixNano=str(old), endTimeUnixNano=str(old + 2_000_000)))
    assert target.seen(trace)["step 1"]["startTime"] == "2006-11-20T05:20:00.000Z"


@pytest.mark.parametrize("broken", [b"not gzip at all", gzip.compress(b"{}" * 50, mtime=0)[:-9]])
def test_broken_gzip_is_refused(server, broken):
    import httpx

    response = httpx.post(
        f"{server.url}/api/public/otel/v1/traces",
        content=broken,
        auth=(server.public_key, server.secret_key),
        headers={"content-type": "application/json", "content-encoding": "gzip"},
    )
    assert response.status_code == 400
    assert server.rows == []
