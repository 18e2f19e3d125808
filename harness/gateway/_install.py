"""``install``: taps every client of a block, for code whose clients cannot be reached."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from harness.errors import UsageError
from harness.gateway._outgoing import MODEL_ENDPOINTS
from harness.gateway._tap import Stack, send, send_async

_lock = threading.Lock()
_depth = 0
_undo: list[Callable[[], None]] = []

_TELEMETRY = (
    "langfuse",
    "langsmith",
    "opentelemetry",
    "otel",
    "sentry",
    "datadoghq",
    "posthog",
    "segment",
    "honeycomb",
)


@contextlib.contextmanager
def install() -> Iterator[None]:
    """Record or replay the model calls of every httpx2 and httpx client while the block runs.

    Only POSTs to a model endpoint (chat completions, responses, embeddings, completions, moderations), and every
    POST to a host named in the setting ``hosts``, are concerned; telemetry hosts never are. It acts on the whole
    process, threads included. Clients with transports of their own are not reached: use ``wrap`` for those.

    Raises:
        UsageError: Neither library is installed.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _depth  # noqa: PLW0603 - the libraries' classes are patched once per process
    with _lock:
        if _depth == 0:
            for name in ("httpx2", "httpx"):
                with contextlib.suppress(ImportError):
                    tap = importlib.import_module(f"harness.gateway._{name}")
                    _undo.extend(_patched(tap.STACK))
            if not _undo:
                raise UsageError("harness.install() needs httpx2 or httpx; install one of them")
        _depth += 1


def _leave() -> None:
    global _depth  # noqa: PLW0603
    with _lock:
        _depth -= 1
        if _depth == 0:
            while _undo:
                _undo.pop()()


def _patched(stack: Stack) -> Iterator[Callable[[], None]]:
    hosts = _hosts()
    plain, parallel = stack.module.HTTPTransport, stack.module.AsyncHTTPTransport
    inner: Callable[[Any, Any], Any] = plain.handle_request
    inner_async: Callable[[Any, Any], Awaitable[Any]] = parallel.handle_async_request

    def handle_request(self: Any, request: Any) -> Any:
        whole = _concerns(request.url, hosts)
        if whole is None:
            return inner(self, request)
        return send(stack, lambda sent: inner(self, sent), request, whole_client=whole)

    async def handle_async_request(self: Any, request: Any) -> Any:
        whole = _concerns(request.url, hosts)
        if whole is None:
            return await inner_async(self, request)
        return await send_async(stack, lambda sent: inner_async(self, sent), request, whole_client=whole)

    plain.handle_request = handle_request
    parallel.handle_async_request = handle_async_request
    yield lambda: setattr(plain, "handle_request", inner)
    yield lambda: setattr(parallel, "handle_async_request", inner_async)


def _hosts() -> frozenset[str]:
    from harness.settings import load_settings

    return frozenset(host.lower() for host in load_settings().hosts)


def _concerns(url: Any, hosts: frozenset[str]) -> bool | None:
    """Whether all of this host is ours, only its model endpoints, or (``None``) nothing."""
    host = url.host.lower()
    if host in hosts or f"{host}:{url.port}" in hosts:
        return True
    if any(word in host for word in _TELEMETRY):
        return None
    return False if url.path.rstrip("/").endswith(MODEL_ENDPOINTS) else None
