"""Answers about datasets, experiments, prompts, media, comments and totals."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from harness.testing.langfuse_server import _datasets, _experiments, _prompts, _totals
from harness.testing.langfuse_server._state import Call
from harness.testing.langfuse_server._wire import PROJECT, Refusal, Reply, Request, iso, missing, page

_COMMENTED: Final = ("TRACE", "OBSERVATION", "SESSION", "PROMPT")


def put_dataset(call: Call) -> Reply:
    """POST of a dataset."""
    return Reply(payload=_datasets.view(call.state.datasets.put(call.request.fields(), call.state.now)))


def list_datasets(call: Call) -> Reply:
    """GET of the datasets."""
    return Reply(payload=page(call.request, [_datasets.view(each) for each in call.state.datasets.all()]))


def get_dataset(call: Call, name: str) -> Reply:
    """GET of a dataset."""
    return Reply(payload=_datasets.view(call.state.datasets.get(name)))


def put_item(call: Call) -> Reply:
    """POST of a dataset item."""
    return Reply(payload=_datasets.item_view(call.state.datasets.put_item(call.request.fields(), call.state.now)))


def list_items(call: Call) -> Reply:
    """GET of dataset items."""
    return call.state.datasets.listed(call.request)


def get_item(call: Call, item_id: str) -> Reply:
    """GET of a dataset item."""
    return Reply(payload=_datasets.item_view(call.state.datasets.item(item_id)))


def delete_item(call: Call, item_id: str) -> Reply:
    """DELETE of a dataset item."""
    call.state.datasets.remove_item(item_id, call.state.now)
    return Reply(payload={"message": "Dataset item successfully deleted"})


def list_experiments(call: Call) -> Reply:
    """GET of experiments."""
    return _experiments.experiments(call.state.table.merged(), call.state.scores, request=call.request)


def list_experiment_items(call: Call) -> Reply:
    """GET of experiment items."""
    return _experiments.items(call.state.table.merged(), call.state.scores, request=call.request)


def totals(call: Call) -> Reply:
    """GET of counts and sums."""
    return _totals.totals(call.state.table.newest(), call.state.scores.all(), request=call.request)


def create_prompt(call: Call) -> Reply:
    """POST of a prompt version."""
    return Reply(status=201, payload=_prompts.view(call.state.prompts.create(call.request.fields(), call.state.now)))


def list_prompts(call: Call) -> Reply:
    """GET of prompts."""
    return call.state.prompts.listed(call.request)


def get_prompt(call: Call, name: str) -> Reply:
    """GET of one version of a prompt."""
    found = call.state.prompts.find(name, version=_version(call.request), label=call.request.one("label"))
    return Reply(payload=_prompts.view(found))


def delete_prompt(call: Call, name: str) -> Reply:
    """DELETE of a prompt's versions."""
    call.state.prompts.remove(name, version=_version(call.request), label=call.request.one("label"))
    return Reply(status=204, payload=b"")


def label_prompt(call: Call, name: str, version: str) -> Reply:
    """PATCH of a prompt version's labels."""
    labels = call.request.fields().get("newLabels")
    if not version.isdigit() or not isinstance(labels, list):
        raise Refusal(400, "Invalid request data: version must be a number and newLabels a list")
    made = call.state.prompts.relabel(name, int(version), labels=[str(each) for each in labels], now=call.state.now)
    return Reply(payload=_prompts.view(made))


def _version(request: Request) -> int | None:
    return None if request.one("version") is None else request.whole("version", 1, most=1_000_000)


def media_address(call: Call) -> Reply:
    """POST for an upload address."""
    return Reply(status=201, payload=call.state.media.address(call.request.fields(), call.state.base_url))


def media_outcome(call: Call, media_id: str) -> Reply:
    """PATCH with the outcome of an upload."""
    return call.state.media.outcome(media_id, call.request.fields())


def get_media(call: Call, media_id: str) -> Reply:
    """GET of a file's record."""
    return Reply(payload=call.state.media.view(media_id, call.state.base_url, now=call.state.now))


def upload(call: Call, media_id: str) -> Reply:
    """PUT to a presigned address."""
    return call.state.media.upload(media_id, call.request)


def download(call: Call, media_id: str) -> Reply:
    """GET of a presigned address."""
    return call.state.media.content(media_id)


def create_comment(call: Call) -> Reply:
    """POST of a comment."""
    given = call.request.fields()
    if given.get("projectId") != PROJECT:
        raise Refusal(403, "The project does not belong to these keys", error="ForbiddenError")
    if given.get("objectType") not in _COMMENTED or not given.get("objectId") or not given.get("content"):
        raise Refusal(400, "Invalid request data: objectType, objectId and content are required")
    now = iso(call.state.now)
    made: dict[str, Any] = {
        **{name: given.get(name) for name in ("objectType", "objectId", "content", "authorUserId")},
        "id": str(uuid4()),
        "projectId": PROJECT,
        "createdAt": now,
        "updatedAt": now,
    }
    call.state.comments.append(made)
    return Reply(payload={"id": made["id"]})


def list_comments(call: Call) -> Reply:
    """GET of comments."""
    wanted = {name: call.request.one(name) for name in ("objectType", "objectId", "authorUserId")}
    if wanted["objectId"] is not None and wanted["objectType"] is None:
        raise Refusal(400, "Invalid request data: objectId needs objectType")
    found = [
        each
        for each in call.state.comments
        if all(value is None or each[name] == value for name, value in wanted.items())
    ]
    return Reply(payload=page(call.request, found))


def get_comment(call: Call, comment_id: str) -> Reply:
    """GET of a comment."""
    for each in call.state.comments:
        if each["id"] == comment_id:
            return Reply(payload=each)
    raise missing("Comment")
