"""An application as what ``replay_run``, ``fork_run`` and an experiment run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from langgraph.pregel import Pregel

from harness.errors import TargetError
from harness.integrations.langgraph._given import RUNTIME, WHOLE
from harness.integrations.langgraph._install import install
from harness.integrations.langgraph._seam import functions_of
from harness.integrations.langgraph._surroundings import written_function

_ANY = inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_KEYWORD)])


def target(application: Any) -> Callable[..., Any]:
    """Make a compiled graph, or a function that builds and calls one, a target.

    ::

        fork_run("3f2c…", target=target(graph), change="input:topic=tea", at="draft")

    A graph's inputs are the parts of its input state; what it was configured with comes back as ``runtime``. In a
    replay, a fork and an experiment graphs write neither threads nor stores of production: their checkpointers are in
    memory and begin empty, their stores are read through and written in memory.

    Args:
        application: A compiled graph, or a plain or async function.

    Raises:
        TargetError: It is neither.
    """
    if isinstance(application, Pregel):
        return _of_graph(application)
    if inspect.iscoroutinefunction(application):

        @functools.wraps(application)
        async def async_installed(*args: Any, **kwargs: Any) -> Any:
            with install():
                return await application(*args, **kwargs)

        return async_installed
    if not callable(application):
        raise TargetError(f"{type(application).__name__} is no target; give a compiled graph or a function")
    function: Callable[..., Any] = application

    @functools.wraps(function)
    def installed(*args: Any, **kwargs: Any) -> Any:
        with install():
            return function(*args, **kwargs)

    return installed


def _of_graph(graph: Any) -> Callable[..., Any]:
    def call(**inputs: Any) -> Any:
        state, config, context = _taken_apart(graph, inputs)
        if _is_async(graph):
            return _awaited(graph.ainvoke, state, config, context)
        with install():
            return graph.invoke(state, config, context=context)

    made: Any = call
    made.__name__ = graph.get_name()
    made.__signature__ = _ANY
    written = [written_function(node.bound) for _, node in sorted(graph.nodes.items())]
    # Whose package the code's version is taken of.
    made.__wrapped__ = next((function for function in written if function is not None), target)
    # The graph opens the run itself.
    made.__goldfork__ = "workflow"
    return call


async def _awaited(call: Callable[..., Coroutine[Any, Any, Any]], state: Any, config: Any, context: Any) -> Any:
    with install():
        return await call(state, config, context=context)


def _taken_apart(graph: Any, inputs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """State, configuration and context of recorded inputs."""
    runtime: Any = {}
    if RUNTIME not in graph.channels:
        runtime = inputs.pop(RUNTIME, {})
    whole = set(inputs) == {WHOLE} and WHOLE not in graph.channels
    state = inputs[WHOLE] if whole else inputs
    config = {name: value for name, value in runtime.items() if name != "context"}
    return state, config or None, runtime.get("context")


def _is_async(graph: Any) -> bool:
    """Whether a node can only be awaited."""
    bound = [node.bound for node in graph.nodes.values()]
    return any(functions_of(each) is not None and getattr(each, "func", None) is None for each in bound)
