"""``workflow``: what makes a run; and ``carry``, which takes a run into a thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import Future
from types import FunctionType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

from harness.pipeline._begin import StepSpec, begin, bind, change_input
from harness.pipeline._code import code_of
from harness.pipeline._generator import Flow, Opened, wrap_async_generator, wrap_generator
from harness.pipeline._snapshot import output_snapshot, snapshot_arguments
from harness.pipeline._step import OpenedStep, wrap_function
from harness.session import Frame, current, current_block, entered, finish_run, start_run

P = ParamSpec("P")
R = TypeVar("R")


_workflows: dict[str, Callable[..., Any]] = {}
_namesakes: dict[str, str] = {}
"""For the names that stand for several workflows, what is said to whoever asks for one of them."""
_loaded: WeakKeyDictionary[Callable[..., Any], str | None] = WeakKeyDictionary()


def registered(name: str) -> Callable[..., Any] | None:
    """The workflow of that name that this process has loaded, if any; of several, the last one, with a warning."""
    if name in _namesakes:
        warnings.warn(_namesakes[name], RuntimeWarning, stacklevel=2)
    return _workflows.get(name)


def loaded_code(target: Callable[..., Any]) -> str | None:
    """The version of the code that is loaded: of a workflow, as it was when it was defined; else what is on disk."""
    found = inspect.unwrap(target, stop=lambda one: isinstance(one, FunctionType) and one in _loaded)
    return (_loaded.get(found) if isinstance(found, FunctionType) else None) or code_of(inspect.unwrap(found))


def _register(name: str, wrapper: Callable[..., Any]) -> None:
    """Make a workflow the one of its name; that there is another one is kept in mind."""
    known = _workflows.get(name)
    _namesakes.pop(name, None)
    # What a function makes, or a lambda, has a place of its own each time.
    made = known is None or any("<" in one.__qualname__ for one in (known, wrapper))
    if known is not None and not made and known.__module__ in sys.modules:
        # Loaded anew, or run in a notebook's cell again, it has the same place.
        places = [(_file(one), one.__qualname__) for one in (known, wrapper)]
        if places[0] != places[1] and _place(known) != _place(wrapper):
            _namesakes[name] = (
                f"workflow {name!r} is defined at {_place(known)} and at {_place(wrapper)}; the later one is taken. "
                "Give one of them another name, or pass target="
            )
    _workflows[name] = wrapper


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _file(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return getattr(code, "co_filename", "")


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
        """Make ``function``, of any flavour, a workflow: each call is a run, or a step inside another run.

        The run of a generator lasts from its first item to its last; its output is the list of items.
        """
        spec = StepSpec(name=self.name, kind="agent", signature=inspect.signature(function), function=function)
        nested = wrap_function(function, spec)
        # Taken when the code is loaded: what is on disk later may be newer than what runs here.
        code = code_of(function)
        wrapper = _wrap(function, spec, nested, code)
        _register(self.name, wrapper)
        wrapper.__goldfork__ = "workflow"  # type: ignore[attr-defined]  # a mark for replay
        _loaded[wrapper] = code
        return wrapper

    def __enter__(self) -> Self:
        """Open the run."""
        taken = snapshot_arguments(self._inputs)
        frame = start_run(
            self.name,
            input_hash=taken.hash if taken else None,
            input_order=taken.order_hash if taken else None,
            blobs=taken.blobs if taken else None,
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


def _wrap(
    function: Callable[..., Any], spec: StepSpec, nested: Callable[..., Any], code: str | None
) -> Callable[..., Any]:
    def opening(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened:
        if current() is not None:
            return OpenedStep(begin(spec, args, kwargs))
        return Execution(spec, args, kwargs, code)

    async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            return await nested(*args, **kwargs)
        execution = Execution(spec, args, kwargs, code)
        async with execution:
            execution.output = await function(*execution.args, **execution.kwargs)
        return execution.output

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            return nested(*args, **kwargs)
        execution = Execution(spec, args, kwargs, code)
        with execution:
            execution.output = function(*execution.args, **execution.kwargs)
        return execution.output

    if inspect.isasyncgenfunction(function):
        chosen = wrap_async_generator(function, opening)
    elif inspect.isgeneratorfunction(function):
        chosen = wrap_generator(function, opening)
    else:
        chosen = async_wrapper if inspect.iscoroutinefunction(function) else wrapper
    return functools.wraps(function)(chosen)


class Execution:
    """One call of a workflow function as the root of a run; leaving it waits until the run is committed."""

    def __init__(self, spec: StepSpec, args: tuple[Any, ...], kwargs: dict[str, Any], code: str | None) -> None:
        bound = bind(spec.signature, args, kwargs)
        block = current_block()
        changes = [
            change
            for change in (block.plan.changes if block else ())
            if change.kind == "input" and change.addresses("", spec.name, 0)
        ]
        for change in changes:
            change_input(bound, change.name, change.value, spec.name)
        taken = snapshot_arguments(bound.arguments)
        self.args, self.kwargs = bound.args, bound.kwargs
        self.output: Any = None
        self.frame = start_run(
            spec.name,
            input_hash=taken.hash if taken else None,
            input_order=taken.order_hash if taken else None,
            blobs=taken.blobs if taken else None,
            code_version=code,
        )
        for change in changes:
            self.frame.run.apply(change)
        self._committed: Future[None] = Future()
        self._failed = False
        self._entered = entered(self.frame)

    def __enter__(self) -> Self:
        self._entered.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)
        self.finish(error)
        self.deliver()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)
        self.finish(error)
        await self.deliver_async()

    def given(self) -> None:
        """A run's body is never skipped."""

    def close(self, flow: Flow, error: BaseException | None = None) -> None:
        """Finish the run of a generator."""
        self.output = flow.output
        self.finish(error)

    def deliver(self) -> None:
        """Wait until the run is committed before its output, or what it raised, is handed on."""
        if self._failed:
            # The error of the application goes first; the store's own was warned of when it happened.
            self._committed.exception()
        else:
            self.frame.run.deliver(self._committed, reply=self.output)

    async def deliver_async(self) -> None:
        """As ``deliver``, without blocking the event loop."""
        if not self._committed.done():
            commit = asyncio.wrap_future(self._committed)
            # Unlike awaiting it, this leaves the commit alone when the task is cancelled.
            await asyncio.wait([commit])
            commit.exception()
        self.deliver()

    def finish(self, error: BaseException | None) -> None:
        """Close the run; ``deliver`` waits until that is committed."""
        self._failed = error is not None
        self._committed = _finish(self.frame, self.output, error)


def _finish(frame: Frame, output: Any, error: BaseException | None) -> Future[None]:
    if error is not None:
        return finish_run(frame, error=error)
    taken = output_snapshot(output, frame.run, ordered=False)
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
