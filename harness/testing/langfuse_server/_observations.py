"""The list of observations, version 2: field groups, filters, exact cursor."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import orjson

from harness.testing.langfuse_server import _attributes as read
from harness.testing.langfuse_server._filters import Condition, conditions
from harness.testing.langfuse_server._rows import Row
from harness.testing.langfuse_server._table import Table, position
from harness.testing.langfuse_server._wire import PROJECT, Refusal, Reply, Request, iso

GROUPS: Final = (
    "core",
    "basic",
    "time",
    "io",
    "metadata",
    "model",
    "usage",
    "prompt",
    "metrics",
    "trace_context",
)
"""Names of the field groups."""
_PLAIN: Final[Mapping[str, Callable[[Row], Any]]] = {
    "name": lambda row: row.name,
    "userId": lambda row: row.user_id,
    "sessionId": lambda row: row.session_id,
    "type": lambda row: row.type,
    "level": lambda row: row.level,
    "version": lambda row: row.version,
    "parentObservationId": lambda row: row.parent_id or "",
}

PromptIds = Callable[[str, int], str | None]
"""Gives the id of a prompt by name and version."""


def listed(table: Table, request: Request, *, prompt_id: PromptIds) -> Reply:
    """GET observations.

    Raises:
        Refusal: A parameter is not valid (400).
    """
    groups = request.listed("fields") or {"core", "basic"}
    if unknown := groups - set(GROUPS):
        raise Refusal(400, f"Invalid request data: unknown field groups {', '.join(sorted(unknown))}")
    if request.one("parseIoAsJson") == "true":
        raise Refusal(400, "Invalid request data: parseIoAsJson is no longer supported")
    limit = request.whole("limit", 50, most=1000)
    given = request.one("filter")
    trace_id = None if given else request.one("traceId")
    source = table.newest() if trace_id is None else table.trace(trace_id)
    wanted = conditions(given) if given else _plain(request)
    shown, more = _page(source, wanted, start=_start(source, request.one("cursor")), limit=limit)
    expanded = request.listed("expandMetadata") or set()
    return Reply(
        payload={
            "data": [view(row, groups, expanded=expanded, prompt_id=prompt_id) for row in shown],
            "meta": {"cursor": _cursor(shown[-1])} if more else {},
        }
    )


def _page(source: Sequence[Row], wanted: Sequence[Condition], *, start: int, limit: int) -> tuple[list[Row], bool]:
    shown: list[Row] = []
    for index in range(start, len(source)):
        if all(holds(source[index]) for holds in wanted):
            if len(shown) == limit:
                return shown, True
            shown.append(source[index])
    return shown, False


def _plain(request: Request) -> list[Condition]:
    wanted: list[Condition] = []
    for name, get in _PLAIN.items():
        value = request.one(name)
        if value is not None:
            wanted.append(lambda row, get=get, value=value: get(row) == value)  # type: ignore[misc]  # bound by default
    environments = request.listed("environment")
    if environments is not None:
        wanted.append(lambda row: row.environment in environments)
    root = request.one("isRootObservation")
    if root is not None:
        wanted.append(lambda row: row.is_root == (root.lower() == "true"))
    first, last = request.moment("fromStartTime"), request.moment("toStartTime")
    if first is not None:
        wanted.append(lambda row: row.start >= first)
    if last is not None:
        wanted.append(lambda row: row.start < last)
    return wanted


def _cursor(row: Row) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(position(row))).decode()


def _start(source: Sequence[Row], cursor: str | None) -> int:
    """Where the page after a cursor begins; rows that arrived in between above it are not shown."""
    if cursor is None:
        return 0
    try:
        start, trace_id, span_id, number = orjson.loads(base64.urlsafe_b64decode(cursor))
    except (binascii.Error, ValueError, TypeError) as error:
        raise Refusal(400, "Invalid cursor") from error
    place = (start, trace_id, span_id, number)
    # The list goes down, bisect wants it going up.
    return bisect_right(_Down(source), _Below(place))


class _Below(tuple[Any, ...]):
    """Positions compared the other way round."""

    __slots__ = ()

    def __new__(cls, place: tuple[int, str, str, int]) -> Self:
        return super().__new__(cls, place)

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return tuple(self) > tuple(other)


class _Down(Sequence[Any]):
    """A list of rows seen as positions that go up."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return _Below(position(self._rows[index]))


def view(row: Row, groups: set[str], *, expanded: set[str] | None, prompt_id: PromptIds) -> dict[str, Any]:
    """A row as the list shows it.

    Args:
        row: The physical row.
        groups: Field groups; ``core`` is always shown.
        expanded: Metadata keys whose values are not cut; ``None`` for all.
        prompt_id: Resolves a prompt.
    """
    shown: dict[str, Any] = {
        "id": row.span_id,
        "traceId": row.trace_id,
        "startTime": iso(row.start),
        "endTime": iso(row.end),
        "projectId": PROJECT,
        "parentObservationId": row.parent_id,
        "type": row.type,
    }
    for group in groups - {"core", "metadata", "prompt"}:
        shown.update(_GROUP[group](row))
    if "metadata" in groups:
        whole = row.metadata
        shown["metadata"] = whole if expanded is None else read.shortened(whole, expanded)
    if "prompt" in groups:
        name, version = row.prompt or (None, None)
        found = prompt_id(name, version) if name is not None and version is not None else None
        shown.update(promptId=found, promptName=name, promptVersion=version)
    return shown


def _basic(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "level": row.level,
        "statusMessage": row.status_message,
        "version": row.version,
        "environment": row.environment,
        "bookmarked": False,
        "public": row.public,
        "userId": row.user_id,
        "sessionId": row.session_id,
        "isRootObservation": row.is_root,
    }


def _time(row: Row) -> dict[str, Any]:
    first = row.completion_start
    return {
        "completionStartTime": None if first is None else iso(first),
        "createdAt": iso(row.created),
        "updatedAt": iso(row.created),
    }


def _model(row: Row) -> dict[str, Any]:
    return {
        "model": row.model,
        "internalModelId": None,
        "modelParameters": row.model_parameters,
        "modelId": None,
        "inputPrice": None,
        "outputPrice": None,
        "totalPrice": None,
    }


def _usage(row: Row) -> dict[str, Any]:
    cost = row.cost
    return {
        "usageDetails": row.usage,
        "costDetails": cost,
        "totalCost": cost.get("total"),
        "usagePricingTierName": None,
    }


def _speed(row: Row) -> dict[str, Any]:
    first = row.completion_start
    return {
        "latency": (row.end - row.start) / 1000,
        "timeToFirstToken": None if first is None else (first - row.start) / 1000,
    }


_GROUP: Final[Mapping[str, Callable[[Row], dict[str, Any]]]] = {
    "basic": _basic,
    "time": _time,
    "io": lambda row: {"input": row.input, "output": row.output},
    "model": _model,
    "usage": _usage,
    "metrics": _speed,
    "trace_context": lambda row: {"traceName": row.trace_name, "tags": row.tags, "release": row.release},
}
