"""Every place where this integration knows how LangGraph is built inside, and the range of versions it holds for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langgraph._internal._runnable import RunnableCallable
from langgraph.pregel._call import identifier

from harness.errors import UsageError

SUPPORTED = "langgraph>=1.2,<1.3"
"""Versions of LangGraph that the seams were tested with."""

_RANGE = ((1, 2), (1, 3))
_READ = "__pregel_read"
_RUNTIME = "__pregel_runtime"
_SCRATCHPAD = "__pregel_scratchpad"
_RESUMING = "__pregel_resuming"
_PUSH = "__pregel_push"
_TASKS = "__pregel_tasks"
_INTERNAL = ("__pregel_", "checkpoint_id", "checkpoint_map", "checkpoint_ns")
_ADDED = ("langgraph_", "checkpoint_", "__pregel_", "lc_", "ls_", "run_id")
"""Metadata that LangGraph and LangChain put in themselves."""


def require_supported() -> None:
    """Refuse a LangGraph whose inside was never looked at.

    Raises:
        UsageError: The installed version is outside ``SUPPORTED``.
    """
    found = version("langgraph")
    at = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if not _RANGE[0] <= at < _RANGE[1]:
        raise UsageError(f"langgraph {found!r} is not supported by this version of Goldfork; install {SUPPORTED!r}")


def functions_of(runnable: Any) -> tuple[Any, ...] | None:
    """What a node's function was written as, with its fixed arguments; ``None`` for another kind of runnable."""
    if not isinstance(runnable, RunnableCallable):
        return None
    return (*(each for each in (runnable.func, runnable.afunc) if each is not None), dict(runnable.kwargs))


def cache_name(node: Any) -> tuple[str, str]:
    """Module and name under which LangGraph's own cache keeps a node's results; empty when it has none."""
    module, _, name = (identifier(node) or "").rpartition(".")
    return module, name


def has_listener(config: Mapping[str, Any] | None) -> bool:
    """Whether ``astream_events`` or ``astream_log`` listens, which tell what happens inside a node's body."""
    callbacks = (config or {}).get("callbacks") or ()
    handlers = callbacks if isinstance(callbacks, list | tuple) else getattr(callbacks, "handlers", ())
    return any(isinstance(handler, _StreamingCallbackHandler) for handler in handlers)


def runtime_of(config: Mapping[str, Any]) -> Any:
    """LangGraph's own runtime object for the node: context, store, previous value."""
    return config.get("configurable", {}).get(_RUNTIME)


def is_resuming(config: Mapping[str, Any] | None) -> bool:
    """Whether a graph inside another one continues from its own checkpoint."""
    return bool((config or {}).get("configurable", {}).get(_RESUMING))


def read_besides(config: Mapping[str, Any], own: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a node may read besides its state: the caller's configuration, the context, answers to interrupts.

    Args:
        config: What LangGraph hands to the node.
        own: The node's own metadata, which LangGraph mixes with the caller's.
    """
    configurable = config.get("configurable", {})
    runtime = configurable.get(_RUNTIME)
    given = user_config(config, own)
    given["context"] = getattr(runtime, "context", None)
    given["previous"] = getattr(runtime, "previous", None)
    scratchpad = configurable.get(_SCRATCHPAD)
    if scratchpad is not None:
        given["resume"] = [*scratchpad.resume]
        waiting = scratchpad.get_null_resume(False)
        if waiting is not None:
            given["resume"].append(waiting)
    return {name: value for name, value in given.items() if not _is_nothing(value)}


def _is_nothing(value: Any) -> bool:
    return value is None or (type(value) in {list, dict} and not value)


def user_config(config: Mapping[str, Any] | None, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The caller's own part of a configuration."""
    config = config or {}
    configurable = {k: v for k, v in config.get("configurable", {}).items() if not k.startswith(_INTERNAL)}
    # LangChain repeats what is configurable in the metadata.
    known: list[tuple[str, Any]] = [*configurable.items(), *(own or {}).items()]
    metadata = {
        k: v
        for k, v in (config.get("metadata") or {}).items()
        if not k.startswith(_ADDED) and not any(k == name and v is value for name, value in known)
    }
    tags = [tag for tag in config.get("tags") or () if not tag.startswith(("seq:step", "graph:step", "langsmith:"))]
    given = {"configurable": configurable, "metadata": metadata, "tags": tags}
    return {name: value for name, value in given.items() if value}


def sent_place(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Super-step and place of a node that ``Send`` started; ``None`` when an edge did."""
    metadata = config.get("metadata") or {}
    path: Sequence[Any] = metadata.get("langgraph_path") or []
    if len(path) < 2 or path[0] != _PUSH or not isinstance(path[1], int):
        return None
    return int(metadata.get("langgraph_step", 0)), path[1]


def sends(config: Mapping[str, Any]) -> Sequence[Any]:
    """Everything that was sent for this super-step, in LangGraph's own order."""
    read = config.get("configurable", {}).get(_READ)
    found = read(_TASKS, False) if read is not None else None
    return found or ()
