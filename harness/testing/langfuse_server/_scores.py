"""Scores: one object for older servers, a list from 4.59 on; read by version 3 of the list."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from harness.testing.langfuse_server._wire import PROJECT, Refusal, Reply, Request, iso, milliseconds, missing

LISTS_SINCE: Final = (4, 59)
"""Server version from which a score is created by a list."""
_TYPES: Final = ("NUMERIC", "CATEGORICAL", "BOOLEAN", "TEXT", "CORRECTION")
_SUBJECTS: Final = ("traceId", "observationId", "sessionId", "datasetRunId")
_GROUPS: Final = frozenset({"details", "subject", "annotation"})


class Scores:
    """The stored scores.

    Args:
        dated: Identity is id, name and the date of the time; older servers go by the id alone, and keep its first name
            and time.
    """

    def __init__(self, *, dated: bool) -> None:
        self._dated = dated
        self._scores: dict[tuple[str, str, str], dict[str, Any]] = {}

    def put(self, given: Mapping[str, Any], now: int, *, timed: bool) -> dict[str, Any]:
        """Store a checked score, or replace the one it is identical with.

        Args:
            given: As ``checked`` returned it.
            now: Unix milliseconds.
            timed: Whether the given timestamp counts; older servers ignore it.
        """
        stamp = milliseconds(given["timestamp"], "timestamp") if timed and given.get("timestamp") else now
        score = {
            **{
                name: given.get(name)
                for name in (*_SUBJECTS, "comment", "metadata", "configId", "queueId", "authorUserId")
            },
            "id": given["id"],
            "name": given["name"],
            "value": given["value"],
            "dataType": given["dataType"],
            "source": given.get("source") or "API",
            "environment": given.get("environment") or "default",
            "timestamp": stamp,
            "createdAt": now,
            "updatedAt": now,
        }
        key = (score["id"], score["name"], iso(stamp)[:10]) if self._dated else (score["id"], "", "")
        known = self._scores.get(key)
        if known is not None:
            kept = ("createdAt",) if self._dated else ("createdAt", "timestamp", "name")
            score.update({name: known[name] for name in kept})
        self._scores[key] = score
        return score

    def remove(self, score_id: str) -> None:
        """Delete every score with an id."""
        self._scores = {key: score for key, score in self._scores.items() if key[0] != score_id}

    def all(self) -> list[dict[str, Any]]:
        """Every score, newest first; times in unix milliseconds."""
        return sorted(self._scores.values(), key=lambda each: (each["timestamp"], each["id"]), reverse=True)

    def of_experiment(self, experiment_id: str, limit: int) -> list[dict[str, Any]]:
        """Scores of a whole experiment, as the list shows them."""
        found = [each for each in self.all() if each["datasetRunId"] == experiment_id]
        return [view(each, set(_GROUPS)) for each in found[:limit]]

    def of_trace(self, trace_id: str, limit: int) -> list[dict[str, Any]]:
        """Scores of a trace and its observations, as the list shows them."""
        found = [each for each in self.all() if each["traceId"] == trace_id]
        return [view(each, set(_GROUPS)) for each in found[:limit]]

    def listed(self, request: Request) -> Reply:
        """GET scores, version 3.

        Raises:
            Refusal: A parameter is not valid (400).
        """
        limit = request.whole("limit", 50, most=100)
        groups = request.listed("fields") or set()
        if unknown := groups - _GROUPS:
            raise Refusal(400, f"Invalid request data: unknown field groups {', '.join(sorted(unknown))}")
        found = [each for each in self.all() if _wanted(each, request)]
        place = _start(request.one("cursor"))
        if place is not None:
            found = [each for each in found if (each["timestamp"], each["id"]) < place]
        shown = found[:limit]
        meta: dict[str, Any] = {"limit": limit}
        if len(found) > limit:
            last = shown[-1]
            meta["cursor"] = base64.urlsafe_b64encode(f"{last['timestamp']}|{last['id']}".encode()).decode()
        return Reply(payload={"data": [view(each, groups) for each in shown], "meta": meta})


def checked(given: Any) -> dict[str, Any]:
    """A score that may be stored, with id and data type.

    Raises:
        Refusal: The server would not take it (400).
    """
    if not isinstance(given, dict) or not isinstance(given.get("name"), str) or not given["name"]:
        raise Refusal(400, "Invalid score: name is required")
    _check_subject(given)
    value, kind = given.get("value"), given.get("dataType")
    if kind is None:
        kind = "CATEGORICAL" if isinstance(value, str) else "NUMERIC"
    if kind not in _TYPES:
        raise Refusal(400, f"Invalid score: unknown dataType {kind!r}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "NUMERIC" and not number:
        raise Refusal(400, "Invalid score: a NUMERIC value must be a number")
    if kind == "BOOLEAN" and not (number and value in (0, 1)):
        raise Refusal(400, "Invalid score: a BOOLEAN value must be 0 or 1")
    if kind in ("CATEGORICAL", "TEXT", "CORRECTION") and not isinstance(value, str):
        raise Refusal(400, f"Invalid score: a {kind} value must be a string")
    if kind == "TEXT" and not 1 <= len(str(value)) <= 500:
        raise Refusal(400, "Invalid score: a TEXT value has 1 to 500 characters")
    return {**given, "id": given.get("id") or str(uuid4()), "dataType": kind}


def _check_subject(given: Mapping[str, Any]) -> None:
    named = {name for name in _SUBJECTS if given.get(name)}
    if named not in ({"traceId"}, {"traceId", "observationId"}, {"sessionId"}, {"datasetRunId"}):
        raise Refusal(400, "Invalid score: give exactly one of traceId (with observationId), sessionId, datasetRunId")


def view(score: Mapping[str, Any], groups: set[str]) -> dict[str, Any]:
    """A score as the list shows it."""
    shown = {name: score[name] for name in ("id", "name", "dataType", "source", "environment")}
    shown["value"] = bool(score["value"]) if score["dataType"] == "BOOLEAN" else score["value"]
    shown["projectId"] = PROJECT
    for name in ("timestamp", "createdAt", "updatedAt"):
        shown[name] = iso(score[name])
    if "details" in groups:
        shown.update({name: score[name] for name in ("comment", "configId", "metadata")})
    if "annotation" in groups:
        shown.update(authorUserId=score["authorUserId"], queueId=score["queueId"])
    if "subject" in groups:
        shown["subject"] = _subject(score)
    return shown


def _subject(score: Mapping[str, Any]) -> dict[str, Any]:
    if score["observationId"]:
        return {"kind": "observation", "id": score["observationId"], "traceId": score["traceId"]}
    if score["traceId"]:
        return {"kind": "trace", "id": score["traceId"]}
    if score["sessionId"]:
        return {"kind": "session", "id": score["sessionId"]}
    return {"kind": "experiment", "id": score["datasetRunId"]}


def _wanted(score: Mapping[str, Any], request: Request) -> bool:
    columns = {
        "id": "id",
        "name": "name",
        "environment": "environment",
        "configId": "configId",
        "queueId": "queueId",
        "traceId": "traceId",
        "sessionId": "sessionId",
        "observationId": "observationId",
        "experimentId": "datasetRunId",
    }
    for parameter, column in columns.items():
        values = request.listed(parameter)
        if values is not None and score[column] not in values:
            return False
    for parameter in ("dataType", "source"):
        values = request.listed(parameter)
        if values is not None and score[parameter] not in {each.upper() for each in values}:
            return False
    first, last = request.moment("fromTimestamp"), request.moment("toTimestamp")
    return (first is None or score["timestamp"] >= first) and (last is None or score["timestamp"] < last)


def _start(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    try:
        stamp, _, score_id = base64.urlsafe_b64decode(cursor).decode().partition("|")
        return int(stamp), score_id
    except (binascii.Error, ValueError) as error:
        raise Refusal(400, "Invalid cursor") from error


def removed(scores: Scores, score_id: str) -> Reply:
    """DELETE of a score.

    Raises:
        Refusal: There is none with this id (404).
    """
    if all(each["id"] != score_id for each in scores.all()):
        raise missing("Score")
    scores.remove(score_id)
    return Reply(status=202, payload={"message": "Score deletion request is accepted"})
