"""What a node's result hangs on besides its inputs: its functions, and those of the graphs inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.load import dumpd
from langchain_core.runnables import RunnableLambda
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from harness.integrations.langgraph._seam import functions_of
from harness.pipeline import NotReusable, register_codec


def surroundings_of(runnable: Any, state: Any, metadata: Any) -> Callable[..., Any] | None:
    """A function that reaches all that the runnable hangs on; ``None`` where that cannot be told.

    It is never called: what it closes over is looked at.
    """
    _teach_models()
    parts = _parts(runnable)
    if parts is None:
        return None
    kinds = (*parts, type(state), dict(metadata or {}))

    def reaches() -> Any:
        return kinds

    reaches.__module__ = next((_module(part) for part in parts if _module(part)), __name__)
    return reaches


def written_function(runnable: Any) -> Callable[..., Any] | None:
    """A function of the application inside a runnable: whose package is its code, and whose source its version."""
    parts = _parts(runnable) or ()
    return next((part for part in parts if callable(part) and _module(part)), None)


def _module(part: Any) -> str:
    """The module of a function of the application; empty for everything else."""
    module = getattr(part, "__module__", None) if hasattr(part, "__code__") else None
    if not isinstance(module, str) or module.startswith(("langgraph.", "langchain", "harness.")):
        return ""
    return module


def _parts(runnable: Any) -> tuple[Any, ...] | None:
    functions = functions_of(runnable)
    if functions is not None:
        return functions
    if isinstance(runnable, RunnableLambda):
        return (getattr(runnable, "func", None), getattr(runnable, "afunc", None), runnable.name)
    if isinstance(runnable, CompiledStateGraph):
        return _graph_parts(runnable)
    if isinstance(runnable, Pregel):
        return None
    return (runnable,)


def _graph_parts(graph: Any) -> tuple[Any, ...] | None:
    """The nodes, edges, branches and reducers of a graph, in the order of their names."""
    if graph.store is not None or graph.cache is not None:
        return None
    builder = graph.builder
    found: list[Any] = []
    for name, node in sorted(builder.nodes.items()):
        inner = _parts(node.runnable)
        if inner is None or node.is_error_handler:
            return None
        found += [*inner, name, node.defer, node.input_schema, dict(node.metadata or {})]
    for start, branches in sorted(builder.branches.items()):
        for name, branch in sorted(branches.items()):
            inner = _parts(branch.path)
            if inner is None:
                return None
            found += [*inner, start, name, sorted(map(str, (branch.ends or {}).items()))]
    found += [sorted(map(str, builder.edges)), sorted(map(str, builder.waiting_edges)), *_reducers(graph)]
    found += [sorted(map(str, graph.interrupt_before_nodes or ())), sorted(map(str, graph.interrupt_after_nodes or ()))]
    # Functions first: the first one says whose package this is.
    return tuple(sorted(found, key=lambda part: not _module(part)))


def _reducers(graph: Any) -> Iterator[Any]:
    for name, channel in sorted(graph.channels.items()):
        yield f"{name}: {type(channel).__qualname__}"
        yield getattr(channel, "operator", None)


def _teach_models() -> None:
    """Let chat models stand in a node's surroundings: by their settings, with the key left out."""
    waiting: list[type] = [BaseLanguageModel]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind not in _taught and kind.__module__.startswith("langchain"):
            _taught.add(kind)
            name = f"langchain:{kind.__module__}.{kind.__qualname__}"
            register_codec(kind, name=name, encode=_settings, decode=_refuse)


_taught: set[type] = set()


def _settings(model: Any) -> Any:
    settings = dumpd(model)
    _require_told(settings)
    return settings


def _require_told(value: Any) -> None:
    if isinstance(value, dict):
        if value.get("type") == "not_implemented":
            raise NotReusable("a model holds something whose settings cannot be told")
        for item in value.values():
            _require_told(item)
    elif isinstance(value, list):
        for item in value:
            _require_told(item)


def _refuse(settings: Any) -> Any:
    del settings
    raise NotReusable("a chat model is not turned back into one")
