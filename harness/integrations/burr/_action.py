"""A stand-in for an action while Burr runs it: the body is recorded, answered or watched."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from burr.core.action import Action
from burr.core.state import State

from harness.integrations.burr._execution import Execution
from harness.integrations.burr._state import Watched
from harness.pipeline.adapter import Flow, wrap_async_generator, wrap_generator
from harness.session import Frame

_NO_STATE = "the action gave neither a state nor a result and a state"


class Observed:
    """Looks to Burr's runners like the action; the application keeps seeing the action itself."""

    def __init__(self, action: Action, state: Any, *, stand_ins: Mapping[str, Any], frame: Frame | None = None) -> None:
        self.action = action
        self._before = state
        self._stand_ins = stand_ins
        self._frame = frame
        self._execution: Execution | None = None
        self._items: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.action, name)

    def abandon(self, error: BaseException) -> None:
        """Burr refused what the body gave."""
        if self._execution is not None:
            self._execution.abandon(error)

    def _start(self, inputs: Mapping[str, Any]) -> Execution:
        self._execution = Execution(
            self.action, self._before, inputs=inputs, stand_ins=self._stand_ins, frame=self._frame
        )
        return self._execution

    @property
    def run_and_update(self) -> Callable[..., Any]:
        """The body of an action in one step."""
        body: Any = self.action.run_and_update  # type: ignore[attr-defined]  # Burr calls it on such actions only

        @functools.wraps(body)
        def plain(state: Any, **inputs: Any) -> Any:
            del state
            execution = self._start(inputs)
            if execution.given is not None:
                return execution.given.result, execution.given.applied(self._before)
            execution.ready()
            with execution.inside():
                made = body(execution.state, **execution.inputs)
            return _finished(execution, made)

        @functools.wraps(body)
        async def parallel(state: Any, **inputs: Any) -> Any:
            del state
            execution = self._start(inputs)
            if execution.given is not None:
                return execution.given.result, execution.given.applied(self._before)
            await execution.ready_async()
            with execution.inside():
                made = await body(execution.state, **execution.inputs)
            return _finished(execution, made)

        return parallel if self.action.is_async() else plain

    @property
    def run(self) -> Callable[..., Any]:
        """The first half of an action in two steps; ``update`` ends it."""
        body: Any = self.action.run

        @functools.wraps(body)
        def plain(state: Any, **inputs: Any) -> Any:
            execution = self._start(inputs)
            if execution.given is not None:
                return execution.given.result
            execution.ready()
            with execution.inside():
                return body(state.update(**execution.changed), **execution.inputs)

        @functools.wraps(body)
        async def parallel(state: Any, **inputs: Any) -> Any:
            execution = self._start(inputs)
            if execution.given is not None:
                return execution.given.result
            await execution.ready_async()
            with execution.inside():
                return await body(state.update(**execution.changed), **execution.inputs)

        return parallel if self.action.is_async() else plain

    def update(self, result: Any, state: Any) -> Any:
        """The second half of an action in two steps."""
        execution = self._execution
        if execution is None:
            return self.action.update(result, state)
        if execution.given is not None:
            return execution.given.applied(state)
        if not execution.open:
            # Burr reduces what a stream gave before it failed.
            return self.action.update(result, state)
        with execution.inside():
            after = self.action.update(result, execution.state)
        return execution.finish(after, result, self._items)

    def stream_run_and_update(self, state: Any, **inputs: Any) -> Any:
        """The body of a streaming action in one step."""
        del state
        body: Any = self.action.stream_run_and_update  # type: ignore[attr-defined]  # as above
        opening = functools.partial(_Stream, self, inputs, whole=True)
        if self.action.is_async():
            return wrap_async_generator(functools.partial(_unwatched_async, body), lambda _, __: opening())()
        return wrap_generator(functools.partial(_unwatched, body), lambda _, __: opening())()

    def stream_run(self, state: Any, **inputs: Any) -> Any:
        """The first half of a streaming action in two steps; ``update`` ends it."""
        del state
        body: Any = self.action.stream_run  # type: ignore[attr-defined]  # as above
        opening = functools.partial(_Stream, self, inputs, whole=False)
        if self.action.is_async():
            return wrap_async_generator(body, lambda _, __: opening())()
        return wrap_generator(body, lambda _, __: opening())()


class _Stream:
    """A streaming body from its first item to its last."""

    def __init__(self, observed: Observed, inputs: Mapping[str, Any], *, whole: bool) -> None:
        self._observed = observed
        self._execution = observed._start(inputs)  # noqa: SLF001 - of this module
        self._whole = whole
        self.frame = self._execution.frame
        self.args: tuple[Any, ...] = (self._execution.state,)
        self.kwargs = dict(self._execution.inputs)
        self._watch = contextlib.ExitStack()
        if self._execution.given is None:
            self._execution.ready()
            self._watch.enter_context(self._execution.known())

    def given(self) -> tuple[Any] | None:
        """The recorded items, when the body is not run."""
        given = self._execution.given
        if given is None:
            return None
        if self._whole:
            last = (given.result, given.applied(self._observed._before))  # noqa: SLF001 - of this module
            return ([*((item, None) for item in given.items), last],)
        return ([*given.items, given.result],)

    def close(self, flow: Flow, error: BaseException | None = None) -> None:
        """Record the end; of two steps only the first is over."""
        self._watch.close()
        if error is not None:
            self._execution.abandon(error)
        elif not self._whole:
            self._observed._items = tuple(flow.items[:-1])  # noqa: SLF001 - of this module
        elif flow.items and isinstance(flow.items[-1], tuple) and isinstance(flow.items[-1][1], State):
            result, after = flow.items[-1]
            before = (item[0] if isinstance(item, tuple) else item for item in flow.items[:-1])
            self._execution.finish(after, result, tuple(before))
        else:
            self._execution.abandon(ValueError(_NO_STATE))

    def deliver(self) -> None:
        """A step's record may follow later."""

    async def deliver_async(self) -> None:
        """A step's record may follow later."""


def _finished(execution: Execution, made: Any) -> Any:
    result, after = made if isinstance(made, tuple) and len(made) == 2 else ({}, made)
    if not isinstance(after, State):
        execution.abandon(ValueError(_NO_STATE))
        return made
    plain = execution.finish(after, result)
    return (result, plain) if isinstance(made, tuple) else plain


def _bare(item: Any) -> Any:
    """An item of a stream with its state out of the watch."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Watched):
        return item[0], State(dict(item[1]._state), item[1].typing_system)  # noqa: SLF001 - past the watch
    return item


def _unwatched(body: Callable[..., Any], state: Any, **inputs: Any) -> Iterator[Any]:
    with contextlib.closing(body(state, **inputs)) as items:
        for item in items:
            yield _bare(item)


async def _unwatched_async(body: Callable[..., Any], state: Any, **inputs: Any) -> AsyncIterator[Any]:
    async with contextlib.aclosing(body(state, **inputs)) as items:
        async for item in items:
            yield _bare(item)
