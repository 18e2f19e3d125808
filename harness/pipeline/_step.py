"""``step``: a unit of work, as a decorator or a context manager."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, overload

from harness.pipeline._begin import Begun, StepSpec, begin, end, fail, skip
from harness.record import StepKind
from harness.session import entered

P = ParamSpec("P")
R = TypeVar("R")

_INPUTS = inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_KEYWORD)])


class StepBlock:
    """A step written as a ``with`` block; set ``output`` before it ends."""

    def __init__(self) -> None:
        self.output: Any = None


@overload
def step(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def step(
    function: None = None, /, *, name: str | None = None, kind: StepKind = "agent", ignore: tuple[str, ...] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


@overload
def step(function: str, /, *, kind: StepKind = "agent", **inputs: Any) -> AbstractContextManager[StepBlock]: ...


def step(
    function: Callable[..., Any] | str | None = None,
    /,
    *,
    name: str | None = None,
    kind: StepKind = "agent",
    ignore: tuple[str, ...] = (),
    **inputs: Any,
) -> Any:
    """Record a function, or a block of code, as a step: inputs and output are snapshot, calls attributed to it.

    Works on plain, async, generator and async generator functions, and on methods::

        @harness.step(ignore=("now",))
        def draft(ticket: str, now: datetime) -> str: ...

        with harness.step("draft", ticket=ticket) as block:  # the body always runs, its calls are answered
            block.output = ...

    Args:
        function: The function, when the decorator is used bare; the step's name for a block.
        name: Name of the step; the function's own by default.
        kind: ``agent`` for work around model calls, ``job`` for plain code.
        ignore: Parameters that do not count as input (a timestamp, a run id).
        **inputs: What a block depends on, by name.
    """
    if isinstance(function, str):
        return _step_block(function, kind, inputs)

    def decorate(target: Callable[..., Any]) -> Callable[..., Any]:
        spec = StepSpec(name=name or target.__name__, kind=kind, signature=inspect.signature(target), ignore=ignore)
        return wrap_function(target, spec)

    return decorate if function is None else decorate(function)


def wrap_function(target: Callable[..., Any], spec: StepSpec) -> Callable[..., Any]:
    """Wrap a function of any flavour as the step that ``spec`` describes."""
    if inspect.isasyncgenfunction(target):
        wrapper = _wrap_async_generator(target, spec)
    elif inspect.iscoroutinefunction(target):
        wrapper = _wrap_async(target, spec)
    elif inspect.isgeneratorfunction(target):
        wrapper = _wrap_generator(target, spec)
    else:
        wrapper = _wrap_sync(target, spec)
    return functools.wraps(target)(wrapper)


def _wrap_sync(target: Callable[..., Any], spec: StepSpec) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        begun = begin(spec, args, kwargs)
        if begun.skipped:
            return skip(begun)
        with _recorded(begun), entered(begun.frame):
            output = target(*begun.arguments.args, **begun.arguments.kwargs)
        end(begun, output)
        return output

    return wrapper


def _wrap_async(target: Callable[..., Any], spec: StepSpec) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        begun = begin(spec, args, kwargs)
        if begun.skipped:
            return skip(begun)
        with _recorded(begun), entered(begun.frame):
            output = await target(*begun.arguments.args, **begun.arguments.kwargs)
        end(begun, output)
        return output

    return wrapper


def _wrap_generator(target: Callable[..., Any], spec: StepSpec) -> Callable[..., Any]:
    """The step's output is the list of what it yielded; the frame is current only while the body runs."""

    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, None]:
        begun = begin(spec, args, kwargs)
        if begun.skipped:
            yield from skip(begun)
            return
        items: list[Any] = []
        body = target(*begun.arguments.args, **begun.arguments.kwargs)
        with _recorded(begun), contextlib.closing(body):
            sent: Any = None
            while True:
                try:
                    with entered(begun.frame):
                        item = body.send(sent)
                except StopIteration:
                    break
                items.append(item)
                sent = yield item
        end(begun, items)

    return wrapper


def _wrap_async_generator(target: Callable[..., Any], spec: StepSpec) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        begun = begin(spec, args, kwargs)
        if begun.skipped:
            for item in skip(begun):
                yield item
            return
        items: list[Any] = []
        body = target(*begun.arguments.args, **begun.arguments.kwargs)
        async with contextlib.aclosing(body):
            with _recorded(begun):
                while True:
                    try:
                        with entered(begun.frame):
                            item = await anext(body)
                    except StopAsyncIteration:
                        break
                    items.append(item)
                    yield item
        end(begun, items)

    return wrapper


@contextlib.contextmanager
def _recorded(begun: Begun) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        fail(begun, error)
        raise


@contextlib.contextmanager
def _step_block(name: str, kind: StepKind, inputs: dict[str, Any]) -> Iterator[StepBlock]:
    spec = StepSpec(name=name, kind=kind, signature=_INPUTS, skippable=False)
    begun = begin(spec, (), inputs)
    block = StepBlock()
    with _recorded(begun), entered(begun.frame):
        yield block
    end(begun, block.output)
