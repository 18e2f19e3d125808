"""The tap for clients built on httpx."""

from __future__ import annotations

import httpx

from harness.gateway._tap import Stack, send, send_async
from harness.gateway._transport import Around, AsyncAround, AsyncBody, SyncBody


class _SyncBody(SyncBody, httpx.SyncByteStream):
    pass


class _AsyncBody(AsyncBody, httpx.AsyncByteStream):
    pass


STACK = Stack(httpx, _SyncBody, _AsyncBody)


class SyncTap(Around[httpx.BaseTransport], httpx.BaseTransport):
    """A transport that records what passes through another, or answers instead of it."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Record or answer."""
        response: httpx.Response = send(STACK, self.inner.handle_request, request, whole_client=True)
        return response


class AsyncTap(AsyncAround[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport):
    """As ``SyncTap``, for async clients."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Record or answer."""
        response: httpx.Response = await send_async(STACK, self.inner.handle_async_request, request, whole_client=True)
        return response
