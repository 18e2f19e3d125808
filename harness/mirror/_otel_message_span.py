"""What a model call's span says: the ``gen_ai`` attributes of one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.mirror._otel_messages import (
    input_messages,
    json_object,
    output_messages,
    system_instructions,
    tool_definitions,
)
from harness.record import LOCAL, MessageRecord, ResponseView, view_response

_OPERATIONS: Final = {
    "/chat/completions": "chat",
    "/responses": "chat",
    "/messages": "chat",
    "/completions": "text_completion",
    "/embeddings": "embeddings",
}
_PROVIDERS: Final = {
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "models.ai.azure.com": "azure.ai.inference",
    "anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "cohere.com": "cohere",
    "cohere.ai": "cohere",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
}
"""Names that the conventions list, by the end of the host. Any other host speaks OpenAI's API: ``openai``."""

_NUMBERS: Final = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
_LARGE = 1e300
"""Beyond this a JSON integer may be no float."""
_COUNTS: Final = {
    "max_tokens": "request.max_tokens",
    "max_completion_tokens": "request.max_tokens",
    "max_output_tokens": "request.max_tokens",
    "seed": "request.seed",
    "n": "request.choice.count",
    "dimensions": "embeddings.dimension.count",
}


def message_name(message: MessageRecord) -> str:
    """The span's name: operation and model."""
    operation = _operation(message)
    return f"{operation} {message.model}" if message.model else operation


def message_attributes(message: MessageRecord, request: bytes, reply: bytes) -> dict[str, Any]:
    """The attributes that hold no content; ``None`` stands for what is unknown.

    Args:
        message: The message.
        request: Its request body.
        reply: Body of its answer as received; empty without one.
    """
    view = _view(message, reply)
    return {
        "gen_ai.operation.name": _operation(message),
        **_place(message.provider),
        "gen_ai.request.model": message.model,
        "gen_ai.request.stream": message.streamed or None,
        **_parameters(message.params),
        **_asked(json_object(request)),
        "gen_ai.response.id": view.response_id,
        "gen_ai.response.model": message.model_served,
        "gen_ai.response.finish_reasons": list(message.finish_reasons) or None,
        "gen_ai.response.time_to_first_chunk": None if message.first_chunk_ms is None else message.first_chunk_ms / 1e3,
        "openai.response.system_fingerprint": message.system_fingerprint,
        "gen_ai.prompt.name": message.prompt_name,
        "goldfork.prompt.version": message.prompt_version,
        **_spending(message),
        "goldfork.message.id": message.id,
        "goldfork.seq": message.seq,
        "goldfork.scope": message.scope,
        "goldfork.occurrence": message.occurrence,
        "goldfork.status": message.status,
        "goldfork.cache_state": message.cache_state,
        "goldfork.replay_of": message.replay_of,
        "goldfork.attempts": len(message.exchanges),
    }


def message_content(message: MessageRecord, request: bytes, reply: bytes) -> dict[str, Any]:
    """What was said, in the conventions' JSON; empty lists stand for nothing."""
    asked = json_object(request)
    return {
        "gen_ai.system_instructions": system_instructions(asked),
        "gen_ai.input.messages": input_messages(message.endpoint, asked),
        "gen_ai.tool.definitions": tool_definitions(asked),
        "gen_ai.output.messages": output_messages(_view(message, reply).choices),
    }


def _view(message: MessageRecord, reply: bytes) -> ResponseView:
    answer = message.answer
    return ResponseView() if answer is None else view_response(message.endpoint, answer, reply)


def _operation(message: MessageRecord) -> str:
    return _OPERATIONS.get(message.endpoint) or message.endpoint.strip("/") or message.method


def _place(provider: str) -> dict[str, Any]:
    """Who answered, and where; a call that this process answered itself has no address."""
    if provider == LOCAL:
        return {"gen_ai.provider.name": LOCAL}
    host, colon, port = provider.rpartition(":")
    if not (colon and port.isascii() and port.isdigit()):
        host, port = provider, ""
    name = next((name for end, name in _PROVIDERS.items() if f".{host}".endswith(f".{end}")), "openai")
    return {"gen_ai.provider.name": name, "server.address": host, "server.port": int(port[:5]) if port else None}


def _parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _NUMBERS:
        value = params.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGE:
            found[f"gen_ai.request.{name}"] = float(value)
    for name, attribute in _COUNTS.items():
        value = params.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            found[f"gen_ai.{attribute}"] = value
    if isinstance(params.get("encoding_format"), str):
        found["gen_ai.request.encoding_formats"] = [params["encoding_format"]]
    if isinstance(params.get("service_tier"), str):
        found["openai.request.service_tier"] = params["service_tier"]
    return found


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that are no scalars."""
    stop = request.get("stop")
    stops = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    text = request.get("text")
    shape = request.get("response_format") or (text.get("format") if isinstance(text, Mapping) else None)
    kind = str(shape.get("type")) if isinstance(shape, Mapping) else ""
    return {
        "gen_ai.request.stop_sequences": [word for word in stops if isinstance(word, str)] or None,
        "gen_ai.output.type": "json" if kind in {"json_object", "json_schema"} else "text" if kind == "text" else None,
    }


def _spending(message: MessageRecord) -> dict[str, Any]:
    """Tokens and money. What came out of a recording was paid once, so its tokens stand under another name."""
    usage = message.usage
    tokens = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read.input_tokens": usage.cached_tokens,
        "reasoning.output_tokens": usage.reasoning_tokens,
    }
    if message.cache_state != "live":
        return {**{f"goldfork.recorded.{name}": count for name, count in tokens.items()}, "goldfork.cost": "0"}
    cost = None if message.cost is None else f"{message.cost:f}"
    spent = {"goldfork.cost": cost, "goldfork.currency": message.currency if cost else None}
    return {**{f"gen_ai.usage.{name}": count for name, count in tokens.items()}, **spent}
