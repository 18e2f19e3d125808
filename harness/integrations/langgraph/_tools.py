"""LangChain's tools, inside a node, as tools of the run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore

from harness import pipeline
from harness.integrations.langgraph._declared import declaration_of
from harness.integrations.langgraph._visit import visiting
from harness.pipeline.adapter import source_version
from harness.session import current

_HANDED_IN = (BaseStore, ToolRuntime)
"""What LangGraph adds to what the model asked for; no argument of the call."""


def tool_runs(original: Callable[..., Any]) -> Callable[..., Any]:
    """``BaseTool.run``, recorded."""

    @functools.wraps(original)
    def run(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_covered():
            return original(self, tool_input, *args, **kwargs)

        def body(arguments: Any) -> Any:
            del arguments
            return _without_id(original(self, tool_input, *args, **kwargs))

        output = _declared(self, body)(_arguments(tool_input))
        return _with_id(self, output, kwargs.get("tool_call_id"))

    return run


def async_tool_runs(original: Callable[..., Any]) -> Callable[..., Any]:
    """``BaseTool.arun``, recorded."""

    @functools.wraps(original)
    async def arun(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_covered():
            return await original(self, tool_input, *args, **kwargs)

        async def body(arguments: Any) -> Any:
            del arguments
            return _without_id(await original(self, tool_input, *args, **kwargs))

        output = await _declared(self, body)(_arguments(tool_input))
        return _with_id(self, output, kwargs.get("tool_call_id"))

    return arun


def _is_covered() -> bool:
    """Whether there is no run, or the node around it says already how all of it may be repeated."""
    visit = visiting()
    return current() is None or (visit is not None and visit.declared)


def _declared(tool: Any, body: Callable[..., Any]) -> Callable[..., Any]:
    said = declaration_of(tool.name, {"tags": tool.tags or (), **(tool.metadata or {})}, stands_for="arguments")
    written = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)
    decorated: Callable[..., Any] = pipeline.tool(
        name=tool.name,
        determinism=said.determinism if said else None,
        ttl=said.ttl if said else None,
        version=(said.version if said else None) or source_version(written),
        **(said.options if said else {}),
    )(body)
    return decorated


def _arguments(tool_input: Any) -> Any:
    if not isinstance(tool_input, Mapping):
        return tool_input
    return {name: value for name, value in tool_input.items() if not isinstance(value, _HANDED_IN)}


def _without_id(output: Any) -> Any:
    """The answer without the id of the call, which the provider draws anew each time."""
    return output.model_copy(update={"tool_call_id": ""}) if isinstance(output, ToolMessage) else output


def _with_id(tool: Any, output: Any, call_id: Any) -> Any:
    if call_id is None:
        return output
    if isinstance(output, ToolMessage):
        return output.model_copy(update={"tool_call_id": call_id})
    if isinstance(output, str):
        # A stand-in.
        return ToolMessage(output, name=tool.name, tool_call_id=call_id)
    return output
