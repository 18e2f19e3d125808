"""``step``: a unit of work, as a decorator or a context manager."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, overload

from harness.errors import UsageError
from harness.pipeline._begin import Begun, StepSpec, begin, end, fail, signature_of, skip
from harness.pipeline._generator import Flow, wrap_async_generator, wrap_generator
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

    Raises:
        UsageError: ``ignore`` is no tuple of the function's parameters.
    """
    if isinstance(function, str):
        return _step_block(function, kind, inputs)

    def decorate(target: Callable[..., Any]) -> Callable[..., Any]:
        signature = signature_of(target, "step")
        _require_parameters(target, ignore, signature)
        spec = StepSpec(
            name=name or target.__name__,
            kind=kind,
            signature=signature,
            function=target,
            ignore=ignore,
        )
        return wrap_function(target, spec)

    return decorate if function is None else decorate(function)


def _require_parameters(target: Callable[..., Any], ignore: Any, signature: inspect.Signature) -> None:
    name = target.__qualname__
    if isinstance(ignore, str):
        raise UsageError(f"step {name!r} says ignore={ignore!r}; write ignore=({ignore!r},)")
    unknown = [each for each in ignore if each not in signature.parameters]
    if unknown:
        known = ", ".join(signature.parameters) or "none"
        raise UsageError(f"step {name!r} ignores {unknown[0]!r}, which it does not take; its parameters: {known}")


def wrap_function(target: Callable[..., Any], spec: StepSpec) -> Callable[..., Any]:
    """Wrap a function of any flavour as the step that ``spec`` describes."""
    if inspect.isasyncgenfunction(target):
        wrapper = wrap_async_generator(target, lambda args, kwargs: OpenedStep(begin(spec, args, kwargs)))
    elif inspect.iscoroutinefunction(target):
        wrapper = _wrap_async(target, spec)
    elif inspect.isgeneratorfunction(target):
        wrapper = wrap_generator(target, lambda args, kwargs: OpenedStep(begin(spec, args, kwargs)))
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


class OpenedStep:
    """A generator's step; its output is the list of what it yielded."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self.frame = begun.frame
        self.args = begun.arguments.args
        self.kwargs = begun.arguments.kwargs

    def given(self) -> tuple[Any] | None:
        """The recorded or dictated items, when the body is not run."""
        return (skip(self._begun),) if self._begun.skipped else None

    def close(self, flow: Flow, error: BaseException | None = None) -> None:
        """Record that the generator ended, was left, or failed."""
        if error is None:
            end(self._begun, flow.output, reusable=flow.reusable)
        else:
            fail(self._begun, error)

    def deliver(self) -> None:
        """A step's record may follow later."""

    async def deliver_async(self) -> None:
        """A step's record may follow later."""


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
