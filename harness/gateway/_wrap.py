"""``wrap``: a copy of a client whose model calls are recorded and replayed."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote, urlencode

from harness.errors import UsageError
from harness.gateway._secrets import Credentials
from harness.session import keep_secret

Client = TypeVar("Client")

_HOLDERS = ("_client", "http_client", "_http_client")
"""Where SDK clients keep their HTTP client."""
_KEYS = ("api_key", "admin_api_key", "auth_token", "webhook_secret", "_azure_ad_token")
"""Where SDK clients keep what they send as a credential."""


def wrap(client: Client) -> Client:
    """A copy of a client that records its model calls, or answers them from the recording.

    The copy is of the same type, behaves the same and has its own connections; the original stays as it was.

    Args:
        client: An SDK client built on httpx2 or httpx (``openai.OpenAI``, ``AsyncOpenAI``, ``AzureOpenAI`` and
            others that keep their HTTP client as ``_client``), or such an HTTP client itself.

    Raises:
        UsageError: The object has no HTTP client of either library.
    """
    if _is_http_client(client):
        _keep_credentials(client)
        return _tapped(client)
    for name in _HOLDERS:
        http = getattr(client, name, None)
        if _is_http_client(http):
            # A run's input is recorded before its first call, and may hold what that call will carry.
            _keep_credentials(client)
            _keep_credentials(http)
            return _copied(client, name, _tapped(http))
    raise UsageError(
        f"cannot wrap {type(client).__name__!r}: it has no httpx2 or httpx client; "
        "wrap the SDK's client object, or use harness.install() around the code that calls it"
    )


def _keep_credentials(client: Any) -> None:
    """Star the credentials that a client is set up with out of everything this process records."""
    headers = list(_pairs(client, "_custom_headers", "headers"))
    headers += [("x-api-key", key) for name in _KEYS if isinstance(key := vars(client).get(name), str)]
    query = urlencode(list(_pairs(client, "_custom_query", "params")))
    url = getattr(client, "base_url", None)
    userinfo = unquote(getattr(url, "username", "")), unquote(getattr(url, "password", ""))
    keep_secret(Credentials.of(headers, query, userinfo).forms)


def _pairs(client: Any, *names: str) -> Iterator[tuple[str, str]]:
    for name in names:
        held = getattr(client, name, None)
        if isinstance(held, Mapping):
            yield from ((key, value) for key, value in held.items() if isinstance(key, str) and isinstance(value, str))


def _is_http_client(value: object) -> bool:
    """Only a library that is loaded can have made the client, so neither is imported for this."""
    kinds = [
        kind
        for name in ("httpx2", "httpx")
        if (module := sys.modules.get(name)) is not None
        for kind in (module.Client, module.AsyncClient)
    ]
    return isinstance(value, tuple(kinds))


def _copied(client: Client, holder: str, http: Any) -> Client:
    """The SDK's own ``copy`` where it has one that works, else a shallow copy; no part points to the original."""
    made = _sdk_copy(client, http)
    if made is None:
        made = copy.copy(client)
        vars(made).clear()
    for name, value in vars(client).items():
        if name in vars(made) or getattr(value, "_client", None) is client:
            continue
        setattr(made, name, copy.copy(value) if isinstance(value, dict | list | set) else value)
    setattr(made, holder, http)
    return made


def _sdk_copy(client: Client, http: Any) -> Client | None:
    """What ``copy(http_client=…)`` makes; ``None`` for objects without it and subclasses with another signature."""
    if not (callable(getattr(client, "with_options", None)) and callable(getattr(client, "copy", None))):
        return None
    try:
        made = client.copy(http_client=http)  # type: ignore[attr-defined]  # just checked
    except TypeError:
        return None
    return made if type(made) is type(client) else None


def _tapped(http: Client) -> Client:
    """A copy of an HTTP client with a tap around each of its transports."""
    made: Any = copy.copy(http)
    taps: dict[int, Any] = {}

    def tap(transport: Any) -> Any:
        if transport is None:
            return None
        return taps.setdefault(id(transport), _tap(transport, http))

    made._transport = tap(made._transport)  # noqa: SLF001 - neither library has a public name for it
    made._mounts = {  # noqa: SLF001
        pattern: tap(transport)
        for pattern, transport in made._mounts.items()  # noqa: SLF001
    }
    for name in ("_headers", "_cookies"):
        setattr(made, name, type(getattr(http, name))(getattr(http, name)))
    made._event_hooks = {name: list(hooks) for name, hooks in made._event_hooks.items()}  # noqa: SLF001
    if not made.is_closed:
        made._state = type(made._state).UNOPENED  # noqa: SLF001
    return made  # type: ignore[no-any-return]  # copy.copy keeps the type


def _tap(transport: Any, owner: object) -> Any:
    inner = _own_pool(transport)
    shared = owner if inner is transport else None
    loaded = sys.modules.get("httpx2")
    if loaded is not None and isinstance(owner, loaded.Client | loaded.AsyncClient):
        from harness.gateway import _httpx2

        return (_httpx2.AsyncTap if isinstance(owner, loaded.AsyncClient) else _httpx2.SyncTap)(inner, shared)
    from harness.gateway import _httpx

    loaded = sys.modules["httpx"]
    return (_httpx.AsyncTap if isinstance(owner, loaded.AsyncClient) else _httpx.SyncTap)(inner, shared)


def _own_pool(transport: Any) -> Any:
    """The transport with connections of its own; a transport that is not the library's is shared as it is."""
    pool = getattr(transport, "_pool", None)
    state = {"_connections", "_requests", "_optional_thread_lock"}
    if pool is None or not state <= vars(pool).keys():
        return transport
    fresh = copy.copy(pool)
    fresh._connections, fresh._requests = [], []  # noqa: SLF001 - a pool cannot be built anew from its parts
    fresh._optional_thread_lock = type(pool._optional_thread_lock)()  # noqa: SLF001
    made = copy.copy(transport)
    made._pool = fresh  # noqa: SLF001
    return made
