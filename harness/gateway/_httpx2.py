"""The tap for clients built on httpx2."""

from __future__ import annotations

import httpx2

from harness.gateway._tap import Stack, send, send_async
from harness.gateway._transport import Around, AsyncAround, AsyncBody, SyncBody


class _SyncBody(SyncBody, httpx2.SyncByteStream):
    pass


class _AsyncBody(AsyncBody, httpx2.AsyncByteStream):
    pass


STACK = Stack(httpx2, _SyncBody, _AsyncBody)


class SyncTap(Around[httpx2.BaseTransport], httpx2.BaseTransport):
    """A transport that records what passes through another, or answers instead of it."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Record or answer."""
        response: httpx2.Response = send(STACK, self.inner.handle_request, request, whole_client=True)
        return response


class AsyncTap(AsyncAround[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport):
    """As ``SyncTap``, for async clients."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Record or answer."""
        response: httpx2.Response = await send_async(STACK, self.inner.handle_async_request, request, whole_client=True)
        return response
