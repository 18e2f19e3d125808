"""The semantic form of a request body: two requests that mean the same to a model are written the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.canonical._exact import ORDER
from harness.canonical._json import canonical_json, parse_json
from harness.canonical._rules import (
    CONTENT,
    MINTED,
    OPTIONAL_FIELDS,
    OPTIONAL_PARAMETERS,
    SCHEMA_MAPS,
    SCHEMA_VALUES,
    UNKEYED_SEMANTIC,
)
from harness.errors import CanonicalError

_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})
_SETS = frozenset({"enum", "required"})
_STOPS = frozenset({"stop", "stop_sequences"})
_CALLS = frozenset({"function", "function_call"})


class SemanticForm:
    """Rewrites the exact form of a body; it leaves the exact form as it is.

    Ids that a provider made up become ``⟦id#0⟧``, ``⟦id#1⟧``, … by first appearance, so that a re-run with fresh ids
    is recognised and results still belong to their calls.
    """

    def __init__(self, parents: Mapping[str, str]) -> None:
        self._parents = parents
        self._ids: dict[str, str] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that were renamed, in order of first appearance."""
        return tuple(self._ids)

    def body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The semantic form of a whole body."""
        made: dict[str, Any] = {}
        # Sorted, so that first appearance does not depend on the order of keys.
        for name in sorted(body):
            value = body[name]
            if name in UNKEYED_SEMANTIC or (value is None and name in OPTIONAL_PARAMETERS):
                continue
            made[name] = self._parameter(name, value)
        return made

    def _parameter(self, name: str, value: Any) -> Any:
        if name == "previous_response_id":
            return self._reference(value)
        if name in CONTENT:
            return self._content(value)
        if name in _STOPS and isinstance(value, list) and len(value) == 1:
            return value[0]
        if name == "tools" and isinstance(value, list):
            tools = [_schema(tool) for tool in value]
            return sorted(tools, key=_tool_order) if len(tools) > 1 else tools
        return _schema(value) if isinstance(value, (dict, list)) else value

    def _content(self, value: Any) -> Any:
        """Text, or a list of messages, items or content parts; one part of text alone is the text."""
        if not isinstance(value, list):
            return value
        entries = [self._entry(entry) if isinstance(entry, dict) else entry for entry in value]
        if len(entries) == 1:
            return _alone(entries[0])
        return entries

    def _entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for field in sorted(entry):
            value = entry[field]
            if (value is None or value == []) and field in OPTIONAL_FIELDS:
                continue
            if isinstance(value, str):
                made[field] = self._text(entry, field, value)
            elif field == "content":
                made[field] = self._content(value)
            elif field == "tool_calls" and isinstance(value, list):
                made[field] = [self._entry(call) if isinstance(call, dict) else call for call in value]
            elif field in _CALLS and isinstance(value, dict):
                made[field] = self._call(value)
            else:
                made[field] = value
        return made

    def _text(self, entry: Mapping[str, Any], field: str, text: str) -> str:
        if field == "arguments":
            return _arguments(text)
        if field not in MINTED:
            return text
        if entry.get("type") == "item_reference":
            return self._ids.get(text, text)
        return self._ids.setdefault(text, f"⟦id#{len(self._ids)}⟧")

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        made = dict(call)
        if isinstance(made.get("arguments"), str):
            made["arguments"] = _arguments(made["arguments"])
        return made

    def _reference(self, value: Any) -> Any:
        """A reference hides what it refers to: it is equal only where the parent's output is known to be."""
        known = self._parents.get(value) if isinstance(value, str) else None
        return value if known is None else f"⟦output:{known}⟧"


def _alone(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, dict):
        return [entry]
    if entry.keys() == {"text", "type"} and entry["type"] in _TEXT_PARTS and isinstance(entry["text"], str):
        return entry["text"]
    return [entry]


def _arguments(text: str) -> str:
    try:
        return canonical_json(parse_json(text.encode("utf-8", "surrogatepass"))).decode()
    except CanonicalError:
        return text


def _schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, item in value.items():
        if key == ORDER:
            continue
        if key in SCHEMA_MAPS and isinstance(item, dict):
            made[key] = {name: _schema(part) for name, part in item.items()}
        elif key in _SETS and isinstance(item, list):
            made[key] = sorted(item, key=canonical_json)
        else:
            made[key] = item if key in SCHEMA_VALUES else _schema(item)
    return made


def _tool_order(tool: Any) -> tuple[str, str, bytes]:
    """By type, then name; tools alike in both (two servers, say) by their whole form."""
    if not isinstance(tool, dict):
        return "", "", canonical_json(tool)
    function = tool.get("function")
    name = tool.get("name") or (function.get("name") if isinstance(function, dict) else "")
    return str(tool.get("type")), str(name), canonical_json(tool)
