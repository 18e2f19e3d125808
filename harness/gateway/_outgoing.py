"""A request that is about to leave, as far as recording needs to know it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from harness.canonical import RequestKeys, request_keys
from harness.gateway._secrets import Credentials
from harness.session import Change, Frame

MODEL_ENDPOINTS = ("/chat/completions", "/responses", "/embeddings", "/completions", "/moderations")
_GENERATING = ("/chat/completions", "/responses", "/completions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One HTTP attempt, before it is sent."""

    method: str
    path: str
    body: bytes
    """As it goes over the wire, a fork's change applied."""
    stored: bytes
    """As it is recorded and matched: the call's own credential never is."""
    content_type: str
    query: str
    headers: tuple[tuple[str, str], ...]
    provider: str
    """Host and port, without user info."""
    credentials: Credentials
    retry: int = 0
    """How many attempts the SDK made before this one."""
    rewritten: bool = False
    """A fork's change altered the body."""

    @classmethod
    def of(cls, method: str, url: Any, headers: Iterable[tuple[str, str]], body: bytes) -> Outgoing:
        """Read a request of httpx2 or httpx; ``url`` is the library's URL."""
        pairs = tuple((name.lower(), value) for name, value in headers)
        table = dict(pairs)
        query = url.query.decode("ascii", "replace")
        retry = table.get("x-stainless-retry-count", "")
        credentials = Credentials.of(pairs, query, (unquote(url.username), unquote(url.password)))
        return cls(
            method=method.upper(),
            path=url.path,
            body=body,
            stored=credentials.removed(body),
            content_type=table.get("content-type", ""),
            query=query,
            headers=pairs,
            provider=f"{url.host}:{url.port}" if url.port else url.host,
            credentials=credentials,
            retry=int(retry) if retry.isdecimal() else 0,
        )

    @property
    def is_model_call(self) -> bool:
        """Whether the path is one of the endpoints that answer with a model's output."""
        return self.method == "POST" and self.path.rstrip("/").endswith(MODEL_ENDPOINTS)

    @property
    def _generates(self) -> bool:
        """Whether the endpoint takes a generation's parameters: an embedding asked with a temperature is an error."""
        return self.is_model_call and self.path.rstrip("/").endswith(_GENERATING)

    def keys(self, volatile: Iterable[tuple[str, str]]) -> RequestKeys:
        """Exact and semantic key of the request."""
        return request_keys(
            self.method,
            self.path,
            self.stored,
            content_type=self.content_type or "application/json",
            headers=self.headers,
            query=self.query,
            volatile=tuple(volatile),
        )

    def changed(self, frame: Frame) -> Outgoing:
        """The request with the fork's change of model or parameter, inside the fork step and all steps below it."""
        change = frame.run.plan.change
        if change is None or change.kind not in {"model", "param"} or not frame.within(change):
            return self
        body = _with_field(self.body, _field(change), change.value, add=self._generates)
        if body is None:
            return self
        frame.run.applied = True
        if body == self.body:
            return self
        return replace(self, body=body, stored=self.credentials.removed(body), rewritten=True)


def _field(change: Change) -> str:
    return "model" if change.kind == "model" else change.name


def _with_field(body: bytes, name: str, value: Any, *, add: bool = True) -> bytes | None:
    """The JSON object with one top-level field set and every other byte kept.

    ``None`` when it is no object, or has no such field and none is to be added.
    """
    try:
        text = body.decode()
        span, end = _find_field(text, name)
    except (ValueError, RecursionError):
        return None
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if span is not None:
        return f"{text[: span[0]]}{written}{text[span[1] :]}".encode()
    if not add:
        return None
    comma = "" if text[:end].rstrip().endswith("{") else ","
    return f"{text[:end]}{comma}{json.dumps(name)}:{written}{text[end:]}".encode()


def _find_field(text: str, name: str) -> tuple[tuple[int, int] | None, int]:
    """Where the value of a top-level field stands (the last one, which is what counts), and the closing brace."""
    scan = json.JSONDecoder().raw_decode
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("not an object")
    found: tuple[int, int] | None = None
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = scan(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError("no value")
        start = _skip(text, at + 1)
        _, at = scan(text, start)
        if key == name:
            found = start, at
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return found, at


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
