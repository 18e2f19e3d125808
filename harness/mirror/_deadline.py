"""The end of a request: timeouts of the HTTP client count from byte to byte, so that drops of an answer never end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

LONGEST_SECONDS: Final = 120.0
"""Longest that one answer may take to come in; with the waits before it, less than any lease."""

_LEAST_SECONDS: Final = 0.05
_END: Final = "goldfork.end"


class Deadline:
    """When requests must be over, on the monotonic clock; give ``hooks`` to the client that makes them."""

    def __init__(self) -> None:
        self.end: float | None = None
        """No request goes on after this moment; ``None`` for the longest that any one may take."""

    @property
    def hooks(self) -> Mapping[str, list[Callable[..., Any]]]:
        """For ``httpx.Client(event_hooks=…)``."""
        return {"request": [self._begun], "response": [self._answered]}

    def _begun(self, request: httpx.Request) -> None:
        """Cut the timeouts of a request down to what is left."""
        now = time.monotonic()
        request.extensions[_END] = now + LONGEST_SECONDS
        if self.end is not None:
            left = max(self.end - now, _LEAST_SECONDS)
            allowed: dict[str, float | None] = request.extensions["timeout"]
            request.extensions["timeout"] = {k: left if v is None else min(v, left) for k, v in allowed.items()}
            request.extensions[_END] = now + min(left, LONGEST_SECONDS)

    def _answered(self, response: httpx.Response) -> None:
        """Let the answer be read until the end of its request only."""
        response.stream = _until(response.request.extensions[_END], cast("httpx.SyncByteStream", response.stream))


def _until(end: float, stream: httpx.SyncByteStream) -> httpx.SyncByteStream:
    import httpx

    class Ending(httpx.SyncByteStream):
        """A stream that fails where it goes on for too long."""

        def __iter__(self) -> Iterator[bytes]:
            for chunk in stream:
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("the answer took too long to come in")
                yield chunk

        def close(self) -> None:
            stream.close()

    return Ending()
