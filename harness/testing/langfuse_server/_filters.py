"""The filter language of the lists: a JSON list of conditions, checked against the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from harness.testing.langfuse_server._rows import Row
from harness.testing.langfuse_server._wire import Refusal, milliseconds

Condition = Callable[[Row], bool]

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": lambda have, want: have == want,
    ">": lambda have, want: have > want,
    "<": lambda have, want: have < want,
    ">=": lambda have, want: have >= want,
    "<=": lambda have, want: have <= want,
}
_TEXT: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "=": lambda have, want: have == want,
    "contains": lambda have, want: want in have,
    "does not contain": lambda have, want: want not in have,
    "starts with": lambda have, want: have.startswith(want),
    "ends with": lambda have, want: have.endswith(want),
    "matches": lambda have, want: want.lower() in have.lower(),
}
_TEXT_COLUMNS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "id": lambda row: row.span_id,
    "traceId": lambda row: row.trace_id,
    "type": lambda row: row.type,
    "name": lambda row: row.name,
    "environment": lambda row: row.environment,
    "level": lambda row: row.level,
    "statusMessage": lambda row: row.status_message,
    "version": lambda row: row.version,
    "userId": lambda row: row.user_id,
    "sessionId": lambda row: row.session_id,
    "traceName": lambda row: row.trace_name,
    "parentObservationId": lambda row: row.parent_id,
    "release": lambda row: row.release,
    "model": lambda row: row.model,
    "providedModelName": lambda row: row.model,
    "promptName": lambda row: row.prompt[0] if row.prompt else None,
    "input": lambda row: row.input,
    "output": lambda row: row.output,
}
_NUMBER_COLUMNS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "latency": lambda row: (row.end - row.start) / 1000,
    "inputTokens": lambda row: row.usage.get("input"),
    "outputTokens": lambda row: row.usage.get("output"),
    "totalTokens": lambda row: row.usage.get("total"),
    "tokens": lambda row: row.usage.get("total"),
    "inputCost": lambda row: row.cost.get("input"),
    "outputCost": lambda row: row.cost.get("output"),
    "totalCost": lambda row: row.cost.get("total"),
    "promptVersion": lambda row: row.prompt[1] if row.prompt else None,
}
_TIME_COLUMNS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "startTime": lambda row: row.start,
    "endTime": lambda row: row.end,
}
_LIST_COLUMNS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "tags": lambda row: row.tags,
    "traceTags": lambda row: row.tags,
}
_TRUTH_COLUMNS: Final[Mapping[str, Callable[[Row], Any]]] = {"isRootObservation": lambda row: row.is_root}


def conditions(text: str) -> list[Condition]:
    """The conditions of a ``filter`` parameter.

    Raises:
        Refusal: No list, an unknown column, operator or type, or a type that does not fit its column (400).
    """
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, "Invalid JSON in filter parameter") from error
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise Refusal(400, "Invalid filter: expected a list of conditions")
    on_text = [each for each in given if each.get("column") in ("input", "output")]
    if on_text and not any(each.get("operator") in ("=", "matches") for each in on_text):
        raise Refusal(400, "Invalid filter: input and output need at least one '=' or 'matches' filter")
    return [condition(each) for each in given]


def condition(given: Mapping[str, Any]) -> Condition:
    """One condition of the filter language.

    Raises:
        Refusal: As for ``conditions``.
    """
    kind, column, operator, value = (given.get(name) for name in ("type", "column", "operator", "value"))
    if kind == "stringObject" and column == "metadata":
        return _on_metadata(given)
    if kind == "null":
        return _on_null(_found(column, _TEXT_COLUMNS, _NUMBER_COLUMNS, _TIME_COLUMNS), operator)
    if kind in ("stringOptions", "categoryOptions"):
        return _on_options(_found(column, _TEXT_COLUMNS), operator, value=value)
    if kind == "arrayOptions":
        return _on_list(_found(column, _LIST_COLUMNS), operator, value=value)
    if kind == "boolean":
        return _on_truth(_found(column, _TRUTH_COLUMNS), operator, value=value)
    if kind == "string":
        return _compared(_found(column, _TEXT_COLUMNS), _TEXT, operator=operator, value=value)
    if kind == "number":
        return _compared(_found(column, _NUMBER_COLUMNS), _COMPARE, operator=operator, value=value)
    if kind == "datetime":
        return _compared(
            _found(column, _TIME_COLUMNS), _COMPARE, operator=operator, value=milliseconds(value, str(column))
        )
    raise Refusal(400, f"Invalid filter: type {kind!r} does not fit column {column!r}")


def _found(column: Any, *places: Mapping[str, Callable[[Row], Any]]) -> Callable[[Row], Any]:
    for place in places:
        if column in place:
            return place[column]
    raise Refusal(400, f"Invalid filter: column {column!r} is unknown or of another type")


def _compared(
    get: Callable[[Row], Any], operators: Mapping[str, Callable[[Any, Any], bool]], *, operator: Any, value: Any
) -> Condition:
    if operator not in operators:
        raise Refusal(400, f"Invalid filter: unknown operator {operator!r}")
    compare = operators[operator]

    def holds(row: Row) -> bool:
        have = get(row)
        return operator == "does not contain" if have is None else compare(have, value)

    return holds


def _on_options(get: Callable[[Row], Any], operator: Any, *, value: Any) -> Condition:
    options = set(_strings(value))
    if operator == "any of":
        return lambda row: get(row) in options
    if operator == "none of":
        return lambda row: get(row) not in options
    raise Refusal(400, f"Invalid filter: unknown operator {operator!r}")


def _on_list(get: Callable[[Row], Any], operator: Any, *, value: Any) -> Condition:
    options = set(_strings(value))
    if operator == "any of":
        return lambda row: not options.isdisjoint(get(row))
    if operator == "none of":
        return lambda row: options.isdisjoint(get(row))
    if operator == "all of":
        return lambda row: options.issubset(get(row))
    raise Refusal(400, f"Invalid filter: unknown operator {operator!r}")


def _on_truth(get: Callable[[Row], Any], operator: Any, *, value: Any) -> Condition:
    if operator not in ("=", "<>") or not isinstance(value, bool):
        raise Refusal(400, f"Invalid filter: unknown operator {operator!r} or value for a boolean")
    return lambda row: (get(row) == value) == (operator == "=")


def _on_null(get: Callable[[Row], Any], operator: Any) -> Condition:
    if operator not in ("is null", "is not null"):
        raise Refusal(400, f"Invalid filter: unknown operator {operator!r}")
    return lambda row: (get(row) is None) == (operator == "is null")


def _on_metadata(given: Mapping[str, Any]) -> Condition:
    key, operator, value = given.get("key"), given.get("operator"), given.get("value")
    if not isinstance(key, str) or not key:
        raise Refusal(400, "Invalid filter: metadata needs a key")
    if operator in ("is set", "is not set"):
        return lambda row: (_at(row.metadata, key) is not None) == (operator == "is set")
    if operator == "matches":
        return lambda row: str(value) in (_at(row.metadata, key) or "")
    return _compared(lambda row: _at(row.metadata, key), _TEXT, operator=operator, value=str(value))


def _at(metadata: Mapping[str, Any], path: str) -> str | None:
    """A metadata value as text; the path may go down with dots."""
    value: Any = metadata
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _strings(value: Any) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Refusal(400, "Invalid filter: expected a list of strings")
    return value


def kept(rows: Iterable[Row], wanted: Sequence[Condition]) -> list[Row]:
    """The rows for which every condition holds."""
    return [row for row in rows if all(holds(row) for holds in wanted)]
