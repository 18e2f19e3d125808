"""Prompts: versions, labels, text and chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.testing.langfuse_server._wire import Refusal, Reply, Request, iso, missing, page


class Prompts:
    """The stored prompts, every version of each."""

    def __init__(self) -> None:
        self._prompts: dict[str, list[dict[str, Any]]] = {}

    def id(self, name: str, version: int) -> str | None:
        """The id of a version; ``None`` if there is none."""
        return next(
            (f"prompt-{name}-{version}" for each in self._prompts.get(name, ()) if each["version"] == version), None
        )

    def create(self, given: Mapping[str, Any], now: int) -> dict[str, Any]:
        """A new version; its labels move to it.

        Raises:
            Refusal: No name, or a text that does not fit the type (400).
        """
        name, text, kind = given.get("name"), given.get("prompt"), given.get("type") or "text"
        if not isinstance(name, str) or not name:
            raise Refusal(400, "Invalid request data: name is required")
        if not isinstance(text, str if kind == "text" else list):
            raise Refusal(400, "Invalid request data: prompt does not fit its type")
        versions = self._prompts.setdefault(name, [])
        if versions and versions[0]["type"] != kind:
            raise Refusal(400, "The versions of one prompt are of one type")
        labels = {str(label) for label in given.get("labels") or ()} | {"latest"}
        self._take(name, labels)
        made: dict[str, Any] = {
            "name": name,
            "version": max((each["version"] for each in versions), default=0) + 1,
            "type": kind,
            "prompt": text,
            "config": given.get("config") if given.get("config") is not None else {},
            "labels": sorted(labels),
            "tags": list(given.get("tags") or (versions[-1]["tags"] if versions else ())),
            "commitMessage": given.get("commitMessage"),
            "updatedAt": now,
        }
        versions.append(made)
        return made

    def relabel(self, name: str, version: int, *, labels: list[str], now: int) -> dict[str, Any]:
        """Give labels to a version; they leave the one that had them.

        Raises:
            Refusal: There is no such version (404).
        """
        found = self.find(name, version=version, label=None)
        self._take(name, set(labels))
        found.update(labels=sorted({*found["labels"], *labels}), updatedAt=now)
        return found

    def find(self, name: str, *, version: int | None, label: str | None) -> dict[str, Any]:
        """A version by number or by label, ``production`` by default.

        Raises:
            Refusal: There is none (404), or both were given (400).
        """
        if version is not None and label is not None:
            raise Refusal(400, "Cannot specify both version and label")
        wanted = label or "production"
        for each in self._prompts.get(name, ()):
            if each["version"] == version if version is not None else wanted in each["labels"]:
                return each
        raise missing("Prompt")

    def remove(self, name: str, *, version: int | None, label: str | None) -> None:
        """Delete the versions that fit; all of them by default.

        Raises:
            Refusal: None fits (404).
        """
        fitting = [
            each
            for each in self._prompts.get(name, ())
            if (version is None or each["version"] == version) and (label is None or label in each["labels"])
        ]
        if not fitting:
            raise missing("Prompt")
        rest = [each for each in self._prompts[name] if each not in fitting]
        self._prompts[name] = rest
        if not rest:
            del self._prompts[name]

    def listed(self, request: Request) -> Reply:
        """GET of the prompts, one entry for each name."""
        name, label, tag = request.one("name"), request.one("label"), request.one("tag")
        found = [
            _meta(key, versions)
            for key, versions in sorted(self._prompts.items())
            if (name is None or key == name)
            and (label is None or any(label in each["labels"] for each in versions))
            and (tag is None or any(tag in each["tags"] for each in versions))
        ]
        return Reply(payload=page(request, found))

    def _take(self, name: str, labels: set[str]) -> None:
        for each in self._prompts.get(name, ()):
            each["labels"] = [label for label in each["labels"] if label not in labels]


def _meta(name: str, versions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "type": versions[0]["type"],
        "versions": [each["version"] for each in versions],
        "labels": sorted({label for each in versions for label in each["labels"]}),
        "tags": versions[-1]["tags"],
        "lastUpdatedAt": iso(max(each["updatedAt"] for each in versions)),
        "lastConfig": versions[-1]["config"],
    }


def view(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """A version as the server shows it."""
    shown = {name: value for name, value in prompt.items() if name != "updatedAt"}
    return {**shown, "updatedAt": iso(prompt["updatedAt"]), "resolutionGraph": None}
