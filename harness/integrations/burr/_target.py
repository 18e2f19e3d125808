"""``target``: a function that builds a Burr application, as a pipeline that can be replayed, forked and evaluated."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from burr.core.application import Application

from harness.errors import TargetError
from harness.integrations.burr._application import RECORDED_CALL, restored
from harness.integrations.burr._install import install
from harness.integrations.burr._reads import public
from harness.pipeline import workflow
from harness.replay import load_target

_METHODS = frozenset(
    {"run", "arun", "iterate", "aiterate", "step", "astep", "stream_result", "astream_result", "stream_iterate",
     "astream_iterate"}
)  # fmt: skip
_ANY_INPUT = inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_KEYWORD)])


def target(
    build: Callable[..., Any] | str,
    *,
    name: str | None = None,
    halt_after: Sequence[str] = (),
    halt_before: Sequence[str] = (),
    stand_ins: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """A workflow that builds an application and runs it to its end.

    What it is called with goes to the builder's parameters of that name, and the rest to the application as inputs. A
    run that was recorded under ``install()`` is repeated as it was: same method, state and position. The output is the
    application's state at the end.

    Args:
        build: The builder, or ``package.module:function``. It returns a built application, or what it made of one.
        name: Name of the workflow; the builder's own by default.
        halt_after: Where to stop; by default where no transition leads on.
        halt_before: As in Burr.
        stand_ins: As in ``install``.

    Raises:
        TargetError: The builder cannot be imported.
    """
    function = load_target(build) if isinstance(build, str) else build
    parameters = inspect.signature(function).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())

    @functools.wraps(function)
    def drive(**inputs: Any) -> Any:
        recorded = inputs.keys() == {RECORDED_CALL}
        given = {} if recorded else {key: value for key, value in inputs.items() if takes_any or key in parameters}
        with install(workflow=name, stand_ins=stand_ins):
            made = function(**given)
            if inspect.isawaitable(made):
                made = _in_a_loop(_awaited(made))
            if not isinstance(made, Application):
                return made
            if recorded:
                return _repeat(made, inputs[RECORDED_CALL])
            rest = {key: value for key, value in inputs.items() if key not in given}
            method = "arun" if _is_async(made) else "run"
            stops = {"halt_after": list(halt_after) or _last(made), "halt_before": list(halt_before)}
            return _call(made, method, {**stops, "inputs": rest})

    drive.__signature__ = _ANY_INPUT  # type: ignore[attr-defined]  # the builder's own says nothing of run inputs
    return workflow(name or function.__name__)(drive)


def _last(app: Application[Any]) -> list[str]:
    """Actions that no transition leads on from."""
    left = {transition.from_.name for transition in app.graph.transitions}
    return [action.name for action in app.graph.actions if action.name not in left]


def _is_async(app: Application[Any]) -> bool:
    built = app.builder is not None and app.builder.is_async
    return built or any(action.is_async() for action in app.graph.actions)


def _repeat(app: Application[Any], call: Mapping[str, Any]) -> Any:
    method = call.get("method")
    if method not in _METHODS:
        raise TargetError(f"the recorded input names no way to run a Burr application: {method!r}")
    arguments = {key: call[key] for key in ("halt_after", "halt_before", "inputs") if key in call}
    return _call(restored(app, call), method, arguments)


def _call(app: Application[Any], method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    made = getattr(app, method)(**arguments)
    if method.startswith("a"):
        _in_a_loop(_read_async(made))
    else:
        _read(made)
    return public(app.state)


def _read(made: Any) -> None:
    """Have everything done that a call promises."""
    if inspect.isgenerator(made):
        for item in made:
            _read(item)
    elif isinstance(made, tuple) and len(made) == 2 and hasattr(made[1], "streaming_result_generator"):
        made[1].get()


async def _read_async(made: Any) -> None:
    if inspect.isasyncgen(made):
        async for item in made:
            await _read_async(item)
        return
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, tuple) and len(made) == 2 and hasattr(made[1], "streaming_result_generator"):
        await made[1].get()


def _in_a_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end in a loop of its own, in another thread where this one is inside a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, asyncio.run, work).result()


async def _awaited(made: Any) -> Any:
    return await made
