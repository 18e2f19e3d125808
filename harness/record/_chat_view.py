"""Chat completions and legacy completions, plain and streamed, read into choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.record._values import Usage
from harness.record._view_values import (
    ChoiceView,
    ResponseView,
    ToolCallView,
    index_of,
    items,
    joined,
    mapping,
    text_or_none,
    usage_of,
)


@dataclass(slots=True)
class _Tool:
    index: int
    id: str | None = None
    name: str = ""
    arguments: str = ""
    type: str = "function"


@dataclass(slots=True)
class _Choice:
    index: int
    text: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    tools: dict[int, _Tool] = field(default_factory=dict)
    finish: str | None = None
    logprobs: list[Mapping[str, Any]] = field(default_factory=list)

    def view(self) -> ChoiceView:
        return ChoiceView(
            index=self.index,
            text=self.text,
            refusal=self.refusal,
            reasoning=self.reasoning,
            tool_calls=tuple(
                ToolCallView(index=t.index, id=t.id, name=t.name, arguments=t.arguments, type=t.type)
                for _, t in sorted(self.tools.items())
            ),
            finish_reason=self.finish,
            logprobs=tuple(self.logprobs),
        )


class ChatAssembler:
    """Puts completion objects and chunks together; a plain answer is a single full chunk."""

    def __init__(self) -> None:
        self.finished = False
        self._choices: dict[int, _Choice] = {}
        self._usage = Usage()
        self._id: str | None = None
        self._model: str | None = None
        self._fingerprint: str | None = None
        self._error: str | None = None

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one chunk (or the whole plain answer)."""
        self._id = self._id or text_or_none(data.get("id"))
        self._model = self._model or text_or_none(data.get("model"))
        self._fingerprint = self._fingerprint or text_or_none(data.get("system_fingerprint"))
        self._usage = usage_of(data.get("usage")) or self._usage
        if data.get("error"):
            self._error = error_text(data["error"])
            self.finished = True
        for position, item in enumerate(items(data.get("choices"))):
            self._choice(mapping(item), position)

    def view(self, status: int | None, *, complete: bool) -> ResponseView:
        """What was said up to now."""
        return ResponseView(
            status=status,
            response_id=self._id or None,
            model_served=self._model or None,
            system_fingerprint=self._fingerprint,
            choices=tuple(choice.view() for _, choice in sorted(self._choices.items())),
            usage=self._usage,
            error=self._error,
            complete=complete,
        )

    @property
    def all_finished(self) -> bool:
        """Every choice seen carries a finish reason."""
        return bool(self._choices) and all(choice.finish for choice in self._choices.values())

    def _choice(self, item: Mapping[str, Any], position: int) -> None:
        index = index_of(item.get("index"), position)
        choice = self._choices.setdefault(index, _Choice(index))
        part = mapping(item.get("delta") or item.get("message"))
        choice.text = joined(choice.text, _content(part.get("content", item.get("text"))))
        choice.refusal = joined(choice.refusal, part.get("refusal"))
        choice.reasoning = joined(choice.reasoning, part.get("reasoning_content", part.get("reasoning")))
        choice.finish = text_or_none(item.get("finish_reason")) or choice.finish
        logprobs = items(mapping(item.get("logprobs")).get("content"))
        choice.logprobs.extend(entry for entry in logprobs if isinstance(entry, Mapping))
        for place, call in enumerate(items(part.get("tool_calls"))):
            _tool(choice, mapping(call), place)
        if part.get("function_call"):
            _tool(choice, {"index": 0, "function": part["function_call"]}, 0)


def _tool(choice: _Choice, call: Mapping[str, Any], place: int) -> None:
    """Take a call or a fragment of one; index is the protocol's key, the id comes with the first only."""
    index = index_of(call.get("index"), place)
    tool = choice.tools.setdefault(index, _Tool(index))
    kind = text_or_none(call.get("type"))
    if kind:
        tool.type = kind
    tool.id = tool.id or text_or_none(call.get("id"))
    body = mapping(call.get("function") or call.get("custom"))
    tool.name = joined(tool.name, body.get("name")) or ""
    tool.arguments = joined(tool.arguments, body.get("arguments", body.get("input"))) or ""


def _content(value: Any) -> str | None:
    """Text, or the texts of a list of content parts."""
    if isinstance(value, list):
        return "".join(text for part in value if (text := text_or_none(mapping(part).get("text"))))
    return text_or_none(value)


def error_text(error: Any) -> str:
    """One line out of a provider's error object."""
    table = mapping(error)
    words = [table.get("code") or table.get("type"), table.get("message") or table.get("detail")]
    text = ": ".join(str(word) for word in words if word) or str(error)
    return text[:2000]
