"""The responses API, plain and streamed, read into one choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.record._chat_view import error_text
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

_TERMINAL = {"response.completed", "response.failed", "response.incomplete", "error"}
_DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "arguments",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_CALLS = {"function_call", "custom_tool_call"}


class ResponsesAssembler:
    """Takes stream events; the last ``response`` object wins, deltas stand in while there is none."""

    def __init__(self) -> None:
        self.finished = False
        self._response: Mapping[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._error: str | None = None

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one event (or the whole plain answer)."""
        kind = data.get("type")
        if not isinstance(kind, str):
            self._plain(data)
            return
        if isinstance(data.get("response"), Mapping):
            self._response = data["response"]
        if kind == "error":
            self._error = error_text(data.get("error") or data)
        position = index_of(data.get("output_index"), 0)
        if kind in {"response.output_item.added", "response.output_item.done"}:
            self._item(position, mapping(data.get("item")), done=kind.endswith("done"))
        elif kind in _DELTAS:
            item = self._items.setdefault(position, {})
            item[_DELTAS[kind]] = joined(item.get(_DELTAS[kind]), data.get("delta"))
        self.finished = self.finished or kind in _TERMINAL

    def view(self, status: int | None, *, complete: bool) -> ResponseView:
        """What was said up to now."""
        response = self._response
        output = items(response.get("output"))
        parsed = [_read(mapping(item)) for item in output] or [self._items[key] for key in sorted(self._items)]
        state = text_or_none(response.get("status"))
        error = self._error
        if response.get("error") and error is None:
            error = error_text(response["error"])
        elif state == "failed" and error is None:
            error = "the response failed without saying why"
        choices = (_choice(parsed, response),) if parsed or state in {"completed", "incomplete"} else ()
        return ResponseView(
            status=status,
            response_id=text_or_none(response.get("id")),
            model_served=text_or_none(response.get("model")),
            system_fingerprint=text_or_none(response.get("system_fingerprint")),
            choices=choices,
            usage=usage_of(response.get("usage")) or ResponseView().usage,
            error=error,
            complete=complete,
        )

    def _plain(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("output"), list) or data.get("object") == "response":
            self._response = data
        elif data.get("error"):
            self._error = error_text(data["error"])
            self.finished = True

    def _item(self, position: int, item: Mapping[str, Any], *, done: bool) -> None:
        read = _read(item)
        known = self._items.setdefault(position, {})
        known.update(read if done else {name: value for name, value in read.items() if name not in known})


def _read(item: Mapping[str, Any]) -> dict[str, Any]:
    """One output item as the fields that a choice is made of."""
    kind = item.get("type")
    if kind in _CALLS:
        return {
            "call": kind,
            "id": text_or_none(item.get("call_id")) or text_or_none(item.get("id")),
            "name": text_or_none(item.get("name")) or "",
            "arguments": text_or_none(item.get("arguments", item.get("input"))) or "",
        }
    read: dict[str, Any] = {}
    for part in map(mapping, items(item.get("content"))):
        if part.get("type") == "refusal":
            read["refusal"] = joined(read.get("refusal"), part.get("refusal"))
        elif part.get("type") == "reasoning_text":
            read["reasoning"] = joined(read.get("reasoning"), part.get("text"))
        else:
            read["text"] = joined(read.get("text"), part.get("text"))
            read["logprobs"] = [*read.get("logprobs", ()), *items(part.get("logprobs"))]
    for part in map(mapping, items(item.get("summary"))):
        read["reasoning"] = joined(read.get("reasoning"), part.get("text"))
    return read


def _choice(parsed: list[dict[str, Any]], response: Mapping[str, Any]) -> ChoiceView:
    text = refusal = reasoning = None
    logprobs: list[Mapping[str, Any]] = []
    tools: list[ToolCallView] = []
    for item in parsed:
        text = joined(text, item.get("text"))
        refusal = joined(refusal, item.get("refusal"))
        reasoning = joined(reasoning, item.get("reasoning"))
        logprobs.extend(entry for entry in item.get("logprobs", ()) if isinstance(entry, Mapping))
        if "call" in item:
            tools.append(
                ToolCallView(
                    index=len(tools),
                    id=item["id"],
                    name=item["name"],
                    arguments=item.get("arguments") or "",
                    type="function" if item["call"] == "function_call" else "custom",
                )
            )
    reason = mapping(response.get("incomplete_details")).get("reason")
    return ChoiceView(
        index=0,
        text=text,
        refusal=refusal,
        reasoning=reasoning,
        tool_calls=tuple(tools),
        finish_reason=text_or_none(reason) or text_or_none(response.get("status")),
        logprobs=tuple(logprobs),
    )
