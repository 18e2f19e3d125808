"""Calls of a Burr application as runs, and the places of its actions in them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from burr.core.application import PRIOR_STEP, SEQUENCE_ID, Application
from burr.core.state import State

from harness.integrations.burr._declared import ANY_NAMES, module_of
from harness.integrations.burr._execution import placed
from harness.integrations.burr._reads import public
from harness.pipeline import code_of
from harness.pipeline.adapter import Execution, StepSpec, wrap_async_generator, wrap_generator
from harness.session import entered

RECORDED_CALL = "burr"
"""Name of a run's input that holds a whole call: method, arguments, state and position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How one ``install()`` names runs."""

    workflow: str | None
    stand_ins: Mapping[str, Any]


class ApplicationRun(Execution):
    """One call of an application outside any run; its output is the application's state at the end."""

    def __init__(self, app: Application[Any], method: str, arguments: Mapping[str, Any], recorded: Recorded) -> None:
        call = {
            "method": method,
            **{name: value for name, value in arguments.items() if value is not None},
            "state": public(app.state),
            "position": app.state.get(PRIOR_STEP),
            "sequence_id": app.sequence_id,
        }
        spec = StepSpec(name=recorded.workflow or workflow_of(app), kind="agent", signature=ANY_NAMES)
        entry = app.graph.entrypoint
        super().__init__(spec, (), {RECORDED_CALL: call}, code_of(module_of(entry)))
        run = self.frame.run
        user = {"user_id": app.partition_key} if app.partition_key else {}
        run.record = replace(run.record, metadata={**run.record.metadata, "session_id": app.uid, **user})
        self._app = app

    def finish(self, error: BaseException | None) -> None:
        """Close the run with the state that the application has now."""
        self.output = public(self._app.state)
        super().finish(error)


def workflow_of(app: Application[Any]) -> str:
    """The name of an application's runs: its tracker's project, else its entry action."""
    project = getattr(app.builder and app.builder.tracker, "project_id", None)
    return str(project or f"burr:{app.entrypoint}")


def calls(original: Callable[..., Any], method: str, recorded: Recorded) -> Callable[..., Any]:
    """A method of ``Application`` as a run, for calls outside any run."""
    signature = inspect.signature(original)

    def opened(app: Application[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ApplicationRun:
        arguments = dict(signature.bind(app, *args, **kwargs).arguments)
        arguments.pop("self")
        return ApplicationRun(app, method, arguments, recorded)

    @functools.wraps(original)
    def plain(app: Application[Any], *args: Any, **kwargs: Any) -> Any:
        with opened(app, args, kwargs):
            return original(app, *args, **kwargs)

    @functools.wraps(original)
    async def parallel(app: Application[Any], *args: Any, **kwargs: Any) -> Any:
        async with opened(app, args, kwargs):
            return await original(app, *args, **kwargs)

    @functools.wraps(original)
    def items(app: Application[Any], *args: Any, **kwargs: Any) -> Any:
        wrap = wrap_async_generator if method.startswith("a") else wrap_generator
        # The run takes its own view of the arguments; the method gets them as they were.
        return wrap(lambda **_: original(app, *args, **kwargs), lambda _, __: opened(app, args, kwargs))()

    if method.endswith("iterate"):
        return items
    return parallel if method.startswith("a") else plain


def stream_calls(original: Callable[..., Any], method: str, recorded: Recorded) -> Callable[..., Any]:
    """``stream_result`` as a run, which lasts until the stream has been read."""
    signature = inspect.signature(original)

    def opened(app: Application[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ApplicationRun:
        arguments = dict(signature.bind(app, *args, **kwargs).arguments)
        arguments.pop("self")
        return ApplicationRun(app, method, arguments, recorded)

    @functools.wraps(original)
    def plain(app: Application[Any], *args: Any, **kwargs: Any) -> Any:
        run = opened(app, args, kwargs)
        with contextlib.ExitStack() as failed:
            failed.push(run)
            with entered(run.frame):
                action, container = original(app, *args, **kwargs)
            if _streams(container):
                container._callback = _ending(container._callback, run)  # noqa: SLF001 - Burr tells nobody else
                failed.pop_all()
        return action, container

    @functools.wraps(original)
    async def parallel(app: Application[Any], *args: Any, **kwargs: Any) -> Any:
        run = opened(app, args, kwargs)
        async with contextlib.AsyncExitStack() as failed:
            failed.push_async_exit(run)
            with entered(run.frame):
                action, container = await original(app, *args, **kwargs)
            if _streams(container):
                container._callback = _ending_async(container._callback, run)  # noqa: SLF001 - as above
                failed.pop_all()
        return action, container

    return parallel if method.startswith("a") else plain


def _streams(container: Any) -> bool:
    """Whether a stream is still to come, rather than a result that is there already."""
    return "pass_through" not in container.streaming_result_generator.__qualname__


def _ending(callback: Callable[..., Any], run: ApplicationRun) -> Callable[..., Any]:
    def called(result: Any, state: Any, exc: BaseException | None = None) -> Any:
        try:
            with entered(run.frame):
                return callback(result, state, exc)
        finally:
            run.finish(exc)
            run.deliver()

    return called


def _ending_async(callback: Callable[..., Any], run: ApplicationRun) -> Callable[..., Any]:
    async def called(result: Any, state: Any, exc: BaseException | None = None) -> Any:
        try:
            with entered(run.frame):
                return await callback(result, state, exc)
        finally:
            run.finish(exc)
            await run.deliver_async()

    return called


def steps(original: Callable[..., Any]) -> Callable[..., Any]:
    """``_step`` and ``_astep``: where the actions of an application that runs inside an action belong."""

    @functools.wraps(original)
    def plain(app: Application[Any], *args: Any, **kwargs: Any) -> Any:
        frame = placed(app.uid)
        with contextlib.nullcontext() if frame is None else entered(frame):
            return original(app, *args, **kwargs)

    @functools.wraps(original)
    async def parallel(app: Application[Any], *args: Any, **kwargs: Any) -> Any:
        frame = placed(app.uid)
        with contextlib.nullcontext() if frame is None else entered(frame):
            return await original(app, *args, **kwargs)

    return parallel if inspect.iscoroutinefunction(original) else plain


def restored(app: Application[Any], call: Mapping[str, Any]) -> Application[Any]:
    """An application with the state and position that a recorded call found it in."""
    own = {PRIOR_STEP: call.get("position"), SEQUENCE_ID: call.get("sequence_id")}
    values = {**call.get("state", {}), **{name: value for name, value in own.items() if value is not None}}
    app.update_state(State(values, app.state.typing_system))
    return app
