"""Answers in the shape of each endpoint, plain or as the pieces of an event stream."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

_DIMENSIONS = 8


def question(request: Any) -> str:
    """The text that a request ends with."""
    if not isinstance(request, Mapping):
        return ""
    asked = request.get("messages") or request.get("input") or request.get("prompt") or ""
    if isinstance(asked, list):
        asked = asked[-1] if asked else ""
    if isinstance(asked, Mapping):
        asked = asked.get("content") or ""
    return asked if isinstance(asked, str) else json.dumps(asked)


def answer(path: str, request: Any, text: str, number: int) -> dict[str, Any] | list[bytes]:
    """An object, or pieces where a stream was asked for."""
    asked = request if isinstance(request, Mapping) else {}
    model = str(asked.get("model", "scripted"))
    streamed = asked.get("stream") is True
    path = path.partition("?")[0]
    if path.endswith("/embeddings"):
        return _embeddings(asked, model, number)
    if path.endswith("/responses"):
        return list(_response_events(text, model, number)) if streamed else _response(text, model, number)
    if path.endswith("/completions") and not path.endswith("/chat/completions"):
        return list(_legacy_events(text, model, number)) if streamed else _legacy(text, model, number)
    if streamed:
        usage = asked.get("stream_options") or {}
        return list(chat_events(text, model=model, number=number, usage=bool(usage.get("include_usage"))))
    return chat_answer(text, model=model, number=number)


def chat_answer(text: str, *, model: str = "scripted", number: int = 0) -> dict[str, Any]:
    """A chat completion."""
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000 + number,
        "model": f"{model}-served",
        "system_fingerprint": "fp_scripted",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"},
        ],
        "usage": _usage(text),
    }


def chat_events(text: str, *, model: str = "scripted", number: int = 0, usage: bool = False) -> Iterator[bytes]:
    """A chat completion as the pieces of an event stream, one word each."""
    head = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000 + number,
        "model": f"{model}-served",
        "system_fingerprint": "fp_scripted",
    }
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _words(text)]
    for delta in deltas:
        yield event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if usage:
        yield event({**head, "choices": [], "usage": _usage(text)})
    yield b"data: [DONE]\n\n"


def event(data: Mapping[str, Any], *, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _words(text: str) -> list[str]:
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)]


def _usage(text: str) -> dict[str, int]:
    words = len(text.split())
    return {"prompt_tokens": 7, "completion_tokens": words, "total_tokens": 7 + words}


def _response(text: str, model: str, number: int, *, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": status, "content": [part]}
    words = len(text.split())
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000 + number,
        "model": f"{model}-served",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [item] if status == "completed" else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": words,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 7 + words,
        }
        if status == "completed"
        else None,
    }


def _response_events(text: str, model: str, number: int) -> Iterator[bytes]:
    sequence = 0

    def made(kind: str, **fields: Any) -> bytes:
        nonlocal sequence
        sequence += 1
        return event({"type": kind, "sequence_number": sequence - 1, **fields}, name=kind)

    done = _response(text, model, number)
    item = done["output"][0]
    at = {"output_index": 0, "item_id": item["id"]}
    part = {**at, "content_index": 0}
    yield made("response.created", response=_response("", model, number, status="in_progress"))
    opened = {**item, "status": "in_progress", "content": []}
    yield made("response.output_item.added", output_index=0, item=opened)
    empty = {"type": "output_text", "text": "", "annotations": []}
    yield made("response.content_part.added", **part, part=empty)
    for word in _words(text):
        yield made("response.output_text.delta", **part, delta=word, logprobs=[])
    yield made("response.output_text.done", **part, text=text, logprobs=[])
    yield made("response.content_part.done", **part, part=item["content"][0])
    yield made("response.output_item.done", output_index=0, item=item)
    yield made("response.completed", response=done)


def _legacy(text: str, model: str, number: int) -> dict[str, Any]:
    return {
        "id": f"cmpl-{number}",
        "object": "text_completion",
        "created": 1_700_000_000 + number,
        "model": f"{model}-served",
        "choices": [{"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}],
        "usage": _usage(text),
    }


def _legacy_events(text: str, model: str, number: int) -> Iterator[bytes]:
    whole = _legacy(text, model, number)
    for word in _words(text):
        choice = {"index": 0, "text": word, "finish_reason": None, "logprobs": None}
        yield event({**whole, "choices": [choice], "usage": None})
    yield event({**whole, "choices": [{**whole["choices"][0], "text": ""}], "usage": None})
    yield b"data: [DONE]\n\n"


def _embeddings(asked: Mapping[str, Any], model: str, number: int) -> dict[str, Any]:
    inputs = asked.get("input", "")
    texts = inputs if isinstance(inputs, list) else [inputs]
    packed = asked.get("encoding_format") == "base64"
    data = []
    for index, text in enumerate(texts):
        digest = hashlib.sha256(f"{number}:{text}".encode()).digest()
        vector = [byte / 255 for byte in digest[:_DIMENSIONS]]
        value: Any = vector
        if packed:
            value = base64.b64encode(struct.pack(f"<{_DIMENSIONS}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": value})
    tokens = sum(len(str(text).split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": f"{model}-served", "data": data, "usage": usage}
