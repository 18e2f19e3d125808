"""What was asked and answered, in the JSON shape of OpenTelemetry's conventions for generative AI.

A message is ``{"role", "parts": [{"type": "text" | "reasoning" | "tool_call" | "tool_call_response" | …}]}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from harness.record import ChoiceView

_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_CALLS = frozenset({"function_call", "custom_tool_call"})
_FINISH: Final = {"tool_calls": "tool_call", "function_call": "tool_call", "completed": "stop"}
"""Words of the APIs for which the conventions have their own."""
_DEPTH = 100
_DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?[^,\s]{0,200},(?P<data>[A-Za-z0-9+/=_%-]{64,})", re.ASCII)


def json_object(data: bytes) -> Mapping[str, Any]:
    """The object that a body holds; an empty one for anything else."""
    value = json_value(data.decode("utf-8", "replace"))
    return value if isinstance(value, Mapping) else {}


def json_value(text: str) -> Any:
    """The JSON value of a text; the text itself when it is none, or nests deeper than anything can show."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if _deep(value) else value


def without_media(value: Any) -> Any:
    """The value with a note in the place of each file that stands in it as a data URL."""
    if isinstance(value, str):
        return _DATA_URL.sub(_note, value) if "data:" in value else value
    if isinstance(value, Mapping):
        return {key: without_media(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_media(item) for item in value]
    return value


def input_messages(endpoint: str, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation that a request sends.

    Args:
        endpoint: Path below the API root.
        request: The request's JSON.
    """
    if endpoint == "/responses":
        asked = request.get("input")
        listed = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    elif endpoint == "/completions":
        prompt = request.get("prompt")
        prompts = prompt if isinstance(prompt, list) else [prompt]
        listed = [{"role": "user", "content": text} for text in prompts if isinstance(text, str)]
    else:
        listed = request.get("messages")
    return [_message(item) for item in _objects(listed)]


def system_instructions(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Instructions that stand apart from the conversation."""
    return _parts(request.get("instructions"))


def tool_definitions(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools that a request offers, flat as the conventions have them."""
    found = []
    for tool in _objects(request.get("tools")):
        inner = tool.get(str(tool.get("type")))
        found.append({"type": tool.get("type", "function"), **(inner if isinstance(inner, Mapping) else tool)})
    return found


def output_messages(choices: tuple[ChoiceView, ...]) -> list[dict[str, Any]]:
    """The answers of a response."""
    return [_answer(choice) for choice in choices]


def _answer(choice: ChoiceView) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if choice.reasoning:
        parts.append({"type": "reasoning", "content": choice.reasoning})
    if choice.text is not None:
        parts.append({"type": "text", "content": choice.text})
    if choice.refusal:
        parts.append({"type": "refusal", "content": choice.refusal})
    parts += [_call(call.id, call.name, call.arguments) for call in choice.tool_calls]
    reason = choice.finish_reason or ""
    if choice.tool_calls and reason == "completed":
        reason = "tool_call"
    return {"role": "assistant", "parts": parts, "finish_reason": _FINISH.get(reason, reason)}


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = _word(item.get("type"))
    if kind in _CALLS:
        call = _call(item.get("call_id"), item.get("name"), item.get("arguments", item.get("input")))
        return {"role": "assistant", "parts": [call]}
    if kind.endswith("_call_output"):
        return {"role": "tool", "parts": [_response(item.get("call_id"), item.get("output"))]}
    if kind == "reasoning":
        text = "".join(str(part.get("text", "")) for part in _objects(item.get("summary")))
        return {"role": "assistant", "parts": [{"type": "reasoning", "content": text}]}
    if "role" not in item:
        return {"role": "assistant", "parts": [_generic(item)]}
    return {"role": str(item["role"]), "parts": list(_spoken(item))}


def _spoken(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a message with a role."""
    if str(item["role"]) in {"tool", "function"}:
        yield _response(item.get("tool_call_id", item.get("name")), item.get("content"))
        return
    reasoning = item.get("reasoning_content", item.get("reasoning"))
    if isinstance(reasoning, str) and reasoning:
        yield {"type": "reasoning", "content": reasoning}
    yield from _parts(item.get("content"))
    for call in _objects(item.get("tool_calls")):
        body = call.get("function") or call.get("custom")
        inner = body if isinstance(body, Mapping) else {}
        yield _call(call.get("id"), inner.get("name"), inner.get("arguments", inner.get("input")))


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    return [_part(part) for part in content] if isinstance(content, list) else []


def _part(part: Any) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        return {"type": "text", "content": part if isinstance(part, str) else json.dumps(part)}
    kind = _word(part.get("type"))
    if kind in _TEXTS and isinstance(part.get("text"), str):
        return {"type": "text", "content": part["text"]}
    if kind == "refusal":
        return {"type": "refusal", "content": str(part.get("refusal", ""))}
    if kind in {"image_url", "input_image"}:
        link = part.get("image_url")
        uri = link.get("url") if isinstance(link, Mapping) else link
        if isinstance(uri, str):
            return {"type": "uri", "modality": "image", "uri": uri}
    audio = part.get("input_audio")
    if kind == "input_audio" and isinstance(audio, Mapping):
        # Bare base64: no data URL that would be found later.
        data = str(audio.get("data", ""))
        return {"type": "text", "content": _described(f"audio/{audio.get('format', '*')}", data)}
    return _generic(part)


def _generic(item: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a kind that the conventions leave open."""
    return {**item, "type": str(item.get("type", "unknown"))}


def _call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    value = json_value(arguments) if isinstance(arguments, str) else arguments
    return {"type": "tool_call", "id": call_id, "name": str(name or ""), "arguments": value}


def _response(call_id: Any, content: Any) -> dict[str, Any]:
    value = json_value(content) if isinstance(content, str) else content
    return {"type": "tool_call_response", "id": call_id, "response": value}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _note(found: re.Match[str]) -> str:
    return _described(found["type"] or "file", found["data"])


def _described(kind: str, data: str) -> str:
    """What a note says of a file that is left out: kind, bytes, and the hash of its text."""
    size = len(data.rstrip("=")) * 3 // 4
    return f"⟦{kind}, {size:,} bytes, sha256 {sha256(data.encode('utf-8', 'replace')).hexdigest()}⟧"


def _deep(value: Any) -> bool:
    """Whether a value nests so deeply that walking over it could fail."""
    level = [value]
    for _ in range(_DEPTH):
        below: list[Any] = []
        for item in level:
            below.extend(item.values() if isinstance(item, Mapping) else item if isinstance(item, list) else ())
        if not below:
            return False
        level = below
    return True


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
