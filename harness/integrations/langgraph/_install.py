"""``install``: every compiled graph of the process is recorded, replayed and forked while a block runs."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from langchain_core.callbacks.manager import AsyncCallbackManager, CallbackManager
from langchain_core.tools import BaseTool
from langgraph.graph import message
from langgraph.pregel import Pregel

from harness import pipeline
from harness.integrations.langgraph._apart import STATE_METHODS, kept_apart
from harness.integrations.langgraph._codecs import teach
from harness.integrations.langgraph._graph import async_calls, async_streams, calls, streams
from harness.integrations.langgraph._seam import require_supported
from harness.integrations.langgraph._tools import async_tool_runs, tool_runs
from harness.session import current

_lock = threading.Lock()
_depth = 0
_undo: list[Callable[[], None]] = []


@contextlib.contextmanager
def install() -> Iterator[None]:
    """Record, replay and fork graphs while the block runs; it acts on the whole process, threads included.

    Every ``invoke``, ``ainvoke``, ``stream`` and ``astream`` of a compiled graph is a run, or a step of the run it is
    called in; every execution of a node is a step; what LangChain tools do inside a node are tool calls. Ids that
    LangGraph and LangChain draw for messages are declared volatile, so that a replay has the recorded ones.

    Raises:
        UsageError: The installed LangGraph is not one that this was made for.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _depth  # noqa: PLW0603 - the library's classes are patched once per process
    with _lock:
        if _depth == 0:
            require_supported()
            teach()
            for owner, name, made in _replacements():
                _undo.append(functools.partial(setattr, owner, name, getattr(owner, name)))
                setattr(owner, name, made)
        _depth += 1


def _leave() -> None:
    global _depth  # noqa: PLW0603
    with _lock:
        _depth -= 1
        if _depth == 0:
            while _undo:
                _undo.pop()()


def _replacements() -> list[tuple[Any, str, Any]]:
    return [
        (Pregel, "invoke", calls(Pregel.invoke)),
        (Pregel, "ainvoke", async_calls(Pregel.ainvoke)),
        (Pregel, "stream", streams(Pregel.stream)),
        (Pregel, "astream", async_streams(Pregel.astream)),
        *((Pregel, name, kept_apart(getattr(Pregel, name))) for name in STATE_METHODS),
        (BaseTool, "run", tool_runs(BaseTool.run)),
        (BaseTool, "arun", async_tool_runs(BaseTool.arun)),
        (message, "uuid", _Drawn("uuid")),
        (CallbackManager, "on_chat_model_start", _identified(CallbackManager.on_chat_model_start)),
        (AsyncCallbackManager, "on_chat_model_start", _identified(AsyncCallbackManager.on_chat_model_start)),
    ]


class _Drawn(ModuleType):
    """Stands for the module ``uuid`` where LangGraph gives ids to messages."""

    @staticmethod
    def uuid4() -> Any:
        """A random id; in a replay, the recorded one."""
        return pipeline.uuid()


def _identified(original: Callable[..., Any]) -> Callable[..., Any]:
    """The start of a chat model's call, with an id of which LangChain makes the id of the reply."""

    @functools.wraps(original)
    def on_chat_model_start(self: Any, serialized: Any, messages: Any, run_id: Any = None, **kwargs: Any) -> Any:
        if run_id is None and current() is not None:
            run_id = pipeline.uuid()
        return original(self, serialized, messages, run_id, **kwargs)

    return on_chat_model_start
