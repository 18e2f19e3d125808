"""Generator functions as steps and workflows: what they yield is the output, what the consumer sends is passed on."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.errors import ChangeError
from harness.pipeline._snapshot import fixed, snapshot
from harness.session import Frame, entered


@dataclass(slots=True)
class Flow:
    """What went through a generator."""

    items: list[Any] = field(default_factory=list)
    """What it yielded, in order."""
    returned: Any = None
    answered: bool = False
    """The consumer sent a value or threw an error in, so the items do not follow from the arguments alone."""
    _given: list[tuple[str, str | None] | None] = field(default_factory=list)
    """Hashes of the items when they were given; ``None`` for one that cannot be changed."""

    def give(self, item: Any) -> Any:
        """Note an item that is about to be given."""
        self.items.append(item)
        self._given.append(_hashes(item))
        return item

    @property
    def output(self) -> Any:
        """What is recorded: the items, with the value of ``return`` beside them where there is one."""
        if self.returned is None or snapshot(self.returned) is None:
            return self.items
        return {"items": self.items, "returned": self.returned}

    @property
    def reusable(self) -> bool:
        """Whether giving the items again does all that the body did."""
        return not self.answered and self.returned is None and self._given == list(map(_hashes, self.items))


def _hashes(item: Any) -> tuple[str, str | None] | None:
    if fixed(item):
        return None
    taken = snapshot(item)
    return None if taken is None else (taken.hash, taken.order_hash)


class Opened(Protocol):
    """A generator's step or run, from its first item to its last."""

    @property
    def frame(self) -> Frame:
        """Where the body runs; left while the consumer holds an item."""
        ...

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments of the body."""
        ...

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments of the body."""
        ...

    def given(self) -> tuple[Any] | None:
        """The output, when the body is not to be run."""
        ...

    def close(self, flow: Flow, error: BaseException | None = None) -> None:
        """Record the end."""
        ...

    def deliver(self) -> None:
        """Wait until the end is stored."""
        ...

    async def deliver_async(self) -> None:
        """Wait until the end is stored, without blocking the event loop."""
        ...


Opening = Callable[[tuple[Any, ...], dict[str, Any]], Opened]


def wrap_generator(target: Callable[..., Any], opening: Opening) -> Callable[..., Any]:
    """Run each generator that ``target`` makes in what ``opening`` opens at its first item."""

    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        opened = opening(args, kwargs)
        given = opened.given()
        if given is not None:
            items, returned = _given(given[0], opened)
            yield from items
            return returned
        flow = Flow()
        try:
            body = target(*opened.args, **opened.kwargs)
            flow.returned = yield from _driven(opened.frame, body, flow)
        except BaseException as error:
            opened.close(flow, error)
            opened.deliver()
            raise
        opened.close(flow)
        opened.deliver()
        return flow.returned

    return wrapper


def _driven(frame: Frame, body: Generator[Any, Any, Any], flow: Flow) -> Generator[Any, Any, Any]:
    resume: Callable[[], Any] = functools.partial(next, body)
    while True:
        try:
            with entered(frame):
                item = resume()
        except StopIteration as stop:
            return stop.value
        try:
            sent = yield flow.give(item)
        except GeneratorExit:
            with entered(frame):
                body.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the body decides what a thrown error means
            flow.answered = True
            resume = functools.partial(body.throw, error)
        else:
            flow.answered = flow.answered or sent is not None
            resume = functools.partial(body.send, sent)


def wrap_async_generator(target: Callable[..., Any], opening: Opening) -> Callable[..., Any]:
    """As ``wrap_generator``, for async generator functions."""

    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        opened = opening(args, kwargs)
        given = opened.given()
        if given is not None:
            for item in _given(given[0], opened)[0]:
                yield item
            return
        flow = Flow()
        # An async generator has no ``yield from``, so the loop of ``_driven`` stands here once more.
        try:
            body = target(*opened.args, **opened.kwargs)
            resume: Callable[[], Any] = body.__anext__
            while True:
                try:
                    with entered(opened.frame):
                        item = await resume()
                except StopAsyncIteration:
                    break
                try:
                    sent = yield flow.give(item)
                except GeneratorExit:
                    with entered(opened.frame):
                        await body.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - as above
                    flow.answered = True
                    resume = functools.partial(body.athrow, error)
                else:
                    flow.answered = flow.answered or sent is not None
                    resume = functools.partial(body.asend, sent)
        except BaseException as error:
            opened.close(flow, error)
            await opened.deliver_async()
            raise
        opened.close(flow)
        await opened.deliver_async()

    return wrapper


def _given(output: Any, opened: Opened) -> tuple[Iterable[Any], Any]:
    """Items and return value of an output that is given instead of running the body."""
    returned = None
    if isinstance(output, Mapping) and output.keys() == {"items", "returned"}:
        output, returned = output["items"], output["returned"]
    if not isinstance(output, list | tuple):
        name = opened.frame.step.record.address
        raise ChangeError(f"step {name!r} is a generator; its output must be the list of what it is to yield")
    return output, returned
