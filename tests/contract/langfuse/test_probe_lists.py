"""Reading observations back: groups, filters, pages."""

import json
from datetime import UTC, datetime, timedelta

import pytest

CORE = {"id", "traceId", "startTime", "endTime", "projectId", "parentObservationId", "type"}


def three(target):
    trace = target.trace()
    target.send(
        target.span(trace, 1, attributes={"langfuse.trace.tags": ["x", "y"], "langfuse.environment": "nightly"}),
        target.span(trace, 2, parentSpanId=f"{1:016x}", attributes={"langfuse.observation.metadata.k": '"v1"'}),
        target.span(trace, 3, parentSpanId=f"{1:016x}", attributes={"langfuse.observation.input": "find the Needle"}),
    )
    return trace, target.seen(trace, 3)


def condition(kind, column, operator, value, **more):
    return {"type": kind, "column": column, "operator": operator, "value": value, **more}


def test_groups_decide_what_is_shown(target):
    trace, _ = three(target)
    core = target.get("v2/observations", traceId=trace, fields="core")["data"]
    assert all(set(row) >= CORE and "name" not in row for row in core)
    default = target.get("v2/observations", traceId=trace)["data"]
    assert all("name" in row and "input" not in row for row in default)
    io = target.get("v2/observations", traceId=trace, fields="io")["data"]
    assert all({"id", "input", "output"} <= set(row) for row in io)


def test_newest_comes_first_and_pages_join_without_gap_or_repeat(target):
    trace = target.trace()
    target.send(*(target.span(trace, n) for n in range(1, 26)))
    target.seen(trace, 25)
    pages, query = [], {"traceId": trace, "limit": 7}
    while True:
        answer = target.get("v2/observations", **query)
        pages.append([row["id"] for row in answer["data"]])
        if not answer["meta"].get("cursor"):
            break
        query["cursor"] = answer["meta"]["cursor"]
    assert [len(page) for page in pages] == [7, 7, 7, 4]
    assert [each for page in pages for each in page] == [f"{n:016x}" for n in range(25, 0, -1)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"isRootObservation": "true"}, {"step 1"}),
        ({"isRootObservation": "false"}, {"step 2", "step 3"}),
        ({"name": "step 2"}, {"step 2"}),
        ({"environment": "nightly"}, {"step 1"}),
        ({"parentObservationId": f"{1:016x}"}, {"step 2", "step 3"}),
        ({"parentObservationId": ""}, {"step 1"}),
        ({"level": "ERROR"}, set()),
    ],
)
def test_plain_filters(target, query, names):
    trace, _ = three(target)
    assert {row["name"] for row in target.get("v2/observations", traceId=trace, **query)["data"]} == names


def test_the_window_holds_its_start_and_not_its_end(target):
    trace, seen = three(target)
    start = datetime.fromisoformat(seen["step 2"]["startTime"]).astimezone(UTC)
    window = {"fromStartTime": start.isoformat(), "toStartTime": (start + timedelta(milliseconds=10)).isoformat()}
    assert [row["name"] for row in target.get("v2/observations", traceId=trace, **window)["data"]] == ["step 2"]


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        ([condition("string", "name", "=", "step 2")], {"step 2"}),
        ([condition("string", "name", "contains", "step")], {"step 1", "step 2", "step 3"}),
        ([condition("stringOptions", "name", "any of", ["step 1", "step 3"])], {"step 1", "step 3"}),
        ([condition("arrayOptions", "tags", "all of", ["x", "y"])], {"step 1"}),
        ([condition("arrayOptions", "tags", "all of", ["x", "z"])], set()),
        ([condition("boolean", "isRootObservation", "=", True)], {"step 1"}),
        ([condition("stringObject", "metadata", "=", "v1", key="k")], {"step 2"}),
        ([condition("string", "input", "matches", "Needle")], {"step 3"}),
        ([condition("null", "parentObservationId", "is null", None)], {"step 1"}),
    ],
)
def test_filter_language(target, conditions, names):
    trace, _ = three(target)
    conditions = [condition("string", "traceId", "=", trace), *conditions]
    answer = target.get("v2/observations", filter=json.dumps(conditions))
    assert {row["name"] for row in answer["data"]} == names


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 1001},
        {"parseIoAsJson": "true"},
        {"filter": "no json"},
        {"filter": json.dumps([condition("string", "input", "contains", "x")])},
        {"filter": json.dumps([condition("numberObject", "metadata", "=", 1, key="k")])},
    ],
)
def test_questions_that_are_refused(target, query):
    assert target.http.get("/api/public/v2/observations", params=query).status_code == 400


def test_totals_count_what_is_stored(target):
    trace, name = target.trace(), target.name("totals")
    attributes = {
        "langfuse.trace.name": name,
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": json.dumps({"input": 3}),
        "langfuse.observation.cost_details": json.dumps({"total": 0.5}),
    }
    target.send(target.span(trace, 1, attributes=attributes), target.span(trace, 2, attributes=attributes))
    if target.double:
        target.send(target.span(trace, 2, attributes=attributes))
    target.seen(trace, 2)
    query = {
        "view": "observations",
        "metrics": [{"measure": "count", "aggregation": "count"}, {"measure": "totalCost", "aggregation": "sum"}],
        "filters": [condition("string", "traceName", "=", name)],
        "fromTimestamp": (datetime.now(UTC) - timedelta(hours=1)).isoformat(),
        "toTimestamp": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }

    def totals():
        (row,) = target.get("v2/metrics", query=json.dumps(query))["data"]
        return int(row["count_count"]), float(row["sum_totalCost"])

    if target.double:
        # What stands twice is counted twice, until the merge.
        assert totals() == (3, 1.5)
        target.double.merge()
    assert target.wait(totals, lambda seen: seen == (2, 1.0))
