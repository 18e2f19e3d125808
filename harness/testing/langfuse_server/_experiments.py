"""Experiments: nothing is stored for them; they are what spans say about themselves."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.testing.langfuse_server import _attributes as read
from harness.testing.langfuse_server._observations import view as observation
from harness.testing.langfuse_server._rows import Row
from harness.testing.langfuse_server._scores import Scores
from harness.testing.langfuse_server._wire import Refusal, Reply, Request, iso

_PREFIX: Final = "langfuse.experiment."
_GROUPS: Final = frozenset({"core", "metadata", "scores"})
_ITEM_GROUPS: Final = frozenset({"core", "dataset", "io", "metadata", "itemMetadata", "experimentMetadata", "scores"})


def experiments(rows: Iterable[Row], scores: Scores, *, request: Request) -> Reply:
    """GET of the experiments, latest activity first.

    Raises:
        Refusal: ``fromStartTime`` is missing, or a parameter is not valid (400).
    """
    first, groups, most = _window(request, _GROUPS)
    found: dict[str, list[Row]] = {}
    for row in _within(rows, request, first=first):
        if row.experiment_id is not None:
            found.setdefault(row.experiment_id, []).append(row)
    wanted = {"id": request.listed("id"), "name": request.listed("name"), "datasetId": request.listed("datasetId")}
    shown = []
    for experiment_id, members in found.items():
        made = _experiment(experiment_id, members)
        if all(values is None or made[name] in values for name, values in wanted.items()):
            made["metadata"] = _of(members, "metadata") if "metadata" in groups else None
            made["scores"] = scores.of_experiment(experiment_id, most) if "scores" in groups else None
            shown.append(made)
    shown.sort(key=lambda each: (each["endTime"], each["id"]), reverse=True)
    return _page(shown, request)


def items(rows: Iterable[Row], scores: Scores, *, request: Request) -> Reply:
    """GET of the experiment items: one for each experiment and item, the latest row that stands for it.

    Raises:
        Refusal: As for ``experiments``.
    """
    first, groups, most = _window(request, _ITEM_GROUPS)
    wanted = {
        "experimentId": request.listed("experimentId"),
        "experimentName": request.listed("experimentName"),
        "experimentItemId": request.listed("experimentItemId"),
        "experimentDatasetId": request.listed("datasetId"),
    }
    latest: dict[tuple[str, str], Row] = {}
    for row in sorted(_within(rows, request, first=first), key=lambda each: (each.start, each.number)):
        if row.is_item:
            latest[(str(row.experiment_id), _text(row, "item.id") or row.span_id)] = row
    shown = []
    for (_, item_id), row in latest.items():
        core = _core(row, item_id)
        if all(values is None or core[name] in values for name, values in wanted.items()):
            shown.append({**core, **_details(row, groups, scores=scores, most=most)})
    shown.sort(key=lambda each: (each["startTime"], each["id"]), reverse=True)
    return _page([_chosen(each, groups) for each in shown], request)


def _experiment(experiment_id: str, members: Sequence[Row]) -> dict[str, Any]:
    names = {_text(row, "item.id") or row.span_id for row in members if row.is_item}
    return {
        "id": experiment_id,
        "name": _first(members, "name") or experiment_id,
        "description": _first(members, "description"),
        "startTime": iso(min(row.start for row in members)),
        "endTime": iso(max(row.end for row in members)),
        "itemCount": len(names),
        "datasetId": _first(members, "dataset.id"),
    }


def _core(row: Row, item_id: str) -> dict[str, Any]:
    return {
        "id": row.span_id,
        "traceId": row.trace_id,
        "startTime": iso(row.start),
        "endTime": iso(row.end),
        "level": row.level,
        "environment": row.environment,
        "experimentId": row.experiment_id,
        "experimentName": _text(row, "name") or row.experiment_id,
        "experimentItemId": item_id,
        "experimentDatasetId": _text(row, "dataset.id"),
    }


def _details(row: Row, groups: set[str], *, scores: Scores, most: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "dataset" in groups:
        version = read.moment(row.attributes.get(_PREFIX + "item.version"))
        found["experimentItemVersion"] = None if version is None else iso(version)
    if "io" in groups:
        found.update(input=row.input, output=row.output, expectedOutput=_text(row, "item.expected_output"))
    if "metadata" in groups:
        found["metadata"] = observation(row, {"metadata"}, expanded=set(), prompt_id=lambda _name, _version: None)[
            "metadata"
        ]
    if "itemMetadata" in groups:
        found["experimentItemMetadata"] = _of([row], "item.metadata")
    if "experimentMetadata" in groups:
        found["experimentMetadata"] = _of([row], "metadata")
        found["experimentDescription"] = _text(row, "description")
    if "scores" in groups:
        found["scores"] = scores.of_trace(row.trace_id, most)
    return found


def _chosen(item: dict[str, Any], groups: set[str]) -> dict[str, Any]:
    if "dataset" not in groups:
        item.pop("experimentDatasetId")
    return item


def _window(request: Request, known: frozenset[str]) -> tuple[int, set[str], int]:
    first = request.moment("fromStartTime")
    if first is None:
        raise Refusal(400, "Invalid request data: fromStartTime is required")
    groups = request.listed("fields") or {"core"}
    if unknown := groups - known:
        raise Refusal(400, f"Invalid request data: unknown field groups {', '.join(sorted(unknown))}")
    return first, groups, request.whole("scoreLimit", 50, most=50)


def _within(rows: Iterable[Row], request: Request, *, first: int) -> list[Row]:
    last = request.moment("toStartTime")
    return [row for row in rows if row.start >= first and (last is None or row.start < last)]


def _text(row: Row, name: str) -> str | None:
    value = row.attributes.get(_PREFIX + name)
    return None if value is None or value == "" else str(value)


def _first(rows: Iterable[Row], name: str) -> str | None:
    return next((text for row in rows if (text := _text(row, name)) is not None), None)


def _of(rows: Iterable[Row], name: str) -> dict[str, Any]:
    return read.mapping(_first(rows, name))


def _page(found: Sequence[Mapping[str, Any]], request: Request) -> Reply:
    limit, cursor = request.whole("limit", 50, most=100), request.one("cursor")
    try:
        start = int(base64.urlsafe_b64decode(cursor)) if cursor else 0
    except (binascii.Error, ValueError) as error:
        raise Refusal(400, "Invalid cursor") from error
    end = start + limit
    meta = {"cursor": base64.urlsafe_b64encode(str(end).encode()).decode()} if end < len(found) else {}
    return Reply(payload={"data": list(found[start:end]), "meta": meta})
