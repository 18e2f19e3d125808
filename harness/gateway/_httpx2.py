"""The tap for clients built on httpx2."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

import httpx2

from harness.gateway._tap import LiveBody, RecordedBody, Stack, send, send_async


class _SyncBody(httpx2.SyncByteStream):
    def __init__(self, body: LiveBody | RecordedBody) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return self._body.pieces()

    def close(self) -> None:
        self._body.close()


class _AsyncBody(httpx2.AsyncByteStream):
    def __init__(self, body: LiveBody | RecordedBody) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.pieces_async()

    async def aclose(self) -> None:
        await self._body.aclose()


STACK = Stack(httpx2, _SyncBody, _AsyncBody)


class SyncTap(httpx2.BaseTransport):
    """A transport that records what passes through another, or answers instead of it."""

    def __init__(self, inner: httpx2.BaseTransport, owner: object) -> None:
        self.inner = inner
        self._owner = owner
        """The original client, where it shares the transport and would close it when collected."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Record or answer."""
        response: httpx2.Response = send(STACK, self.inner.handle_request, request, whole_client=True)
        return response

    def close(self) -> None:
        """Close the inner transport."""
        self.inner.close()

    def __enter__(self) -> Self:
        self.inner.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.inner.__exit__(exc_type, exc_value, traceback)


class AsyncTap(httpx2.AsyncBaseTransport):
    """As ``SyncTap``, for async clients."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, owner: object) -> None:
        self.inner = inner
        self._owner = owner
        """The original client, where it shares the transport and would close it when collected."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Record or answer."""
        response: httpx2.Response = await send_async(STACK, self.inner.handle_async_request, request, whole_client=True)
        return response

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.inner.__aexit__(exc_type, exc_value, traceback)
