"""Invocations of a graph as runs, or as steps inside a run."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel

from harness.integrations.langgraph._apart import apart
from harness.integrations.langgraph._given import Given
from harness.integrations.langgraph._node import RecordedNode
from harness.integrations.langgraph._seam import has_listener, is_resuming, user_config
from harness.integrations.langgraph._surroundings import written_function
from harness.integrations.langgraph._visit import Invocation, Visit, visiting
from harness.pipeline import code_of
from harness.pipeline.adapter import (
    Execution,
    Flow,
    StepSpec,
    begin,
    end,
    fail,
    skip,
    wrap_async_generator,
    wrap_generator,
)
from harness.session import Frame, Mode, current, entered

_STREAMS = frozenset({"custom", "messages", "tools", "debug", "tasks", "events"})
"""Stream modes that show what happens inside a node's body."""

_twins: WeakSet[Pregel[Any, Any, Any, Any]] = WeakSet()
_codes: WeakKeyDictionary[Pregel[Any, Any, Any, Any], str | None] = WeakKeyDictionary()


def is_twin(graph: Any) -> bool:
    """Whether this graph's nodes are recorded already."""
    return graph in _twins


def twin_of(graph: Any, config: Any, visit: Visit | None, *, watched: bool = False) -> Any:
    """The graph with its nodes recorded; the graph itself is left as it is.

    Args:
        graph: A compiled graph.
        config: What it is called with.
        visit: The node around it, if any.
        watched: Someone reads what its nodes stream.
    """
    frame = current()
    if visit is not None and (_has_memory(graph) or is_resuming(config)):
        # It goes on from a checkpoint, which no input of the node around it shows.
        visit.hangs_on_more()
    plan = frame.run.plan if frame is not None else None
    cached = plan is None or (plan.mode in {Mode.LIVE, Mode.OFF} and not plan.dry)
    invocation = Invocation(watched=watched or (visit is not None and visit.watched), cached=cached)
    twin = copy.copy(apart(graph))
    twin.nodes = {name: _recorded(name, node, invocation) for name, node in graph.nodes.items()}
    if not cached:
        # What the cache of the recording process held is not here: every node has to come round.
        twin.cache_policy = None
    _twins.add(twin)
    return twin


def _recorded(name: str, node: Any, invocation: Invocation) -> Any:
    if name.startswith("__"):
        # LangGraph's own nodes, which only pass the input on.
        return node
    update = {"bound": RecordedNode(name, node, invocation, twin_of)}
    return node.copy(update if invocation.cached else {**update, "cache_policy": None})


def _has_memory(graph: Any) -> bool:
    return graph.checkpointer is True or isinstance(graph.checkpointer, BaseCheckpointSaver)


def _is_watched(graph: Any, config: Any, kwargs: Mapping[str, Any]) -> bool:
    modes = kwargs.get("stream_mode") or graph.stream_mode
    shown = {modes} if isinstance(modes, str) else set(modes)
    return bool(shown & _STREAMS) or bool(kwargs.get("subgraphs")) or has_listener(config)


class Opened:
    """One invocation: a step of the open run, or a run of its own."""

    def __init__(self, graph: Any, state: Any, config: Any, kwargs: Mapping[str, Any]) -> None:
        self._given = Given(state, _runtime(config, kwargs))
        # No function: an invocation itself is never skipped, its nodes are.
        spec = StepSpec(name=graph.get_name(), kind="job", signature=self._given.signature)
        self._visit = visiting()
        self._execution = None if current() else Execution(spec, (), self._given.inputs, _code_of(graph))
        self._begun = None if self._execution else begin(spec, (), self._given.inputs)
        self.frame: Frame = self._execution.frame if self._execution else self._begun.frame  # type: ignore[union-attr]  # one of both is there
        inputs = self._execution.kwargs if self._execution else self._begun.arguments.arguments  # type: ignore[union-attr]  # as above
        with entered(self.frame):
            twin = twin_of(graph, config, self._visit, watched=_is_watched(graph, config, kwargs))
        self.output: Any = None
        self.args = (twin, self._given.state(inputs), config)
        self.kwargs = dict(kwargs)

    def given(self) -> tuple[Any] | None:
        """The output that a fork dictates."""
        if self._begun is not None and self._begun.skipped:
            return (skip(self._begun),)
        return None

    @contextlib.contextmanager
    def body(self) -> Iterator[None]:
        """Where the graph runs; ``output`` is what it gave."""
        try:
            with entered(self.frame):
                yield
        except BaseException as error:
            self.finish(None, error)
            raise
        self.finish(self.output)

    def finish(self, output: Any, error: BaseException | None = None) -> None:
        """Record how it ended."""
        if self._execution is not None:
            self._execution.output = output
            self._execution.finish(error)
        elif error is not None and self._begun is not None:
            fail(self._begun, error)
        elif self._begun is not None:
            end(self._begun, output)

    def close(self, flow: Flow, error: BaseException | None = None) -> None:
        """Record how a stream ended; its output is what it gave."""
        self.finish(flow.output, error)

    def deliver(self) -> None:
        """Wait until a run is committed."""
        if self._execution is not None:
            self._execution.deliver()

    async def deliver_async(self) -> None:
        """As ``deliver``, without blocking the event loop."""
        if self._execution is not None:
            await self._execution.deliver_async()


def _runtime(config: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    context = kwargs.get("context")
    return {**user_config(config), **({} if context is None else {"context": context})}


def _code_of(graph: Any) -> str | None:
    """Version of the application's code, taken when the graph is first called."""
    if graph not in _codes:
        written = (written_function(node.bound) for _, node in sorted(graph.nodes.items()))
        found = next((function for function in written if function is not None), None)
        _codes[graph] = None if found is None else code_of(found)
    return _codes[graph]


def calls(original: Callable[..., Any]) -> Callable[..., Any]:
    """``invoke``, recorded."""

    @functools.wraps(original)
    def invoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - LangGraph's name
        if is_twin(self):
            return original(self, input, config, **kwargs)
        opened = Opened(self, input, config, kwargs)
        dictated = opened.given()
        if dictated is not None:
            return dictated[0]
        try:
            with opened.body():
                opened.output = original(*opened.args, **opened.kwargs)
        finally:
            opened.deliver()
        return opened.output

    return invoke


def async_calls(original: Callable[..., Any]) -> Callable[..., Any]:
    """``ainvoke``, recorded."""

    @functools.wraps(original)
    async def ainvoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        if is_twin(self):
            return await original(self, input, config, **kwargs)
        opened = Opened(self, input, config, kwargs)
        dictated = opened.given()
        if dictated is not None:
            return dictated[0]
        try:
            with opened.body():
                opened.output = await original(*opened.args, **opened.kwargs)
        finally:
            await opened.deliver_async()
        return opened.output

    return ainvoke


def streams(original: Callable[..., Any]) -> Callable[..., Any]:
    """``stream``, recorded."""
    return _unless_twin(original, wrap_generator(original, _opening))


def async_streams(original: Callable[..., Any]) -> Callable[..., Any]:
    """``astream``, recorded."""
    return _unless_twin(original, wrap_async_generator(original, _opening))


def _unless_twin(original: Callable[..., Any], recorded: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def stream(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        return (original if is_twin(self) else recorded)(self, input, config, **kwargs)

    return stream


def _opening(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened:
    graph, state, config = args
    return Opened(graph, state, config, kwargs)
