"""What the taps of both HTTP libraries share: a transport around another one, and a body that is handed on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from harness.gateway._tap import LiveBody, RecordedBody


class SyncBody:
    """A body as an iterable of bytes; beside a library's own class of streams."""

    def __init__(self, body: LiveBody | RecordedBody) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return self._body.pieces()

    def close(self) -> None:
        """The reader is done, or has left."""
        self._body.close()


class AsyncBody:
    """As ``SyncBody``, for async clients."""

    def __init__(self, body: LiveBody | RecordedBody) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.pieces_async()

    async def aclose(self) -> None:
        """The reader is done, or has left."""
        await self._body.aclose()


class _Sync(Protocol):
    def close(self) -> None: ...

    def __enter__(self) -> Any: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...


class _Async(Protocol):
    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...


SyncT = TypeVar("SyncT", bound=_Sync)
AsyncT = TypeVar("AsyncT", bound=_Async)


class Around(Generic[SyncT]):
    """A transport that opens and closes another one with itself."""

    def __init__(self, inner: SyncT, owner: object) -> None:
        self.inner = inner
        self._owner = owner
        """The original client, where it shares the transport and would close it when collected."""

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


class AsyncAround(Generic[AsyncT]):
    """As ``Around``, for async clients."""

    def __init__(self, inner: AsyncT, owner: object) -> None:
        self.inner = inner
        self._owner = owner
        """As in ``Around``."""

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
