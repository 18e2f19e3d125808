"""What a message asked, what was answered, and what it used: for people to read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from harness.errors import PromptError
from harness.mirror._dictionary import json_text
from harness.record import ChoiceView, Exchange, MessageRecord, ToolCallView, decode_body, view_response
from harness.session import FetchedPrompt

GONE: Final = "⟦content {} is no longer in the store⟧"
UNREADABLE: Final = "⟦content {} cannot be read⟧"
UNKEPT: Final = "⟦the {} was not recorded: it holds what JSON cannot (half a character, an unknown class, too deep)⟧"
"""Notes that stand where content would, so that nobody takes its lack for a null."""

_UNDECODED: Final = "⟦the body cannot be decoded: {}⟧"
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
_ASKED: Final = ("messages", "input", "prompt")
_LANGFUSE: Final = "langfuse"
_ANSWERS: Final = frozenset({"/chat/completions", "/responses", "/completions"})
_OK: Final = 200
_UNPLAIN: Final = re.compile("content-encoding", re.IGNORECASE).fullmatch
_MORE: Final = ("refusal", "reasoning_content", "reasoning", "tool_calls", "function_call")
"""What may stand in a turn beside its text."""
_LONGEST: Final = 4096
"""Characters of an answer that is no JSON."""


def quick(data: bytes) -> Any:
    """The value of JSON bytes, integers of any size included; what is no number to JSON is the text of it.

    Raises:
        ValueError: They are no JSON.
        RecursionError: They nest too deeply.
    """
    try:
        # orjson makes floats of integers beyond 64 bits.
        if _LONG_NUMBER.search(data) is None:
            return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    return json.loads(data, parse_constant=str, parse_float=_finite)


def _finite(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def asked(body: bytes | str) -> tuple[Any, dict[str, Any]]:
    """What a request asks (its messages, input or prompt, else all of it), and its other members that are no scalars.

    Args:
        body: As sent; text is a note in its place.
    """
    if isinstance(body, str):
        return body, {}
    try:
        value = quick(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace"), {}
    name = next((name for name in _ASKED if isinstance(value, dict) and value.get(name) is not None), None)
    if name is None:
        return value, {}
    rest = {key: each for key, each in value.items() if isinstance(each, dict | list) or key == "instructions"}
    return value[name], {key: each for key, each in rest.items() if key != name}


def said(message: MessageRecord, body: bytes | str | None) -> Any:
    """What a response says: the assistant's turn, a list of them, or a plain value where it is no conversation.

    Args:
        message: Whose last attempt brought it.
        body: As received, still encoded; text is a note in its place; ``None`` when nothing came.
    """
    if body is None or isinstance(body, str):
        return body
    answer = message.answer or Exchange(status=None)
    if (plainly := _plain_turn(message.endpoint, answer, body)) is not None:
        return plainly
    view = view_response(message.endpoint, answer, body)
    if view.choices:
        turns = [_turn(choice) for choice in view.choices]
        return turns[0] if len(turns) == 1 else turns
    encoding = next((value for name, value in answer.headers if name.lower() == "content-encoding"), "")
    plain, problem = decode_body(body, encoding)
    if problem is not None:
        return _UNDECODED.format(problem)
    try:
        value = quick(plain)
    except (ValueError, RecursionError):
        text = plain.decode("utf-8", "replace")
        cut = f" ⟦{len(text) - _LONGEST:,} characters more⟧" if len(text) > _LONGEST else ""
        return text[:_LONGEST] + cut or None
    return value if message.endpoint in _ANSWERS else _without_vectors(value)


def _plain_turn(endpoint: str, answer: Exchange, body: bytes) -> dict[str, Any] | None:
    """The turn of an answer that is one text and nothing else, as most are; ``None`` for all others.

    What there is to an answer otherwise, streams and encodings first, takes several times as long to follow.
    """
    if endpoint != "/chat/completions" or answer.status != _OK or not body.startswith(b"{"):
        return None
    if any(_UNPLAIN(name) or "event-stream" in value.lower() for name, value in answer.headers):
        return None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    turn = choice.get("message") if isinstance(choice, dict) and not choice.get("delta") else None
    if not isinstance(turn, dict) or not isinstance(turn.get("content"), str):
        return None
    if any(turn.get(name) is not None for name in _MORE):
        return None
    return {"role": "assistant", "content": turn["content"]}


def _turn(choice: ChoiceView) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": "assistant", "content": choice.text}
    extra = {"refusal": choice.refusal, "reasoning": choice.reasoning}
    turn = turn | {name: text for name, text in extra.items() if text is not None}
    if choice.tool_calls:
        turn["tool_calls"] = [_call(call) for call in choice.tool_calls]
    return turn


def _call(call: ToolCallView) -> dict[str, Any]:
    said_of = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": call.type, "function": said_of}


def _without_vectors(value: Any) -> Any:
    """An answer whose vectors are told by their length: nobody reads them."""
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        return value
    return {**value, "data": [_without_vector(row) for row in value["data"]]}


def _without_vector(row: Any) -> Any:
    vector = row.get("embedding") if isinstance(row, dict) else None
    if isinstance(vector, list):
        return {**row, "embedding": f"⟦{len(vector):,} numbers⟧"}
    return {**row, "embedding": f"⟦{len(vector):,} characters⟧"} if isinstance(vector, str) else row


def billed(message: MessageRecord, *, replayed: bool) -> dict[str, str]:
    """Usage and cost as attributes.

    What was served from a recording used and cost nothing now, and says so: without a usage the server counts tokens
    by itself, without a cost it looks up a price. Usage is in disjoint buckets; what is unknown is left out.
    """
    if replayed:
        return {
            "langfuse.observation.usage_details": '{"input":0,"output":0,"total":0}',
            "langfuse.observation.cost_details": '{"total":0}',
        }
    attributes: dict[str, str] = {}
    buckets = usage_buckets(message)
    if buckets:
        attributes["langfuse.observation.usage_details"] = json_text(buckets)
    # The server counts money in one currency.
    if message.cost is not None and message.currency == "USD" and message.cost.is_finite() and message.cost >= 0:
        attributes["langfuse.observation.cost_details"] = f'{{"total":{message.cost:f}}}'
    return attributes


def usage_buckets(message: MessageRecord) -> dict[str, int]:
    """Tokens in buckets that add up: input without its cached part, output without its reasoning."""
    usage = message.usage
    sent, cached = _count(usage.input_tokens), _count(usage.cached_tokens)
    got, thought = _count(usage.output_tokens), _count(usage.reasoning_tokens)
    # A part is never larger than what it is a part of, whatever a provider says.
    cached = cached if cached is None or sent is None else min(cached, sent)
    thought = thought if thought is None or got is None else min(thought, got)
    buckets = {
        "input": None if sent is None else sent - (cached or 0),
        "input_cached_tokens": cached or None,
        "output": None if got is None else got - (thought or 0),
        "output_reasoning_tokens": thought or None,
    }
    return {name: count for name, count in buckets.items() if count is not None}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def prompt_origins(recorded: Iterable[tuple[str, Any]]) -> Mapping[str, tuple[str, str]]:
    """Prompt name → (name, version) at Langfuse, for those that came from there.

    Args:
        recorded: Prompt name and the recorded form of ``FetchedPrompt``.
    """
    origins = {}
    for name, value in recorded:
        try:
            fetched = FetchedPrompt.from_recorded(value)
        except PromptError:
            continue
        if fetched.source == _LANGFUSE and str(fetched.version).isascii() and str(fetched.version).isdigit():
            origins[name] = (fetched.name, str(fetched.version))
    return origins
