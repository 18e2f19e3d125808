"""Request and response bodies for imported model interactions, made from what a trace tells of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from harness.canonical import parse_json
from harness.errors import CanonicalError
from harness.mirror._observation import TOO_DEEP, Observation, plain
from harness.record import MessageRecord, Usage

CHAT: Final = "/chat/completions"
EMBEDDINGS: Final = "/embeddings"
_MEMBERS: Final = {CHAT: "messages", "/completions": "prompt"}
"""Member of a request that holds what is asked; ``input`` at every other endpoint."""


def parsed(value: Any, *, scalars: bool = True) -> Any:
    """What a text says when it is JSON, else the text itself.

    Args:
        value: Text as the server gave it; anything else is given back.
        scalars: Whether a number, a word or null counts as JSON too: a model's answer ``42`` is text.
    """
    if not isinstance(value, str):
        return value
    try:
        found = plain(parse_json(value.encode()))
    except CanonicalError:
        return value
    if found == TOO_DEEP:
        return value
    return found if scalars or isinstance(found, dict | list) else value


def request_body(one: Observation) -> bytes:
    """The body of a request that asks what the observation's input says."""
    asked = parsed(one.input, scalars=False)
    body: dict[str, Any] = {"model": one.model} if one.model is not None else {}
    if one.type == "EMBEDDING":
        body |= {} if asked is None else {"input": asked if isinstance(asked, str | list) else _json(asked)}
    elif isinstance(asked, dict) and isinstance(asked.get("messages"), list):
        body |= asked
    elif asked is not None:
        body["messages"] = _messages(asked)
    return _json({**one.params, **body}).encode()


def response_body(one: Observation, usage: Usage) -> bytes | None:
    """The body of a response that says what the observation's output says; ``None`` when it says nothing."""
    said = parsed(one.output, scalars=False)
    if said is None:
        return None
    known = {"model": one.model, "usage": _usage_table(usage)}
    head = {name: value for name, value in known.items() if value}
    if one.type == "EMBEDDING":
        whole = isinstance(said, dict) and isinstance(said.get("data"), list)
        return _json({"object": "list", **head, **(said if whole else {"data": _vectors(said)})}).encode()
    if isinstance(said, dict) and isinstance(said.get("choices"), list):
        return _json({**head, **said}).encode()
    choice = {"index": 0, "message": _answer(said), "finish_reason": None}
    return _json({"object": "chat.completion", **head, "choices": [choice]}).encode()


def request_again(message: MessageRecord, asked: Any, rest: Any) -> bytes:
    """The body of a request out of what our own mirror told of it: what was asked, not byte for byte.

    Args:
        message: Whose request it was.
        asked: Its messages, its input or its prompt; an object is the whole body.
        rest: Its other members that are no scalars.
    """
    head = {"model": message.model} if message.model is not None else {}
    body = {**head, **message.params, **(rest if isinstance(rest, dict) else {})}
    if isinstance(asked, dict):
        body |= asked
    elif asked is not None:
        body[_MEMBERS.get(message.endpoint, "input")] = asked
    return _json(body).encode()


def response_again(message: MessageRecord, said: Any) -> bytes | None:
    """The body of a response out of what our own mirror told of it; ``None`` when it told nothing."""
    if said is None:
        return None
    turns = said if isinstance(said, list) else [said]
    if not turns or not all(isinstance(turn, dict) and turn.get("role") == "assistant" for turn in turns):
        return _json(said).encode()
    reasons = [*message.finish_reasons, *[None] * len(turns)]
    choices = [{"index": n, "message": turn, "finish_reason": reasons[n]} for n, turn in enumerate(turns)]
    known = {
        "model": message.model_served or message.model,
        "system_fingerprint": message.system_fingerprint,
        "usage": _usage_table(message.usage),
    }
    head = {name: value for name, value in known.items() if value}
    return _json({"object": "chat.completion", **head, "choices": choices}).encode()


def usage_of(buckets: Mapping[str, int]) -> Usage:
    """Tokens out of a server's usage by bucket.

    Buckets are disjoint (input without its cached part) unless the total says that they are not.
    """
    sent, got = buckets.get("input"), buckets.get("output")
    more_in = {name: count for name, count in buckets.items() if name != "input" and _of(name, "input")}
    more_out = {name: count for name, count in buckets.items() if name != "output" and _of(name, "output")}
    cached = _one(more_in, ("cached", "cache_read"))
    reasoning = _one(more_out, ("reasoning",))
    inclusive = buckets.get("total") == (sent or 0) + (got or 0)
    return Usage(
        input_tokens=None if sent is None else sent + (0 if inclusive else sum(more_in.values())),
        output_tokens=None if got is None else got + (0 if inclusive else sum(more_out.values())),
        cached_tokens=cached,
        reasoning_tokens=reasoning,
    )


def _of(name: str, side: str) -> bool:
    return name.startswith(f"{side}_") or name.endswith(f"_{side}_tokens")


def _one(buckets: Mapping[str, int], words: tuple[str, ...]) -> int | None:
    found = [count for name, count in buckets.items() if any(word in name for word in words)]
    return sum(found) if found else None


def _messages(asked: Any) -> list[Any]:
    if isinstance(asked, list) and asked and all(isinstance(item, dict) and "role" in item for item in asked):
        return asked
    if isinstance(asked, dict) and "role" in asked:
        return [asked]
    return [{"role": "user", "content": asked if isinstance(asked, str) else _json(asked)}]


def _answer(said: Any) -> dict[str, Any]:
    if isinstance(said, list) and len(said) == 1:
        said = said[0]
    if isinstance(said, dict) and ("content" in said or "tool_calls" in said):
        return {"role": "assistant", **said}
    return {"role": "assistant", "content": said if isinstance(said, str) else _json(said)}


def _vectors(said: Any) -> list[Any]:
    listed = said if isinstance(said, list) else [said]
    rows = [listed] if listed and all(isinstance(item, int | float) for item in listed) else listed
    return [{"object": "embedding", "index": number, "embedding": row} for number, row in enumerate(rows)]


def _usage_table(usage: Usage) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if usage.input_tokens is not None:
        table["prompt_tokens"] = usage.input_tokens
    if usage.output_tokens is not None:
        table["completion_tokens"] = usage.output_tokens
    if usage.total is not None:
        table["total_tokens"] = usage.total
    if usage.cached_tokens is not None:
        table["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        table["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return table


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
