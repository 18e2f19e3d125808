"""What was asked and answered, out of spans, in the JSON shape that model APIs take and give.

Source: OpenTelemetry's conventions for generative AI in their present form (messages made of parts) and their older
ones (an attribute of JSON, numbered attributes, one event a message).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.mirror._import_body import parsed

_EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool|developer)\.message", re.ASCII)
_CHOICE: Final = "gen_ai.choice"
_BODY: Final = ("gen_ai.event.content", "event.body", "body")
_FINISH: Final = {"tool_call": "tool_calls"}
"""Words of the conventions for which the APIs have their own."""
_MOST: Final = 10_000
"""Numbers beyond this in the name of an attribute are no places in a list."""
_DOTS: Final = 16
"""Names of attributes with more dots mean nothing here."""

Event = tuple[str, Mapping[str, Any]]
"""Name and attributes of a span's event."""


def asked(attributes: Mapping[str, Any], events: Sequence[Event]) -> list[dict[str, Any]]:
    """The conversation that a span's request sent, instructions first; empty when the span does not tell."""
    told = _chats(parsed(attributes.get("gen_ai.input.messages")))
    told = told or _spoken_events(events)
    for name in ("gen_ai.prompt", "llm.prompts"):
        told = told or _chats(parsed(attributes.get(name), scalars=False)) or _numbered(attributes, name)
    told = told or _numbered(attributes, "llm.input_messages", prefix="message.")
    instructions = _instructions(parsed(attributes.get("gen_ai.system_instructions"), scalars=False))
    return instructions + told


def answered(attributes: Mapping[str, Any], events: Sequence[Event]) -> list[dict[str, Any]]:
    """The choices of a span's response: ``{"index", "message", "finish_reason"}`` each; empty without any."""
    reasons = attributes.get("gen_ai.response.finish_reasons") or attributes.get("llm.finish_reason")
    ends = [reasons] if isinstance(reasons, str) else reasons if isinstance(reasons, list) else []
    told = _objects(parsed(attributes.get("gen_ai.output.messages")))
    choices = [_choice(_chat(one), one.get("finish_reason")) for one in told] or _choice_events(events)
    for name in ("gen_ai.completion", "llm.completions"):
        said = parsed(attributes.get(name), scalars=False)
        choices = choices or [_choice(one, one.get("finish_reason")) for one in _chats(said, role="assistant")]
        choices = choices or [_choice(one, one.get("finish_reason")) for one in _numbered(attributes, name)]
    choices = choices or [_choice(one, None) for one in _numbered(attributes, "llm.output_messages", prefix="message.")]
    if not choices:
        # Only how it ended is known: the places of what was said stay empty.
        choices = [_choice({"role": "assistant", "content": None}, None) for _ in ends]
    for number, choice in enumerate(choices):
        choice["index"] = number
        if choice["finish_reason"] is None and number < len(ends):
            choice["finish_reason"] = reason_of(ends[number])
    return choices


def offered(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools that a span's request offered."""
    found = [_tool(one) for one in _objects(parsed(attributes.get("gen_ai.tool.definitions")))]
    numbered = found or [_tool(one) for one in _listed(attributes, "llm.request.functions")]
    listed = [one["tool"] for one in _trees(attributes, "llm.tools") if isinstance(one.get("tool"), Mapping)]
    return numbered or [_tool(one) for one in _objects([parsed(tool.get("json_schema")) for tool in listed])]


def _tool(one: Mapping[str, Any]) -> dict[str, Any]:
    kind = one.get("type", "function")
    if kind != "function" or isinstance(one.get("function"), Mapping):
        return dict(one)
    inner = {name: parsed(value) if name == "parameters" else value for name, value in one.items() if name != "type"}
    return {"type": "function", "function": inner}


def _chats(told: Any, *, role: str = "user") -> list[dict[str, Any]]:
    """Messages as the APIs have them, out of whatever was told of them."""
    if isinstance(told, str) and told:
        return [{"role": role, "content": told}]
    listed = [told] if isinstance(told, Mapping) else told
    return [chat for one in _objects(listed) for chat in _split(one)]


def _split(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A message; its answers of tools as messages of their own, which is what they are in a request."""
    parts = one.get("parts")
    if not isinstance(parts, list):
        return [dict(one)]
    answers = [part for part in _objects(parts) if part.get("type") == "tool_call_response"]
    rest = [part for part in parts if not (isinstance(part, Mapping) and part.get("type") == "tool_call_response")]
    said = [_chat({**one, "parts": rest})] if rest or not answers else []
    return said + [
        {"role": "tool", "tool_call_id": part.get("id"), "content": _text(part.get("response", part.get("result")))}
        for part in answers
    ]


def _chat(one: Mapping[str, Any]) -> dict[str, Any]:
    """A message made of parts as the APIs have it."""
    parts = one.get("parts")
    if not isinstance(parts, list):
        return {name: value for name, value in one.items() if name not in {"finish_reason", "index"}}
    message: dict[str, Any] = {"role": one.get("role", "assistant"), "content": None}
    content: list[Any] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "tool_call":
            message.setdefault("tool_calls", []).append(_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "reasoning":
            message["reasoning_content"] = f"{message.get('reasoning_content', '')}{_text(part.get('content'))}"
        elif kind == "refusal":
            message["refusal"] = _text(part.get("content"))
        else:
            content.append(_part(part))
    if isinstance(one.get("name"), str):
        message["name"] = one["name"]
    if content:
        alone = len(content) == 1 and content[0].get("type") == "text"
        message["content"] = content[0]["text"] if alone else content
    return message


def _part(part: Any) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        return {"type": "text", "text": _text(part)}
    if part.get("type") == "text":
        return {"type": "text", "text": _text(part.get("content", part.get("text")))}
    if part.get("type") == "uri" and part.get("modality") == "image":
        return {"type": "image_url", "image_url": {"url": _text(part.get("uri"))}}
    return dict(part)


def _call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    function = {"name": _text(name), "arguments": _text(arguments)}
    return {"id": _text(call_id), "type": "function", "function": function}


def _choice(message: Mapping[str, Any], reason: Any) -> dict[str, Any]:
    said = {name: value for name, value in message.items() if name not in {"finish_reason", "index"}}
    return {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": reason_of(reason)}


def reason_of(word: Any) -> str | None:
    """Why an answer ended, in the words of the APIs."""
    return _FINISH.get(word, word) if isinstance(word, str) and word else None


def _instructions(told: Any) -> list[dict[str, Any]]:
    if isinstance(told, str) and told:
        return [{"role": "system", "content": told}]
    return [_chat({"role": "system", "parts": told})] if isinstance(told, list) and told else []


def _spoken_events(events: Iterable[Event]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, attributes in events:
        role = _EVENT.fullmatch(name)
        if role:
            body = _body(attributes)
            message = {"role": role[1], **_only(body, "content", "tool_calls", "name", "role")}
            if role[1] == "tool":
                message["tool_call_id"] = body.get("id", body.get("tool_call_id"))
            message["tool_calls"] = parsed(message.get("tool_calls"))
            found.append({name: value for name, value in message.items() if value is not None})
        elif name == "gen_ai.content.prompt":
            found += _chats(parsed(attributes.get("gen_ai.prompt"), scalars=False))
    return found


def _choice_events(events: Iterable[Event]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, attributes in events:
        if name == _CHOICE:
            body = _body(attributes)
            said = parsed(body.get("message"), scalars=False)
            if isinstance(said, list):
                said = {"content": said}
            message = dict(said) if isinstance(said, Mapping) else {"content": said}
            calls = parsed(body.get("tool_calls", message.get("tool_calls")))
            found.append(_choice({**message, **({"tool_calls": calls} if calls else {})}, body.get("finish_reason")))
        elif name == "gen_ai.content.completion":
            said = parsed(attributes.get("gen_ai.completion"), scalars=False)
            found += [_choice(one, one.get("finish_reason")) for one in _chats(said, role="assistant")]
    return found


def _body(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What an event says: its body where an attribute holds it, and its own attributes."""
    bodies = (parsed(attributes.get(name)) for name in _BODY)
    body = next((one for one in bodies if isinstance(one, Mapping)), {})
    return {**attributes, **body}


def _only(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: body[name] for name in names if body.get(name) is not None}


def _numbered(attributes: Mapping[str, Any], name: str, *, prefix: str = "") -> list[dict[str, Any]]:
    """Messages out of attributes named ``<name>.<number>.<member>``, tool calls numbered within."""
    found = []
    for tree in _trees(attributes, name):
        one = tree.get("message", tree) if prefix else tree
        if not isinstance(one, Mapping):
            continue
        message: dict[str, Any] = {"role": "assistant" if "completion" in name else "user"}
        message |= _only(one, "role", "content", "tool_call_id", "finish_reason", "name", "refusal")
        calls = [call for _, call in sorted(_places(one.get("tool_calls")))]
        calls += [one["function_call"]] if isinstance(one.get("function_call"), Mapping) else []
        if calls:
            message["tool_calls"] = [_flat_call(call) for call in calls]
        found.append(message)
    return found


def _flat_call(call: Mapping[str, Any]) -> dict[str, Any]:
    inner = call.get("tool_call", call)
    inner = inner if isinstance(inner, Mapping) else {}
    function = inner.get("function", inner)
    function = function if isinstance(function, Mapping) else {}
    return _call(inner.get("id", ""), function.get("name"), function.get("arguments"))


def _listed(attributes: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    return [dict(tree) for tree in _trees(attributes, name)]


def _trees(attributes: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Attributes named ``<name>.<number>.<path>`` as one tree a number, in order."""
    trees: dict[str, Any] = {}
    before = f"{name}."
    for key, value in attributes.items():
        if not key.startswith(before) or key.count(".") > _DOTS:
            continue
        *path, last = key[len(name) + 1 :].split(".")
        at: Any = trees
        for word in path:
            at = at.setdefault(word, {}) if isinstance(at, dict) else None
        if isinstance(at, dict) and path:
            at.setdefault(last, value)
    return [tree for _, tree in sorted(_places(trees))]


def _places(tree: Any) -> list[tuple[int, Mapping[str, Any]]]:
    """The members of a tree that stand under a number. No two share one, so that sorting never compares trees."""
    found: dict[int, Mapping[str, Any]] = {}
    for number, one in tree.items() if isinstance(tree, dict) else ():
        if number.isascii() and number.isdigit() and len(number) < len(str(_MOST)) and isinstance(one, Mapping):
            found.setdefault(int(number), one)
    return list(found.items())


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
