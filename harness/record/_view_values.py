"""What a request asked and what a response said: views derived from bytes as sent and as received."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.record._values import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallView:
    """One tool call that a model asked for."""

    index: int
    id: str | None = None
    name: str = ""
    arguments: str = ""
    """The argument text as sent, never re-serialised; it need not be JSON."""
    type: str = "function"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceView:
    """One of a response's answers."""

    index: int
    text: str | None = None
    """``None`` when no content was sent, which is not the same as empty content."""
    refusal: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCallView, ...] = ()
    finish_reason: str | None = None
    logprobs: tuple[Mapping[str, Any], ...] = ()
    """Per content token, as the provider sent them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseView:
    """What one response says. Hostile or broken content yields an ``error``, never an exception."""

    status: int | None = None
    response_id: str | None = None
    model_served: str | None = None
    system_fingerprint: str | None = None
    choices: tuple[ChoiceView, ...] = ()
    """In order of index; empty for embeddings and moderations."""
    usage: Usage = field(default_factory=Usage)
    error: str | None = None
    """Why this is no answer: a provider's error, or a bounded copy of what is not JSON."""
    complete: bool = True
    """False for a stream that stopped before its end was announced."""

    @property
    def text(self) -> str | None:
        """The text of choice 0 (the first one sent); look at ``choices`` when several were asked for."""
        return self.choices[0].text if self.choices else None

    @property
    def tool_calls(self) -> tuple[ToolCallView, ...]:
        """The tool calls of the first choice."""
        return self.choices[0].tool_calls if self.choices else ()

    @property
    def refusal(self) -> str | None:
        """The refusal of the first choice."""
        return self.choices[0].refusal if self.choices else None

    @property
    def finish_reasons(self) -> tuple[str, ...]:
        """Those that were sent, in order of choice."""
        return tuple(choice.finish_reason for choice in self.choices if choice.finish_reason is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """What one request asks."""

    model: str | None = None
    stream: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    """Scalar parameters as sent: temperature, top_p, seed, max_tokens and any other."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """Role and content of what is asked; instructions and bare input text are given roles."""
    tools: tuple[Mapping[str, Any], ...] = ()


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    # Most are dicts, and to see that is quick.
    return value if isinstance(value, (dict, Mapping)) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text_or_none(value: Any) -> str | None:
    """The value if it is text, else ``None``."""
    return value if isinstance(value, str) else None


def joined(old: str | None, new: Any) -> str | None:
    """Text so far with a further piece; anything but text adds nothing."""
    return (old or "") + new if isinstance(new, str) else old


def index_of(value: Any, default: int) -> int:
    """A list position as sent, or the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def usage_of(value: Any) -> Usage | None:
    """Tokens under either API's names; ``None`` when nothing usable was sent."""
    table = mapping(value)
    sent = _count(table, "prompt_tokens", "input_tokens")
    got = _count(table, "completion_tokens", "output_tokens")
    total = _count(table, "total_tokens")
    if got is None and sent is not None and total is not None and total >= sent:
        got = total - sent
    details = mapping(table.get("prompt_tokens_details") or table.get("input_tokens_details"))
    out = mapping(table.get("completion_tokens_details") or table.get("output_tokens_details"))
    usage = Usage(
        input_tokens=sent,
        output_tokens=got,
        cached_tokens=_count(details, "cached_tokens"),
        reasoning_tokens=_count(out, "reasoning_tokens"),
    )
    return None if usage == Usage() else usage


def _count(table: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = table.get(name)
        # Beyond 64 bits it is no count of tokens and fits no database column: unknown.
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
    return None
