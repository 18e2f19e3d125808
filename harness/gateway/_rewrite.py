"""A request's body with one of its values replaced, every other byte kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.session import Change

Span = tuple[int, int]


def rewritten(body: bytes, change: Change, *, generates: bool) -> bytes | None:
    """The body with the change made; ``None`` where it has no place for it.

    Args:
        body: JSON as it would be sent.
        change: Of a kind that alters requests.
        generates: The endpoint takes a generation's parameters: one that the request lacks may be added.
    """
    try:
        text = body.decode()
        if change.kind == "tool-schema":
            made = _with_schema(text, change.name, change.value)
        elif change.kind == "request":
            made = _put(text, _tokens(change.name), change.value, add=False)
        else:
            name = "model" if change.kind == "model" else change.name
            made = _put(text, (name,), change.value, add=generates)
    except (ValueError, RecursionError):
        return None
    return None if made is None else made.encode()


def request_text(body: bytes, pointer: str) -> str | None:
    """What stands at a place of a JSON body, as text; ``None`` where there is no such place.

    Args:
        body: The body.
        pointer: RFC 6901.
    """
    try:
        text = body.decode()
        span, _ = _find(text, _tokens(pointer))
    except (ValueError, RecursionError):
        return None
    return None if span is None else text[span[0] : span[1]]


def _tokens(pointer: str) -> tuple[str, ...]:
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


_LEGACY = "functions"


def _with_schema(text: str, name: str, value: Mapping[str, Any]) -> str | None:
    """The body with the schema of every function of that name replaced.

    A value with ``parameters`` is a whole function: its description is replaced too.
    """
    fields = {"parameters": value}
    if "parameters" in value:
        fields = {field: value[field] for field in ("description", "parameters", "strict") if field in value}
    made = None
    for place in _functions(json.loads(text), name):
        for field, item in fields.items():
            text = _put(text, (*place, field), item, add=True) or text
            made = text
    return made


def _functions(body: Any, name: str) -> Iterator[tuple[str, ...]]:
    """Where the functions of that name stand: chat's tools, those of responses, and the older list of functions."""
    for field in ("tools", _LEGACY):
        tools = body.get(field) if isinstance(body, dict) else None
        for index, tool in enumerate(tools if isinstance(tools, list) else ()):
            if not isinstance(tool, dict):
                continue
            inner = tool.get("function")
            if isinstance(inner, dict) and inner.get("name") == name:
                yield field, str(index), "function"
            elif tool.get("name") == name:
                yield field, str(index)


def _put(text: str, tokens: Sequence[str], value: Any, *, add: bool) -> str | None:
    """The JSON text with the value at a place replaced, or added to the object around it."""
    span, end = _find(text, tokens)
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if span is not None:
        return f"{text[: span[0]]}{written}{text[span[1] :]}"
    if not add or end is None:
        return None
    comma = "" if text[:end].rstrip().endswith("{") else ","
    return f"{text[:end]}{comma}{json.dumps(tokens[-1])}:{written}{text[end:]}"


def _find(text: str, tokens: Sequence[str]) -> tuple[Span | None, int | None]:
    """Where the value at a place stands; else the closing brace of the object that would hold it, if there is one.

    Raises:
        ValueError: The text is not JSON.
    """
    at = _skip(text, 0)
    span: Span | None = (at, len(text))
    for number, part in enumerate(tokens):
        if span is None:
            return None, None
        start, opening = span[0], text[span[0] : span[0] + 1]
        if opening == "{":
            span, end = _member(text, start, part)
            if span is None and number == len(tokens) - 1:
                return None, end
        elif opening == "[" and part.isdecimal() and (part == "0" or part[0] != "0"):
            span = _element(text, start, int(part))
        else:
            span = None
    return span, None


def _member(text: str, at: int, name: str) -> tuple[Span | None, int]:
    """Where the value of an object's field stands (the last one, which is what counts), and the closing brace."""
    scan = json.JSONDecoder().raw_decode
    found: Span | None = None
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = scan(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError("no value")
        start = _skip(text, at + 1)
        _, at = scan(text, start)
        if key == name:
            found = start, at
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return found, at


def _element(text: str, at: int, index: int) -> Span | None:
    scan = json.JSONDecoder().raw_decode
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        start = at
        _, at = scan(text, start)
        if index == 0:
            return start, at
        index -= 1
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return None


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
