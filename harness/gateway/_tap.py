"""The tap: what a transport of httpx2 or httpx does with a request. Neither library is imported here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from harness.gateway._call import deliver, deliver_async, open_call, remember
from harness.gateway._live import LiveCall, Reply
from harness.gateway._outgoing import Outgoing
from harness.gateway._served import Served

_passing: ContextVar[bool] = ContextVar("goldfork_passing", default=False)
"""Inside a tapped call, so that a tap further down lets it through."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One of the two HTTP libraries, and our byte streams for it."""

    module: ModuleType
    sync_body: type[Any]
    async_body: type[Any]

    def response(self, served: Served, request: Any, body: Any) -> Any:
        """A recorded response, or the recorded transport error raised again."""
        error = served.error()
        if error is not None and served.exchange.status is None:
            raise self.error(*error, request)
        return self.module.Response(
            served.exchange.status,
            headers=served.headers,
            stream=body,
            extensions={"http_version": b"HTTP/1.1"},
        )

    def error(self, name: str, text: str, request: Any) -> Exception:
        """The library's transport error of this name; its base class for names it does not know."""
        base: type[Exception] = self.module.TransportError
        kind = getattr(self.module, name, base)
        if not (isinstance(kind, type) and issubclass(kind, base)):
            kind, text = base, f"{name}: {text}"
        return kind(text, request=request)  # type: ignore[call-arg]  # every transport error takes it

    def passed_on(self, response: Any, body: Any) -> Any:
        """The provider's response with our byte stream in place of its own."""
        return self.module.Response(
            response.status_code, headers=response.headers, stream=body, extensions=response.extensions
        )

    def rewritten(self, request: Any, outgoing: Outgoing) -> Any:
        """The request with the body that a fork's change made."""
        if not outgoing.rewritten:
            return request
        headers = [pair for pair in request.headers.raw if pair[0].lower() != b"content-length"]
        return self.module.Request(
            request.method, request.url, headers=headers, content=outgoing.body, extensions=request.extensions
        )


def send(stack: Stack, inner: Callable[[Any], Any], request: Any, *, whole_client: bool) -> Any:
    """Handle a request of a sync client; ``inner`` is the transport's own way to send it."""
    if _passing.get():
        return inner(request)
    outgoing = Outgoing.of(request.method, request.url, request.headers.multi_items(), request.read())
    outgoing, call = open_call(outgoing, whole_client=whole_client)
    if isinstance(call, Served):
        return stack.response(call, request, stack.sync_body(RecordedBody(call, stack, request)))
    token = _passing.set(True)
    try:
        response = inner(stack.rewritten(request, outgoing))
    except BaseException as error:
        _failed(call, error)
        raise
    finally:
        _passing.reset(token)
    if call is None:
        return response
    reply = _answered(call, response)
    return stack.passed_on(response, stack.sync_body(LiveBody(call, reply, response.stream)))


async def send_async(stack: Stack, inner: Callable[[Any], Awaitable[Any]], request: Any, *, whole_client: bool) -> Any:
    """Handle a request of an async client; ``inner`` is the transport's own way to send it."""
    if _passing.get():
        return await inner(request)
    outgoing = Outgoing.of(request.method, request.url, request.headers.multi_items(), await request.aread())
    outgoing, call = open_call(outgoing, whole_client=whole_client)
    if isinstance(call, Served):
        return stack.response(call, request, stack.async_body(RecordedBody(call, stack, request)))
    token = _passing.set(True)
    try:
        response = await inner(stack.rewritten(request, outgoing))
    except BaseException as error:
        _failed(call, error)
        raise
    finally:
        _passing.reset(token)
    if call is None:
        return response
    reply = _answered(call, response)
    return stack.passed_on(response, stack.async_body(LiveBody(call, reply, response.stream)))


def _failed(call: LiveCall | None, error: BaseException) -> None:
    if call is not None:
        call.failed(error)
        remember(call, None)


def _answered(call: LiveCall, response: Any) -> Reply:
    reply = call.answered(response.status_code, response.headers.multi_items())
    remember(call, response.status_code)
    return reply


class RecordedBody:
    """The recorded body, sync and async, with its recorded boundaries and end."""

    def __init__(self, served: Served, stack: Stack, request: Any) -> None:
        self._served = served
        self._stack = stack
        self._request = request

    def pieces(self) -> Iterator[bytes]:
        """The body; at its end the error that broke it off when it was recorded."""
        yield from self._served.chunks()
        error = self._served.error()
        if error is not None:
            raise self._stack.error(*error, self._request)

    async def pieces_async(self) -> AsyncIterator[bytes]:
        """As ``pieces``."""
        for piece in self.pieces():
            yield piece

    def close(self) -> None:
        """Nothing to release."""

    async def aclose(self) -> None:
        """Nothing to release."""


class LiveBody:
    """The provider's body on its way through, sync and async."""

    def __init__(self, call: LiveCall, reply: Reply, inner: Any) -> None:
        self._run = call.run
        self._reply = reply
        self._inner = inner
        reply.owned_by(self)

    def pieces(self) -> Iterator[bytes]:
        """The bytes as they come; the last ones once they are stored."""
        source = iter(self._inner)
        while True:
            try:
                chunk = next(source, None)
            except BaseException as error:
                out, commit = self._reply.broken(error)
                deliver(self._run, commit, self._reply.received)
                if out:
                    yield out
                raise
            out, commit = self._reply.end() if chunk is None else self._reply.take(chunk)
            deliver(self._run, commit, self._reply.received)
            if out:
                yield out
            if chunk is None:
                return

    async def pieces_async(self) -> AsyncIterator[bytes]:
        """As ``pieces``."""
        source = aiter(self._inner)
        try:
            while True:
                try:
                    chunk = await anext(source, None)
                except BaseException as error:
                    out, commit = self._reply.broken(error)
                    if isinstance(error, Exception):
                        await deliver_async(self._run, commit, self._reply.received)
                        if out:
                            yield out
                    raise
                out, commit = self._reply.end() if chunk is None else self._reply.take(chunk)
                await deliver_async(self._run, commit, self._reply.received)
                if out:
                    yield out
                if chunk is None:
                    return
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    def close(self) -> None:
        """Release the connection; a body not read to its end is recorded as interrupted."""
        try:
            self._inner.close()
        finally:
            deliver(self._run, self._reply.closed(), self._reply.received)

    async def aclose(self) -> None:
        """As ``close``."""
        try:
            await self._inner.aclose()
        finally:
            await deliver_async(self._run, self._reply.closed(), self._reply.received)
