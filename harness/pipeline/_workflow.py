"""``workflow``: what makes a run; and ``carry``, which takes a run into a thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Generator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from harness.pipeline._begin import StepSpec, bind, change_input
from harness.pipeline._code import code_of
from harness.pipeline._snapshot import output_snapshot, snapshot
from harness.pipeline._step import wrap_function
from harness.session import Frame, current, current_block, entered, finish_run, start_run

P = ParamSpec("P")
R = TypeVar("R")


_workflows: dict[str, Callable[..., Any]] = {}


def registered(name: str) -> Callable[..., Any] | None:
    """The workflow of that name that this process has loaded, if any."""
    return _workflows.get(name)


class Workflow:
    """The result of ``workflow(name)``: a decorator, and a context manager for a block of code."""

    def __init__(self, name: str, inputs: dict[str, Any]) -> None:
        self.name = name
        self.output: Any = None
        """Set it in a ``with`` block; it becomes the run's output."""
        self.run_id: str = ""
        """The run's id, inside and after a ``with`` block."""
        self._inputs = inputs
        self._stack = contextlib.ExitStack()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Make ``function``, plain or async, a workflow: each call is a run, or a step inside another run."""
        spec = StepSpec(name=self.name, kind="agent", signature=inspect.signature(function))
        nested = wrap_function(function, spec)
        # Taken when the code is loaded: what is on disk later may be newer than what runs here.
        code = code_of(function)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
                if current() is not None:
                    return await nested(*args, **kwargs)
                execution = _Execution(spec, args, kwargs, code)
                with execution:
                    execution.output = await function(*execution.args, **execution.kwargs)
                await asyncio.wait([asyncio.wrap_future(execution.committed)])
                execution.deliver()
                return execution.output

            _workflows[self.name] = async_wrapper
            async_wrapper.__goldfork__ = "workflow"  # type: ignore[attr-defined]  # a mark for replay
            return async_wrapper  # type: ignore[return-value]  # a coroutine function, as R is awaitable

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if current() is not None:
                return nested(*args, **kwargs)
            execution = _Execution(spec, args, kwargs, code)
            with execution:
                execution.output = function(*execution.args, **execution.kwargs)
            execution.deliver()
            return execution.output

        _workflows[self.name] = wrapper
        wrapper.__goldfork__ = "workflow"  # type: ignore[attr-defined]  # as above
        return wrapper

    def __enter__(self) -> Self:
        """Open the run."""
        taken = snapshot(self._inputs)
        frame = start_run(
            self.name,
            input_hash=taken.hash if taken else None,
            blobs={taken.hash: taken.data} if taken else None,
        )
        self.run_id = frame.run.id
        self._stack.enter_context(_closed(frame, lambda: self.output))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the run and wait until it is committed."""
        self._stack.__exit__(kind, error, trace)


def workflow(name: str, **inputs: Any) -> Workflow:
    """Declare a workflow: every call of the decorated function is one run.

    ::

        @harness.workflow("triage")
        def triage(ticket: str) -> dict: ...

        with harness.workflow("triage", ticket=ticket) as run:
            run.output = ...

    Args:
        name: Name of the workflow; recordings are found by it.
        **inputs: What a block depends on, by name.
    """
    return Workflow(name, inputs)


class _Execution:
    """One call of a workflow function as the root of a run."""

    def __init__(self, spec: StepSpec, args: tuple[Any, ...], kwargs: dict[str, Any], code: str | None) -> None:
        bound = bind(spec.signature, args, kwargs)
        block = current_block()
        change = block.plan.change if block else None
        changed = change is not None and change.kind == "input" and change.addresses("", spec.name, 0)
        if change is not None and changed:
            change_input(bound, change.name, change.value, spec.name)
        taken = snapshot(bound.arguments)
        self.args, self.kwargs = bound.args, bound.kwargs
        self.output: Any = None
        self.frame = start_run(
            spec.name,
            input_hash=taken.hash if taken else None,
            blobs={taken.hash: taken.data} if taken else None,
            code_version=code,
        )
        self.frame.run.applied = changed
        self.committed: Future[None] = Future()
        self._entered = entered(self.frame)

    def __enter__(self) -> Self:
        self._entered.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)
        self.committed = _finish(self.frame, self.output, error)
        if error is not None:
            self.committed.exception()

    def deliver(self) -> None:
        """Wait until the run is committed before its output is handed on."""
        self.frame.run.deliver(self.committed, reply=self.output)


def _finish(frame: Frame, output: Any, error: BaseException | None) -> Future[None]:
    if error is not None:
        return finish_run(frame, error=error)
    taken = output_snapshot(output, frame.run)
    return finish_run(
        frame,
        output_hash=taken.hash if taken else None,
        blobs={taken.hash: taken.data} if taken else None,
    )


@contextlib.contextmanager
def _closed(frame: Frame, output: Callable[[], Any]) -> Generator[None, None, None]:
    try:
        with entered(frame):
            yield
    except BaseException as error:
        _finish(frame, None, error).exception()
        raise
    frame.run.deliver(_finish(frame, output(), None), reply=output())


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Take the current run and step into a thread that does not inherit them.

    Tasks, generators and ``asyncio.to_thread`` follow by themselves; a bare thread or a pool does not::

        pool.submit(harness.carry(work), item)
    """
    context = contextvars.copy_context()

    @functools.wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        # A context can be entered by one thread at a time; a copy lets a pool run many.
        return context.copy().run(function, *args, **kwargs)

    return carried
