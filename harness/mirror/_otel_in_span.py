"""One span as an observation: what it is, and what it says of a model call, in every spelling that is in use.

Source: OpenTelemetry's conventions for generative AI (present and older names), and the plain names of two libraries
of instrumentations, ``traceloop.``/``llm.`` and ``openinference.``/``llm.``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from harness.mirror._import_body import parsed
from harness.mirror._observation import Observation, fit
from harness.mirror._otel_in_json import LAST, attributes_of, field_of, id_of, objects, time_of
from harness.mirror._otel_in_messages import Event, answered, asked, offered

PROJECT: Final = "otlp"
"""Stands where a Langfuse project's id stands, so that no two sources make one id."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OPERATIONS: Final = {
    "chat": "GENERATION",
    "completion": "GENERATION",
    "generate_content": "GENERATION",
    "text_completion": "GENERATION",
    "embedding": "EMBEDDING",
    "embeddings": "EMBEDDING",
    "execute_tool": "TOOL",
    "create_agent": "AGENT",
    "invoke_agent": "AGENT",
    "retrieval": "RETRIEVER",
}
_KINDS: Final = {
    "agent": "AGENT",
    "embedding": "EMBEDDING",
    "llm": "GENERATION",
    "retriever": "RETRIEVER",
    "tool": "TOOL",
}
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "AGENT": ("gen_ai.agent.name", "traceloop.entity.name", "agent.name", "gen_ai.workflow.name"),
    "TOOL": ("gen_ai.tool.name", "traceloop.entity.name", "tool.name"),
    "RETRIEVER": ("traceloop.entity.name",),
    "SPAN": ("gen_ai.workflow.name", "traceloop.entity.name"),
}
_WORKFLOW: Final = ("gen_ai.workflow.name", "traceloop.workflow.name")
_INPUT: Final = ("goldfork.input", "gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input")
_OUTPUT: Final = ("goldfork.output", "gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_MODEL: Final = ("gen_ai.request.model", "llm.request.model_name", "embedding.model_name")
_SERVED: Final = ("gen_ai.response.model", "llm.response.model_name", "llm.model_name")
_SESSION: Final = (
    "gen_ai.conversation.id",
    "session.id",
    "traceloop.association.properties.session_id",
    "gen_ai.session.id",
)
_USER: Final = ("user.id", "enduser.id", "traceloop.association.properties.user_id")
_PARAMS: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "max_tokens": "max_tokens",
    "seed": "seed",
    "choice.count": "n",
    "stop_sequences": "stop",
}
_USAGE: Final[Mapping[str, tuple[str, ...]]] = {
    "input": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt",
              "llm.usage.prompt_tokens", "goldfork.recorded.input_tokens"),
    "output": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
               "llm.usage.completion_tokens", "goldfork.recorded.output_tokens"),
    "input_cached_tokens": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
                            "llm.token_count.prompt_details.cache_read", "goldfork.recorded.cache_read.input_tokens"),
    "output_reasoning_tokens": ("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens",
                                "llm.usage.reasoning_tokens", "llm.token_count.completion_details.reasoning",
                                "goldfork.recorded.reasoning.output_tokens"),
}  # fmt: skip
_NAME: Final = 300
"""Characters of a name."""
_CALLS: Final = ("gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
"""A span without a word for what it does is a model call when it has one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span, read as far as it can be."""

    id: str
    """16 hex digits; empty when it has none."""
    parent_id: str | None
    name: str
    start: int | None
    """Unix nanoseconds, like ``end``; ``None`` where it tells no time."""
    end: int | None
    attributes: Mapping[str, Any]
    events: tuple[Event, ...]
    failed: bool
    status_message: str | None
    resource: Mapping[str, Any]
    scope: str

    @classmethod
    def read(cls, raw: Mapping[str, Any], resource: Mapping[str, Any], scope: str) -> Span:
        """Read a span as it stands in a request: nothing in it can fail."""
        attributes = attributes_of(raw)
        events = tuple((_word(field_of(one, "name")), attributes_of(one)) for one in objects(field_of(raw, "events")))
        for name, told in events:
            if name == "gen_ai.client.inference.operation.details":
                attributes = {**told, **attributes}
        status = field_of(raw, "status")
        return cls(
            id=id_of(field_of(raw, "spanId"), 8),
            parent_id=id_of(field_of(raw, "parentSpanId"), 8) or None,
            name=_word(field_of(raw, "name")),
            start=time_of(field_of(raw, "startTimeUnixNano")),
            end=time_of(field_of(raw, "endTimeUnixNano")),
            attributes=attributes,
            events=events,
            failed=field_of(status, "code") in {2, "2", "STATUS_CODE_ERROR"},
            status_message=_word(field_of(status, "message")) or _trouble(attributes, events),
            resource=resource,
            scope=scope,
        )

    @property
    def type(self) -> str:
        """What it is, in a Langfuse observation's words."""
        found = self.attributes
        own = _word(found.get("goldfork.kind"))
        if "goldfork.message.id" in found:
            return "EMBEDDING" if found.get("gen_ai.operation.name") == "embeddings" else "GENERATION"
        said = own or _word(found.get("openinference.span.kind")) or _word(found.get("traceloop.span.kind"))
        if said:
            return _KINDS.get(said.lower(), "SPAN")
        operation = _word(found.get("gen_ai.operation.name")) or _word(found.get("llm.request.type"))
        if operation:
            # Words that came after this was written: a model is asked where tokens were counted.
            return _OPERATIONS.get(operation.lower()) or ("GENERATION" if _counted(found) else "SPAN")
        if "gen_ai.tool.name" in found:
            return "TOOL"
        return "GENERATION" if any(name in found for name in _CALLS) else "SPAN"

    def first(self, names: tuple[str, ...]) -> str | None:
        """The first of some attributes that is text."""
        return next((found for name in names if (found := _word(self.attributes.get(name)))), None)


def observation(span: Span, *, trace_id: str, root: bool, start: int, rank: int) -> Observation:
    """A span as the observation that the import of traces is made of.

    Args:
        span: The span.
        trace_id: Of its trace, in hex.
        root: Whether it stands for the run.
        start: Unix nanoseconds at which it began, where it does not say so itself.
        rank: Its place in the order of start.
    """
    kind = span.type
    began = span.start if span.start is not None else start
    call = kind in {"GENERATION", "EMBEDDING"}
    told = _call(span, kind) if call else _work(span)
    ended = None if span.end is None else moment(max(span.end, began))
    resource = span.resource
    return Observation(
        id=span.id,
        trace_id=trace_id,
        project_id=PROJECT,
        parent_id=span.parent_id,
        type=kind,
        name=_short(span.first(_NAMES.get(kind, ())) or span.name),
        start=moment(began),
        end=ended,
        first_token=_first_token(span, began),
        created_at=None,
        updated_at=ended or moment(began),
        root=root,
        level="ERROR" if span.failed else "DEFAULT",
        status_message=span.status_message if span.failed else None,
        version=_word(span.attributes.get("gen_ai.agent.version")) or None,
        environment=_word(resource.get("deployment.environment.name"))
        or _word(resource.get("deployment.environment"))
        or None,
        user_id=span.first(_USER),
        session_id=span.first(_SESSION),
        trace_name=_short(span.first(_WORKFLOW) or "") or None,
        release=_word(resource.get("service.version")) or None,
        tags=_tags(span.attributes),
        metadata=_metadata(span),
        rank=rank,
        **told,
    )


def moment(nanoseconds: int) -> datetime:
    """Unix nanoseconds as a time, whole microseconds."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def _work(span: Span) -> dict[str, Any]:
    """What a unit of work was given and gave."""
    given, made = _first(span, _INPUT), _first(span, _OUTPUT)
    if given is None:
        given = asked(span.attributes, span.events) or None
    if made is None:
        said = [choice["message"] for choice in answered(span.attributes, span.events)]
        made = [one for one in said if one.get("content") is not None or one.get("tool_calls")] or None
    return {"input": given, "output": made}


def _call(span: Span, kind: str) -> dict[str, Any]:
    """What a model call says: model, parameters, usage, cost, what was asked and answered."""
    found = span.attributes
    params = _params(found)
    model = span.first(_MODEL) or _word(params.pop("model", None)) or span.first(_SERVED)
    params.pop("model", None)
    counts = {bucket: count for bucket, names in _USAGE.items() if (count := _count(found, names)) is not None}
    # The conventions count cached tokens as input, and reasoning as output.
    usage = {**counts, "total": counts.get("input", 0) + counts.get("output", 0)} if counts else {}
    told = {"model": model, "params": params, "usage": usage, "cost": _cost(found)}
    if kind == "EMBEDDING":
        return {**told, "input": _embedded(span), "output": None}
    whole = parsed(found.get("input.value"), scalars=False)
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        request = {name: value for name, value in whole.items() if name != "model"}
    else:
        messages, tools = asked(found, span.events), offered(found)
        request = {**({"messages": messages} if messages else {}), **({"tools": tools} if tools else {})}
    request = request if request.get("messages") else {**request, "messages": []} if request else {}
    return {**told, "input": request or None, "output": _response(span)}


def _response(span: Span) -> dict[str, Any] | None:
    """The body that a response had, as far as it is told; ``None`` when nothing of it is."""
    choices = answered(span.attributes, span.events)
    if not choices:
        return None
    head = {
        "id": span.first(("gen_ai.response.id",)),
        "model": span.first(_SERVED),
        "system_fingerprint": span.first(
            ("openai.response.system_fingerprint", "gen_ai.openai.response.system_fingerprint")
        ),
    }
    known = {name: value for name, value in head.items() if value}
    return {"object": "chat.completion", **known, "choices": choices}


def _embedded(span: Span) -> Any:
    """What was embedded; ``None`` where it is not told."""
    whole = parsed(span.attributes.get("input.value"), scalars=False)
    if isinstance(whole, dict) and "input" in whole:
        return whole["input"]
    texts = [one["content"] for one in asked(span.attributes, span.events) if isinstance(one.get("content"), str)]
    return texts[0] if len(texts) == 1 else texts or None


def _params(found: Mapping[str, Any]) -> dict[str, Any]:
    said = next(
        (
            value
            for name in ("llm.invocation_parameters", "embedding.invocation_parameters")
            if isinstance(value := parsed(found.get(name)), dict)
        ),
        {},
    )
    params = {name: value for name, value in said.items() if name not in {"messages", "input", "tools"}}
    params |= {name: found[key] for word, name in _PARAMS.items() if (key := f"gen_ai.request.{word}") in found}
    return params


def _cost(found: Mapping[str, Any]) -> dict[str, Decimal]:
    try:
        amount = Decimal(_word(found.get("goldfork.cost")))
    except InvalidOperation:
        return {}
    return {"total": amount} if amount.is_finite() and abs(amount.adjusted()) < 20 else {}


def _count(found: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        count = found.get(name)
        if isinstance(count, float) and count.is_integer():
            count = int(count)
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**63:
            return count
    return None


def _counted(found: Mapping[str, Any]) -> bool:
    return _count(found, _USAGE["input"]) is not None or _count(found, _USAGE["output"]) is not None


def _first(span: Span, names: tuple[str, ...]) -> Any:
    return next((span.attributes[name] for name in names if span.attributes.get(name) is not None), None)


def _first_token(span: Span, began: int) -> datetime | None:
    seconds = span.attributes.get("gen_ai.response.time_to_first_chunk")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 10**6:
        return None
    return moment(min(began + round(seconds * 10**9), LAST))


def _tags(found: Mapping[str, Any]) -> tuple[str, ...]:
    told = found.get("goldfork.tags", parsed(found.get("tag.tags")))
    return tuple(tag for tag in told if isinstance(tag, str)) if isinstance(told, list) else ()


def _metadata(span: Span) -> dict[str, Any]:
    named = {"service": span.resource.get("service.name"), "instrumentation": span.scope or None}
    return {name: fit(value) for name, value in named.items() if isinstance(value, str)}


def _trouble(attributes: Mapping[str, Any], events: tuple[Event, ...]) -> str | None:
    """What went wrong, where the status has no words."""
    for name, told in events:
        if name == "exception":
            kind, words = _word(told.get("exception.type")), _word(told.get("exception.message"))
            return ": ".join(filter(None, (kind, words))) or None
    return _word(attributes.get("error.type")) or None


def _short(name: str) -> str:
    # Names stand in the scope of everything below.
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _word(value: Any) -> str:
    return fit(value) if isinstance(value, str) else ""
