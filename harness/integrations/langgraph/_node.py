"""A node of a graph as a step, or as a tool where its metadata says so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.pregel import Pregel

from harness.integrations.langgraph._declared import Declaration, declaration_of
from harness.integrations.langgraph._given import Given
from harness.integrations.langgraph._seam import cache_name, read_besides, runtime_of
from harness.integrations.langgraph._surroundings import surroundings_of, written_function
from harness.integrations.langgraph._visit import Invocation, Visit, visited, visiting
from harness.pipeline import tool
from harness.pipeline.adapter import Begun, StepSpec, begin, end, fail, skip, source_version
from harness.session import branch, entered

Twin = Callable[[Any, Any, Visit], Runnable[Any, Any]]
"""Makes a subgraph, called with a configuration inside a visit, one whose nodes are recorded."""


class RecordedNode(Runnable[Any, Any]):
    """Stands in a graph for what a node runs; what the node writes and where it leads is left to LangGraph."""

    def __init__(self, name: str, node: Any, invocation: Invocation, twin: Twin) -> None:
        self.name = name
        self._bound = node.bound
        self._stays = node.is_error_handler
        self._metadata = node.metadata
        self._declared = declaration_of(name, node.metadata)
        self._invocation = invocation
        self._twin = twin
        module, qualname = cache_name(node)
        if module:
            self.__module__, self.__qualname__ = module, qualname

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - Runnable's
        """Run the body, or take its output from the recording."""
        config = config or {}
        given = Given(input, read_besides(config, self._metadata))
        with self._placed(config):
            if self._declared is not None:
                return self._as_tool(
                    self._declared, given.without_thread(), lambda state: self._run(state, config, kwargs)
                )
            begun = self._begin(given, config)
            if begun.skipped:
                return skip(begun)
            with _recorded(begun, self._visit()) as visit:
                state = given.state(begun.arguments.arguments)
                output = self._inner(config, visit).invoke(state, config, **kwargs)
            end(begun, output, reusable=visit.reusable and not given.replaced())
            return output

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """As ``invoke``."""
        config = config or {}
        given = Given(input, read_besides(config, self._metadata))
        with self._placed(config):
            if self._declared is not None:
                return await self._as_async_tool(self._declared, given.without_thread(), config, kwargs)
            begun = self._begin(given, config)
            if begun.skipped:
                return skip(begun)
            with _recorded(begun, self._visit()) as visit:
                state = given.state(begun.arguments.arguments)
                output = await self._inner(config, visit).ainvoke(state, config, **kwargs)
            end(begun, output, reusable=visit.reusable and not given.replaced())
            return output

    def _begin(self, given: Given, config: RunnableConfig) -> Begun:
        spec = StepSpec(
            name=str(self.name),
            kind="agent",
            signature=given.signature,
            function=self._surroundings(given, config),
        )
        return begin(spec, (), given.inputs)

    def _surroundings(self, given: Given, config: RunnableConfig) -> Callable[..., Any] | None:
        store = getattr(runtime_of(config), "store", None)
        if store is not None or self._stays or self._invocation.watched:
            # It reads what its inputs do not show, or its stream is read: it is never skipped.
            return None
        return surroundings_of(self._bound, given.state(given.inputs), self._metadata)

    def _visit(self) -> Visit:
        outer = visiting()
        declared = self._declared is not None or (outer is not None and outer.declared)
        return Visit(self._invocation.watched, outer, declared)

    def _inner(self, config: RunnableConfig, visit: Visit) -> Runnable[Any, Any]:
        bound: Runnable[Any, Any] = self._bound
        return self._twin(bound, config, visit) if isinstance(bound, Pregel) else bound

    @contextlib.contextmanager
    def _placed(self, config: RunnableConfig) -> Iterator[None]:
        label = self._invocation.label(config)
        with branch(label) if label is not None else contextlib.nullcontext():
            yield

    def _run(self, state: Any, config: RunnableConfig, kwargs: dict[str, Any]) -> Any:
        with visited(self._visit()) as visit:
            return self._inner(config, visit).invoke(state, config, **kwargs)

    def _as_tool(self, declared: Declaration, given: Given, run: Callable[[Any], Any]) -> Any:
        def body(**inputs: Any) -> Any:
            return run(given.state(inputs))

        return self._tool(declared, given)(body)(**given.inputs)

    async def _as_async_tool(
        self, declared: Declaration, given: Given, config: RunnableConfig, kwargs: dict[str, Any]
    ) -> Any:
        async def body(**inputs: Any) -> Any:
            with visited(self._visit()) as visit:
                return await self._inner(config, visit).ainvoke(given.state(inputs), config, **kwargs)

        return await self._tool(declared, given)(body)(**given.inputs)

    def _tool(self, declared: Declaration, given: Given) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that makes a body this node's tool."""
        written = written_function(self._bound)
        decorate = tool(
            name=self.name,
            determinism=declared.determinism,
            ttl=declared.ttl,
            version=declared.version or (source_version(written) if written is not None else "1"),
            **declared.options,
        )

        def named(body: Any) -> Callable[..., Any]:
            body.__signature__ = given.signature
            return decorate(body)

        return named


@contextlib.contextmanager
def _recorded(begun: Begun, visit: Visit) -> Iterator[Visit]:
    try:
        with entered(begun.frame), visited(visit):
            yield visit
    except GraphBubbleUp as error:
        fail(begun, Left(error))
        raise
    except BaseException as error:
        fail(begun, error)
        raise


class Left(Exception):
    """How a step ended whose node asks a person, or hands on to the graph around it.

    The text is the same every time: LangGraph's own has ids in it that are made of the time.
    """

    def __init__(self, error: GraphBubbleUp) -> None:
        pauses = error.args[0] if isinstance(error, GraphInterrupt) and error.args else ()
        asked = ", ".join(repr(pause.value) for pause in pauses)
        super().__init__(f"waits for an answer to {asked}" if asked else type(error).__name__)
