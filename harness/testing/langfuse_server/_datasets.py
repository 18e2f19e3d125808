"""Datasets and their items, every version of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from harness.testing.langfuse_server._wire import PROJECT, Refusal, Reply, Request, iso, missing, page

LONGEST_ID: Final = 255
"""Characters of an item's id."""
_KEPT: Final = ("input", "expectedOutput", "metadata", "sourceTraceId", "sourceObservationId", "status")


class Datasets:
    """The stored datasets and items."""

    def __init__(self) -> None:
        self._datasets: dict[str, dict[str, Any]] = {}
        self._items: dict[str, list[dict[str, Any]]] = {}

    def put(self, given: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Create a dataset, or change the one of this name: a schema that is not given is erased, the rest is kept.

        Raises:
            Refusal: No name, or a schema that is not valid (400).
        """
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise Refusal(400, "Invalid request data: name is required")
        schemas = {each: given.get(each) for each in ("inputSchema", "expectedOutputSchema")}
        for each in schemas.values():
            _check_schema(each)
        known = self._datasets.get(name)
        made = {
            "id": known["id"] if known else f"dataset-{uuid4().hex}",
            "name": name,
            "projectId": PROJECT,
            "createdAt": known["createdAt"] if known else now,
            "updatedAt": now,
            **schemas,
        }
        for each in ("description", "metadata"):
            value = given.get(each)
            made[each] = known[each] if known and value is None else value
        self._datasets[name] = made
        return made

    def get(self, name: str) -> dict[str, Any]:
        """A dataset.

        Raises:
            Refusal: There is none of this name (404).
        """
        if name not in self._datasets:
            raise missing("Dataset")
        return self._datasets[name]

    def all(self) -> list[dict[str, Any]]:
        """Every dataset, newest first."""
        return sorted(self._datasets.values(), key=lambda each: each["createdAt"], reverse=True)

    def put_item(self, given: Mapping[str, Any], now: int) -> dict[str, Any]:
        """A new version of an item, also when nothing changed; a field that is absent or null keeps its old value.

        Raises:
            Refusal: Unknown dataset (404), an id that is too long (400) or belongs to another dataset (409).
        """
        dataset = self.get(str(given.get("datasetName")))
        item_id = given.get("id") or str(uuid4())
        if not isinstance(item_id, str) or len(item_id) > LONGEST_ID:
            raise Refusal(400, f"Invalid request data: id must have at most {LONGEST_ID} characters")
        if given.get("status") not in (None, "ACTIVE", "ARCHIVED"):
            raise Refusal(400, "Invalid request data: status must be ACTIVE or ARCHIVED")
        versions = self._items.setdefault(item_id, [])
        if versions and versions[0]["datasetId"] != dataset["id"]:
            raise Refusal(409, f"Dataset item id {item_id} is used by another dataset", error="Conflict")
        known = versions[-1] if versions and not versions[-1]["deleted"] else None
        stamp = max(now, versions[-1]["version"] + 1) if versions else now
        made = {
            "id": item_id,
            "datasetId": dataset["id"],
            "datasetName": dataset["name"],
            "createdAt": known["createdAt"] if known else stamp,
            "updatedAt": stamp,
            "version": stamp,
            "deleted": False,
        }
        for name in _KEPT:
            value = given.get(name)
            made[name] = known[name] if known and value is None else value
        made["status"] = made["status"] or "ACTIVE"
        versions.append(made)
        return made

    def item(self, item_id: str) -> dict[str, Any]:
        """An item as it is now, archived or not.

        Raises:
            Refusal: There is none (404).
        """
        versions = self._items.get(item_id)
        if not versions or versions[-1]["deleted"]:
            raise missing("Dataset item")
        return versions[-1]

    def remove_item(self, item_id: str, now: int) -> None:
        """Delete an item; its history stays.

        Raises:
            Refusal: There is none (404).
        """
        last = self.item(item_id)
        stamp = max(now, last["version"] + 1)
        self._items[item_id].append({**last, "version": stamp, "updatedAt": stamp, "deleted": True})

    def listed(self, request: Request) -> Reply:
        """GET of the items, as they are or as they were at ``version``.

        Raises:
            Refusal: A version without a dataset name (400); an unknown dataset (404).
        """
        name, moment = request.one("datasetName"), request.moment("version")
        if moment is not None and name is None:
            raise Refusal(400, "Invalid request data: version needs datasetName")
        if name is not None:
            self.get(name)
        sources = {each: request.one(each) for each in ("sourceTraceId", "sourceObservationId")}
        found = [
            item
            for item in self.current(moment)
            if (name is None or item["datasetName"] == name)
            and all(value is None or item[each] == value for each, value in sources.items())
        ]
        shown = page(request, found)
        return Reply(payload={**shown, "data": [item_view(item) for item in shown["data"]]})

    def current(self, moment: int | None = None) -> list[dict[str, Any]]:
        """The active items now, or at a moment (unix milliseconds), newest first."""
        found = []
        for versions in self._items.values():
            past = [each for each in versions if moment is None or each["version"] <= moment]
            if past and not past[-1]["deleted"] and past[-1]["status"] == "ACTIVE":
                found.append(past[-1])
        return sorted(found, key=lambda each: (each["createdAt"], each["id"]), reverse=True)

    def versions(self, item_id: str) -> list[dict[str, Any]]:
        """Every version of an item, oldest first."""
        return list(self._items.get(item_id, ()))


def view(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """A dataset as the server shows it."""
    return {**dataset, "createdAt": iso(dataset["createdAt"]), "updatedAt": iso(dataset["updatedAt"])}


def item_view(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as the server shows it."""
    shown = {name: value for name, value in item.items() if name != "deleted"}
    for name in ("createdAt", "updatedAt", "version"):
        shown[name] = iso(item[name])
    return {**shown, "mediaReferences": []}


def _check_schema(schema: Any) -> None:
    """The validator is strict: what is required must be described."""
    if schema is None:
        return
    if not isinstance(schema, dict):
        raise Refusal(400, "Invalid request data: a schema must be an object")
    properties = schema.get("properties")
    named = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in named:
            raise Refusal(400, f"Invalid JSON schema: required property {name!r} is not defined")
    for each in named.values():
        _check_schema(each)
