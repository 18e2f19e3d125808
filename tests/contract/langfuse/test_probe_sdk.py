"""The real SDK as a client: it works, and it is told what our own client is told."""

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import pytest
from langfuse import Evaluation
from langfuse.api import (
    Error,
    ExperimentItemsResponse,
    ExperimentsResponse,
    GetMediaResponse,
    GetScoresV3Response,
    HealthResponse,
    NotFoundError,
    ObservationsV2Response,
    PaginatedDatasetItems,
    Projects,
)
from langfuse.api.core.pydantic_utilities import parse_obj_as
from langfuse.media import LangfuseMedia

ALL = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"


def traced(target, sdk):
    """A small trace made by the SDK: its id."""
    trace = target.trace()
    with sdk.start_as_current_observation(
        trace_context={"trace_id": trace}, name="root", as_type="agent", input={"q": 1}, metadata={"a": "123", "b": 123}
    ) as root:
        with root.start_as_current_observation(name="look", as_type="tool", output=[1], level="WARNING"):
            pass
        with root.start_as_current_observation(
            name="say",
            as_type="generation",
            model="goldfork-probe-model",
            usage_details={"input": 3, "output": 4},
            cost_details={"total": 0.25},
        ):
            pass
    sdk.flush()
    return trace


def test_spans_of_the_sdk_are_read_by_our_client(target, sdk):
    seen = target.seen(traced(target, sdk), 3)
    assert {name: row["type"] for name, row in seen.items()} == {"root": "AGENT", "look": "TOOL", "say": "GENERATION"}
    # Given a trace id the SDK invents a parent that is never sent; its flag makes the span a root all the same.
    assert (seen["root"]["isRootObservation"], seen["look"]["isRootObservation"]) == (True, False)
    assert seen["look"]["parentObservationId"] == seen["root"]["id"]
    assert (seen["root"]["metadata"]["a"], seen["root"]["metadata"]["b"]) == ("123", 123)
    assert "attributes" not in seen["root"]["metadata"]
    assert (seen["root"]["input"], seen["look"]["output"]) == ('{"q": 1}', "[1]")
    assert (seen["say"]["usageDetails"]["output"], seen["say"]["totalCost"]) == (4, 0.25)
    assert seen["look"]["level"] == "WARNING"


def test_both_clients_read_the_same_observations(target, sdk):
    trace = traced(target, sdk)
    target.seen(trace, 3)
    for query in [{}, {"name": "say"}, {"level": "WARNING"}, {"limit": 2}, {"isRootObservation": True}]:
        snake = {{"isRootObservation": "is_root_observation"}.get(key, key): value for key, value in query.items()}
        text = {key: str(value).lower() if value is True else value for key, value in query.items()}
        mine = target.get("v2/observations", traceId=trace, fields=ALL, **text)
        theirs = sdk.api.observations.get_many(trace_id=trace, fields=ALL, **snake)
        assert parse_obj_as(ObservationsV2Response, mine) == theirs
        assert theirs.data
    first = sdk.api.observations.get_many(trace_id=trace, limit=2)
    rest = sdk.api.observations.get_many(trace_id=trace, limit=2, cursor=first.meta.cursor)
    assert len({each.id for each in first.data + rest.data}) == 3


def test_spans_of_our_client_are_read_by_the_sdk_in_its_window(target, sdk):
    trace = target.trace()
    target.send(target.span(trace, 1), target.span(trace, 2, parentSpanId=f"{1:016x}"))
    target.seen(trace, 2)
    now = datetime.now(UTC)
    found = sdk.api.observations.get_many(
        trace_id=trace,
        environment=["default", "other"],
        from_start_time=now - timedelta(hours=1),
        to_start_time=now + timedelta(hours=1),
    )
    assert [each.name for each in found.data] == ["step 2", "step 1"]
    wanted = [{"type": "string", "column": "traceId", "operator": "=", "value": trace}]
    assert len(sdk.api.observations.get_many(filter=json.dumps(wanted)).data) == 2
    sdk.api.trace.delete(trace)
    target.wait(lambda: target.rows(trace), lambda rows: not rows)


def test_both_clients_read_the_same_scores(target, sdk):
    if not target.takes_lists:
        pytest.skip("this SDK creates scores by lists, which a server before 4.59 refuses")
    trace, ids = target.trace(), [uuid4().hex for _ in range(3)]
    for each, value, kind in zip(ids, (0.5, "good", 1), ("NUMERIC", "CATEGORICAL", "BOOLEAN"), strict=True):
        target.undo.append(lambda each=each: target.http.delete(f"/api/public/scores/{each}"))
        sdk.create_score(score_id=each, name="probe", value=value, data_type=kind, trace_id=trace, comment="why")
    sdk.flush()
    query = {"traceId": trace, "fields": "subject,details"}
    mine = target.wait(lambda: target.get("v3/scores", **query), lambda seen: len(seen["data"]) == 3)
    theirs = sdk.api.scores.get_many(trace_id=trace, fields="subject,details")
    assert parse_obj_as(GetScoresV3Response, mine) == theirs
    assert {each.id: each.value for each in theirs.data} == dict(zip(ids, (0.5, "good", True), strict=True))


def test_a_dataset_and_its_experiment_by_the_sdk(target, sdk):
    name = f"goldfork/{target.name('dataset')}"
    sdk.create_dataset(name=name, description="of a probe")
    for n in range(3):
        made = sdk.create_dataset_item(dataset_name=name, id=uuid4().hex, input={"n": n}, expected_output=n % 2)
        target.undo.append(lambda made=made: sdk.api.dataset_items.delete(made.id))
    dataset = sdk.get_dataset(name)
    assert sorted(item.input["n"] for item in dataset.items) == [0, 1, 2]
    mine = target.get("dataset-items", datasetName=name)
    assert parse_obj_as(PaginatedDatasetItems, mine) == sdk.api.dataset_items.list(dataset_name=name)

    def evaluate(*, output, expected_output, **_rest):
        return Evaluation(name="equal", value=float(output == expected_output))

    result = dataset.run_experiment(name="probe", task=lambda *, item, **_rest: item.input["n"], evaluators=[evaluate])
    sdk.flush()
    target.traces.extend(each.trace_id for each in result.item_results)
    since = datetime.now(UTC) - timedelta(hours=1)
    found = target.wait(
        lambda: sdk.api.experiments.list(from_start_time=since, dataset_id=dataset.id, fields="core,metadata"),
        lambda seen: seen.data and seen.data[0].item_count == 3,
    )
    assert found.data[0].name == result.run_name
    query = {"fromStartTime": since.isoformat(), "datasetId": dataset.id, "fields": "core,metadata"}
    assert parse_obj_as(ExperimentsResponse, target.get("experiments", **query)) == found
    query = {"fromStartTime": since.isoformat(), "experimentId": found.data[0].id, "fields": "core,dataset,io,scores"}

    def items():
        return parse_obj_as(ExperimentItemsResponse, target.get("experiment-items", **query))

    scored = target.wait(
        items, lambda seen: len(seen.data) == 3 and (not target.takes_lists or all(each.scores for each in seen.data))
    )
    assert scored == sdk.api.experiments.list_items(
        from_start_time=since, experiment_id=found.data[0].id, fields="core,dataset,io,scores"
    )
    if target.takes_lists:
        values = {each.input: each.scores[0].value for each in scored.data}
        assert values == {'{"n": 0}': 1.0, '{"n": 1}': 1.0, '{"n": 2}': 0.0}


def test_prompts_by_the_sdk(target, sdk):
    name = f"goldfork/{target.name('prompt')}"
    target.undo.append(lambda: sdk.api.prompts.delete(name.replace("/", "%2F")))
    sdk.create_prompt(name=name, prompt="answer {{x}}", labels=["production"], config={"t": 0})
    prompt = sdk.get_prompt(name, cache_ttl_seconds=0)
    assert (prompt.compile(x="briefly"), prompt.version, prompt.config) == ("answer briefly", 1, {"t": 0})
    quoted = name.replace("/", "%2F")
    mine = target.get(f"v2/prompts/{quoted}", label="production")
    theirs = sdk.api.prompts.get(quoted, label="production")
    assert (mine["prompt"], mine["version"]) == (theirs.prompt, theirs.version)
    assert [each.name for each in sdk.api.prompts.list(name=name).data] == [name]

    trace = target.trace()
    with sdk.start_as_current_observation(
        trace_context={"trace_id": trace}, name="say", as_type="generation", prompt=prompt, model="goldfork-probe-model"
    ):
        pass
    sdk.flush()
    row = target.seen(trace)["say"]
    assert (row["promptName"], row["promptVersion"]) == (name, 1)


def test_both_clients_read_the_same_about_the_server(target, sdk):
    assert parse_obj_as(HealthResponse, target.get("health")) == sdk.api.health.health()
    assert parse_obj_as(Projects, target.get("projects")) == sdk.api.projects.get()
    assert sdk.auth_check()


def test_media_by_the_sdk(target, sdk):
    trace, body = target.trace(), uuid4().bytes * 4
    media = LangfuseMedia(content_bytes=body, content_type="application/octet-stream")
    with sdk.start_as_current_observation(trace_context={"trace_id": trace}, name="look", input={"file": media}):
        pass
    sdk.flush()
    reference = json.loads(target.seen(trace)["look"]["input"])["file"]
    media_id = LangfuseMedia.parse_reference_string(reference)["media_id"]
    record = target.wait(lambda: target.http.get(f"/api/public/media/{media_id}"), lambda seen: seen.status_code == 200)
    assert parse_obj_as(GetMediaResponse, record.json()).content_length == len(body)
    assert httpx.get(sdk.api.media.get(media_id).url).content == body


def test_comments_by_the_sdk(target, sdk):
    trace = target.trace()
    target.send(target.span(trace, 1))
    target.seen(trace)
    project = sdk.api.projects.get().data[0].id
    made = sdk.api.comments.create(project_id=project, object_type="TRACE", object_id=trace, content="look")
    listed = sdk.api.comments.get(object_type="TRACE", object_id=trace)
    assert [each.id for each in listed.data] == [made.id]
    assert sdk.api.comments.get_by_id(made.id) == listed.data[0]


def test_a_refusal_reaches_both_clients(target, sdk):
    with pytest.raises(NotFoundError):
        sdk.api.datasets.get(target.name("nothing"))
    with pytest.raises(Error) as caught:
        sdk.api.observations.get_many(limit=5000)
    assert target.http.get("/api/public/v2/observations", params={"limit": 5000}).status_code == 400
    assert caught.value.status_code == 400
