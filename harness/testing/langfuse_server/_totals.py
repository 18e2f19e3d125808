"""Counts, sums and averages over physical rows: what stands twice is counted twice."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from harness.testing.langfuse_server._filters import condition, kept
from harness.testing.langfuse_server._rows import Row
from harness.testing.langfuse_server._wire import Refusal, Reply, Request, iso, milliseconds

Get = Callable[[Any], Any]

_DIMENSIONS: Final[Mapping[str, Get]] = {
    "environment": lambda row: row.environment,
    "type": lambda row: row.type,
    "name": lambda row: row.name,
    "level": lambda row: row.level,
    "version": lambda row: row.version,
    "tags": lambda row: tuple(row.tags),
    "release": lambda row: row.release,
    "traceName": lambda row: row.trace_name,
    "traceRelease": lambda row: row.release,
    "traceVersion": lambda row: row.version,
    "providedModelName": lambda row: row.model,
    "promptName": lambda row: row.prompt[0] if row.prompt else None,
    "promptVersion": lambda row: row.prompt[1] if row.prompt else None,
    "isRootObservation": lambda row: row.is_root,
    "startTimeMonth": lambda row: iso(row.start)[:7],
}
_MEASURES: Final[Mapping[str, Get]] = {
    "count": lambda _row: 1,
    "latency": lambda row: row.end - row.start,
    "inputTokens": lambda row: row.usage.get("input"),
    "outputTokens": lambda row: row.usage.get("output"),
    "totalTokens": lambda row: row.usage.get("total"),
    "inputCost": lambda row: row.cost.get("input"),
    "outputCost": lambda row: row.cost.get("output"),
    "totalCost": lambda row: row.cost.get("total"),
}
_SCORE_DIMENSIONS: Final = ("environment", "name", "source", "dataType", "configId")
_AGGREGATIONS: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "sum": sum,
    "avg": statistics.fmean,
    "count": len,
    "max": max,
    "min": min,
    "p50": statistics.median,
}
_STEPS: Final = {"minute": 16, "hour": 13, "day": 10, "month": 7}


def totals(rows: Iterable[Row], scores: Sequence[Mapping[str, Any]], *, request: Request) -> Reply:
    """GET of the totals, version 2.

    Raises:
        Refusal: The query is not valid, or asks for a dimension or measure that there is not (400).
    """
    try:
        query = orjson.loads(request.one("query") or "")
    except orjson.JSONDecodeError as error:
        raise Refusal(400, "Invalid JSON in query parameter") from error
    if not isinstance(query, dict):
        raise Refusal(400, "Invalid query: expected object")
    first, last = (milliseconds(query.get(name), name) for name in ("fromTimestamp", "toTimestamp"))
    view = query.get("view")
    if view == "observations":
        conditions = [condition(each) for each in query.get("filters") or ()]
        found: Sequence[Any] = kept((row for row in rows if first <= row.start < last), conditions)
        return Reply(
            payload={
                "data": _grouped(found, query, dimensions=_DIMENSIONS, measures=_MEASURES, time=lambda row: row.start)
            }
        )
    if view in ("scores-numeric", "scores-boolean", "scores-categorical"):
        kinds = {"scores-numeric": ("NUMERIC", "BOOLEAN"), "scores-boolean": ("BOOLEAN",)}.get(view, ("CATEGORICAL",))
        found = [each for each in scores if each["dataType"] in kinds and first <= each["timestamp"] < last]
        dimensions = {name: _reader(name) for name in _SCORE_DIMENSIONS}
        measures: dict[str, Get] = {"count": lambda _score: 1, "value": _reader("value")}
        return Reply(
            payload={
                "data": _grouped(found, query, dimensions=dimensions, measures=measures, time=_reader("timestamp"))
            }
        )
    raise Refusal(400, f"Invalid query: unknown view {view!r}")


def _reader(name: str) -> Get:
    return lambda score: score[name]


def _grouped(
    found: Sequence[Any],
    query: Mapping[str, Any],
    *,
    dimensions: Mapping[str, Get],
    measures: Mapping[str, Get],
    time: Get,
) -> list[dict[str, Any]]:
    fields = [each.get("field") for each in query.get("dimensions") or ()]
    asked = [(each.get("measure"), each.get("aggregation")) for each in query.get("metrics") or ()]
    if not asked or any(name not in measures or how not in _AGGREGATIONS for name, how in asked):
        raise Refusal(400, "Invalid query: unknown measure or aggregation, or none at all")
    if any(field not in dimensions for field in fields):
        raise Refusal(400, "Invalid query: a dimension is unknown or of high cardinality")
    step = (query.get("timeDimension") or {}).get("granularity")
    if step is not None and step not in _STEPS:
        raise Refusal(400, "Invalid query: unknown granularity")
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for each in found:
        key = tuple(dimensions[field](each) for field in fields)
        groups.setdefault((*key, iso(time(each))[: _STEPS[step]]) if step else key, []).append(each)
    names = [*fields, "time_dimension"] if step else fields
    if not groups and not names:
        groups[()] = []
    return [
        {**dict(zip(names, key, strict=True)), **_aggregated(members, asked, measures=measures)}
        for key, members in groups.items()
    ]


def _aggregated(
    members: Sequence[Any], asked: Iterable[tuple[str, str]], *, measures: Mapping[str, Get]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, how in asked:
        values = [value for each in members if (value := measures[name](each)) is not None]
        made = _AGGREGATIONS[how](values) if values or how in ("sum", "count") else None
        # The column store prints whole numbers of 64 bits as text.
        result[f"{how}_{name}"] = str(made) if isinstance(made, int) else made
    return result
