"""Datasets, items and their versions; prompts; media; comments."""

import base64
import hashlib
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import pytest


def dataset(target, **given):
    """A dataset; there is no way to delete one, so that a real server keeps it, empty."""
    given = {"name": f"goldfork/{target.name('dataset')}", **given}
    response = target.http.post("/api/public/v2/datasets", json=given)
    assert response.status_code == 200, response.text
    return response.json()


def item(target, name, **given):
    response = target.http.post("/api/public/dataset-items", json={"datasetName": name, **given})
    if response.status_code == 200:
        item_id = response.json()["id"]
        target.undo.append(lambda: target.http.delete(f"/api/public/dataset-items/{item_id}"))
    return response


def items(target, name, **query):
    data = target.get("dataset-items", datasetName=name, **query)["data"]
    return {each["id"]: each for each in data}


def test_a_dataset_is_known_by_its_name_and_loses_a_schema_that_is_not_given_again(target):
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    made = dataset(target, description="d", metadata={"m": 1}, inputSchema=schema)
    assert made["inputSchema"] == schema
    again = dataset(target, name=made["name"])
    assert (again["id"], again["metadata"]) == (made["id"], {"m": 1})
    assert again["inputSchema"] is None
    quoted = made["name"].replace("/", "%2F")
    assert target.get(f"v2/datasets/{quoted}")["id"] == made["id"]
    assert target.http.get("/api/public/v2/datasets/goldfork-probe-none").status_code == 404


def test_a_schema_that_requires_what_it_does_not_describe_is_refused(target):
    given = {"name": target.name("bad"), "inputSchema": {"type": "object", "properties": {}, "required": ["q"]}}
    assert target.http.post("/api/public/v2/datasets", json=given).status_code == 400


def test_every_post_makes_a_version_and_what_is_left_out_is_kept(target):
    name, item_id = dataset(target)["name"], uuid4().hex
    item(target, name, id=item_id, input={"q": 1}, expectedOutput="a", metadata={"m": 1})
    first = datetime.now(UTC)
    time.sleep(0.01 if target.double else 2)
    second = item(target, name, id=item_id, expectedOutput="b", input=None).json()
    assert (second["input"], second["expectedOutput"], second["metadata"]) == ({"q": 1}, "b", {"m": 1})
    time.sleep(0.01 if target.double else 2)
    third = item(target, name, id=item_id, expectedOutput="b").json()
    assert third["updatedAt"] > second["updatedAt"]
    assert items(target, name)[item_id]["expectedOutput"] == "b"
    assert items(target, name, version=first.isoformat())[item_id]["expectedOutput"] == "a"
    assert items(target, name, version=(first - timedelta(hours=1)).isoformat()) == {}


def test_an_archived_item_is_hidden_and_stays_in_history(target):
    name, item_id = dataset(target)["name"], uuid4().hex
    item(target, name, id=item_id, input=1)
    before = datetime.now(UTC)
    time.sleep(0.01 if target.double else 2)
    item(target, name, id=item_id, status="ARCHIVED")
    assert items(target, name) == {}
    assert item_id in items(target, name, version=before.isoformat())
    item(target, name, id=item_id, status="ACTIVE")
    assert items(target, name)[item_id]["input"] == 1


def test_a_deleted_item_is_gone_and_stays_in_history(target):
    name, item_id = dataset(target)["name"], uuid4().hex
    target.http.post("/api/public/dataset-items", json={"datasetName": name, "id": item_id, "input": 1})
    before = datetime.now(UTC)
    time.sleep(0.01 if target.double else 2)
    assert target.http.delete(f"/api/public/dataset-items/{item_id}").status_code == 200
    assert target.http.get(f"/api/public/dataset-items/{item_id}").status_code == 404
    assert items(target, name) == {}
    assert item_id in items(target, name, version=before.isoformat())


def test_an_items_id_belongs_to_one_dataset(target):
    first, second, item_id = dataset(target)["name"], dataset(target)["name"], uuid4().hex
    assert item(target, first, id=item_id, input=1).status_code == 200
    assert item(target, second, id=item_id, input=1).status_code == 409
    assert items(target, second) == {}


@pytest.mark.parametrize(("length", "status"), [(255, 200), (256, 400)])
def test_an_items_id_has_at_most_255_characters(target, length, status):
    name = dataset(target)["name"]
    item_id = uuid4().hex + "x" * (length - 32)
    assert item(target, name, id=item_id, input=1).status_code == status


def test_items_are_found_by_their_source_and_paged(target):
    name, source = dataset(target)["name"], uuid4().hex
    for n in range(5):
        item(target, name, id=uuid4().hex, input=n, sourceTraceId=source if n == 3 else None)
    page = target.get("dataset-items", datasetName=name, page=2, limit=2)
    assert len(page["data"]) == 2
    assert page["meta"] == {"page": 2, "limit": 2, "totalItems": 5, "totalPages": 3}
    assert [each["input"] for each in items(target, name, sourceTraceId=source).values()] == [3]
    answer = target.http.get("/api/public/dataset-items", params={"version": datetime.now(UTC).isoformat()})
    assert answer.status_code == 400
    assert item(target, target.name("unknown"), input=1).status_code == 404


def test_prompts_have_versions_and_labels_move(target):
    name = target.name("prompt")
    target.undo.append(lambda: target.http.delete(f"/api/public/v2/prompts/{name}"))

    def create(**given):
        response = target.http.post("/api/public/v2/prompts", json={"name": name, **given})
        assert response.status_code in (200, 201), response.text
        return response.json()

    def get(**query):
        return target.get(f"v2/prompts/{name}", **query)

    assert create(prompt="one {{x}}", labels=["production"], config={"t": 0}, type="text")["version"] == 1
    assert create(prompt="two {{x}}", labels=["staging"], type="text")["version"] == 2
    assert (get()["version"], get(label="staging")["version"], get(label="latest")["version"]) == (1, 2, 2)
    assert (get(version=1)["prompt"], get(version=1)["config"]) == ("one {{x}}", {"t": 0})
    target.http.patch(
        f"/api/public/v2/prompts/{name}/versions/2", json={"newLabels": ["production"]}
    ).raise_for_status()
    target.wait(get, lambda seen: seen["version"] == 2)
    assert "production" not in get(version=1)["labels"]
    assert target.http.get(f"/api/public/v2/prompts/{name}", params={"label": "nowhere"}).status_code == 404
    chat = [{"role": "system", "content": "be brief"}]
    assert (
        target.http.post("/api/public/v2/prompts", json={"name": name, "prompt": chat, "type": "chat"}).status_code
        == 400
    )
    other = target.name("chat")
    target.undo.append(lambda: target.http.delete(f"/api/public/v2/prompts/{other}"))
    target.http.post("/api/public/v2/prompts", json={"name": other, "prompt": chat, "type": "chat"})
    message = target.get(f"v2/prompts/{other}", label="latest")["prompt"][0]
    assert (message["role"], message["content"]) == ("system", "be brief")


def test_media_is_uploaded_once(target):
    trace, body = target.trace(), uuid4().bytes * 4
    given = {
        "traceId": trace,
        "field": "input",
        "contentType": "application/octet-stream",
        "contentLength": len(body),
        "sha256Hash": base64.b64encode(hashlib.sha256(body).digest()).decode(),
    }

    def address():
        response = target.http.post("/api/public/media", json=given)
        assert response.status_code in (200, 201), response.text
        return response.json()

    first = address()
    headers = {"content-type": given["contentType"], "x-amz-checksum-sha256": given["sha256Hash"]}
    put = httpx.put(first["uploadUrl"], content=body, headers=headers)
    assert put.status_code == 200
    outcome = {"uploadedAt": datetime.now(UTC).isoformat(), "uploadHttpStatus": 200}
    target.http.patch(f"/api/public/media/{first['mediaId']}", json=outcome).raise_for_status()
    record = target.get(f"media/{first['mediaId']}")
    assert (record["contentType"], record["contentLength"]) == (given["contentType"], len(body))
    assert httpx.get(record["url"]).content == body

    second = address()
    assert (second["mediaId"], second.get("uploadUrl")) == (first["mediaId"], None)


def test_comments_are_listed_by_what_they_are_about(target):
    trace = target.trace()
    target.send(target.span(trace, 1))
    target.seen(trace)
    project = target.get("projects")["data"][0]["id"]
    given = {"projectId": project, "objectType": "TRACE", "objectId": trace, "content": "look here"}
    made = target.http.post("/api/public/comments", json=given)
    assert made.status_code == 200, made.text
    listed = target.get("comments", objectType="TRACE", objectId=trace)["data"]
    assert [(each["id"], each["content"]) for each in listed] == [(made.json()["id"], "look here")]
    assert target.get(f"comments/{made.json()['id']}")["objectId"] == trace
    assert target.http.post("/api/public/comments", json={**given, "objectType": "THING"}).status_code == 400
