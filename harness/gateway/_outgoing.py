"""A request that is about to leave, as far as recording needs to know it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from harness.canonical import RequestKeys, request_keys
from harness.gateway._rewrite import rewritten
from harness.gateway._secrets import Credentials
from harness.session import REQUEST_KINDS, Frame

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
        """The request with the fork's changes to requests, inside the fork step and all steps below it."""
        changes = [change for change in frame.run.plan.changes if change.kind in REQUEST_KINDS]
        if not changes:
            return self
        # An SDK's further attempt is the same call.
        again = self.retry > 0
        call = frame.run.occurrence("call", frame.step.record.id, "", count=0 if again else 1) - again
        body = self.body
        for change in changes:
            if not frame.within(change, call=call):
                continue
            written = rewritten(body, change, generates=self._generates)
            if written is not None:
                frame.run.apply(change)
                body = written
        if body == self.body:
            return self
        return replace(self, body=body, stored=self.credentials.removed(body), rewritten=True)
