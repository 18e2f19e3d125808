"""Experiments as what spans say of themselves, and what is left of the older interfaces."""

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

PREFIX = "langfuse.experiment."


def since():
    return (datetime.now(UTC) - timedelta(hours=1)).isoformat()


def experiment(target, items=2, sends=2):
    """An experiment of our own making: ids chosen, every item's trace sent more than once."""
    experiment_id = f"probe-{uuid4().hex}"
    for n in range(items):
        trace = target.trace()
        shared = {
            "langfuse.environment": "sdk-experiment",
            PREFIX + "id": experiment_id,
            PREFIX + "name": "probe run",
            PREFIX + "description": "by a probe",
            PREFIX + "metadata": json.dumps({"arm": "a"}),
            PREFIX + "dataset.id": "probe-dataset",
            PREFIX + "item.id": f"item-{n}",
            PREFIX + "item.version": "2026-11-30T10:00:00.000Z",
            PREFIX + "item.metadata": json.dumps({"case": n}),
            PREFIX + "item.root_observation_id": f"{1:016x}",
        }
        root = shared | {
            PREFIX + "item.expected_output": json.dumps(n),
            "langfuse.observation.input": json.dumps({"n": n}),
            "langfuse.observation.output": json.dumps(n),
        }
        for _ in range(sends):
            target.send(
                target.span(trace, 1, attributes=root),
                target.span(trace, 2, parentSpanId=f"{1:016x}", attributes=shared),
            )
        target.seen(trace, 2)
    return experiment_id


def test_an_experiment_is_synthesised_and_counts_its_items_once(target):
    experiment_id = experiment(target, items=3)
    query = {"fromStartTime": since(), "id": experiment_id, "fields": "core,metadata,scores"}
    (seen,) = target.wait(
        lambda: target.get("experiments", **query)["data"], lambda data: data and data[0]["itemCount"] == 3
    )
    assert (seen["id"], seen["name"], seen["description"]) == (experiment_id, "probe run", "by a probe")
    assert (seen["datasetId"], seen["metadata"]["arm"]) == ("probe-dataset", "a")


def test_items_carry_their_parts_and_page(target):
    experiment_id = experiment(target, items=3)
    groups = "core,dataset,io,metadata,itemMetadata,experimentMetadata,scores"
    query = {"fromStartTime": since(), "experimentId": experiment_id, "fields": groups}
    items = target.wait(
        lambda: target.get("experiment-items", **query)["data"],
        lambda data: len({each["experimentItemId"] for each in data}) == 3,
    )
    item = next(each for each in items if each["experimentItemId"] == "item-1")
    assert (item["id"], item["experimentId"], item["environment"]) == (f"{1:016x}", experiment_id, "sdk-experiment")
    assert (json.loads(item["input"]), json.loads(item["output"])) == ({"n": 1}, 1)
    assert item["experimentItemVersion"] == "2026-11-30T10:00:00.000Z"
    assert str(item["expectedOutput"]) == "1"

    core = target.get("experiment-items", fromStartTime=since(), experimentId=experiment_id, limit=2)
    assert "input" not in core["data"][0]
    rest = target.get(
        "experiment-items", fromStartTime=since(), experimentId=experiment_id, limit=2, cursor=core["meta"]["cursor"]
    )
    assert {each["experimentItemId"] for each in core["data"] + rest["data"]} == {"item-0", "item-1", "item-2"}


def test_a_score_of_the_experiment_and_one_of_an_item_are_shown(target):
    experiment_id = experiment(target, items=1, sends=1)
    own, of_item = uuid4().hex, uuid4().hex
    trace = target.traces[-1]
    for each in (own, of_item):
        target.undo.append(lambda each=each: target.http.delete(f"/api/public/scores/{each}"))
    target.score(id=own, name="whole", value=0.5, datasetRunId=experiment_id)
    target.score(id=of_item, name="one", value=1, traceId=trace, observationId=f"{1:016x}")
    shown = target.wait(
        lambda: target.get("experiments", fromStartTime=since(), id=experiment_id, fields="core,scores")["data"],
        lambda data: data and data[0]["scores"],
    )
    assert [score["id"] for score in shown[0]["scores"]] == [own]
    items = target.wait(
        lambda: target.get("experiment-items", fromStartTime=since(), experimentId=experiment_id, fields="core,scores")[
            "data"
        ],
        lambda data: data and data[0]["scores"],
    )
    assert [score["id"] for score in items[0]["scores"]] == [of_item]


@pytest.mark.parametrize("path", ["experiments", "experiment-items"])
def test_a_start_time_must_be_given(target, path):
    assert target.http.get(f"/api/public/{path}").status_code == 400


@pytest.mark.parametrize("path", ["traces", "observations", "sessions", "scores", "v2/scores"])
def test_older_lists_are_gone(target, path):
    assert target.http.get(f"/api/public/{path}").status_code == 404


def test_the_batch_endpoint_refuses_traces_and_observations_one_by_one(target):
    score_id, trace, now = uuid4().hex, target.trace(), datetime.now(UTC).isoformat()
    target.undo.append(lambda: target.http.delete(f"/api/public/scores/{score_id}"))
    score = {"id": score_id, "traceId": trace, "name": "probe", "value": 1}
    batch = [
        {"id": "a", "type": "trace-create", "timestamp": now, "body": {"id": trace}},
        {"id": "b", "type": "span-create", "timestamp": now, "body": {"id": "x", "traceId": trace, "startTime": now}},
        {"id": "c", "type": "score-create", "timestamp": now, "body": score},
    ]
    response = target.http.post("/api/public/ingestion", json={"batch": batch})
    assert response.status_code == 207
    answer = response.json()
    assert {(each["id"], each["status"]) for each in answer["errors"]} == {("a", 400), ("b", 400)}
    assert [(each["id"], each["status"]) for each in answer["successes"]] == [("c", 201)]
    assert target.wait(lambda: target.get("v3/scores", id=score_id)["data"])
    assert target.rows(trace) == []


def test_a_dataset_run_item_is_answered_and_makes_no_experiment(target):
    name, trace = f"goldfork/{target.name('dataset')}", target.trace()
    target.http.post("/api/public/v2/datasets", json={"name": name}).raise_for_status()
    item = target.http.post("/api/public/dataset-items", json={"datasetName": name, "input": 1}).json()
    target.undo.append(lambda: target.http.delete(f"/api/public/dataset-items/{item['id']}"))
    target.send(target.span(trace, 1))
    target.seen(trace)
    run = {"runName": target.name("run"), "datasetItemId": item["id"], "traceId": trace}
    assert target.http.post("/api/public/dataset-run-items", json=run).status_code == 200
    assert target.get("experiments", fromStartTime=since(), datasetId=item["datasetId"])["data"] == []
