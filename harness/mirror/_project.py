"""A Langfuse project: its address, its keys, and the two ways of speaking to it."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson

from harness.errors import UsageError
from harness.mirror._deadline import Deadline
from harness.mirror._wire import Sent, bounded, by_error, by_status

if TYPE_CHECKING:
    import httpx
    from langfuse.api.client import LangfuseAPI
    from langfuse.api.core.request_options import RequestOptions

CLOUD: Final = "https://cloud.langfuse.com"
"""Where a project is when only its keys are given."""

ONCE: Final[RequestOptions] = {"max_retries": 0}
"""Pass as ``request_options``: the client's own retries would sleep on the wall clock and hide failures."""

_NO_ADDRESS = "LANGFUSE_BASE_URL is no http or https address; give one such as https://langfuse.my.org"
_SPANS = "/api/public/otel/v1/traces"
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Project:
    """One project of a Langfuse server. Not for sharing across a fork: the connections are this process's own."""

    public_key: str
    secret_key: str = field(repr=False)
    base_url: str = CLOUD
    environment: str = "default"
    """Environment of what is sent, from ``LANGFUSE_TRACING_ENVIRONMENT``."""
    release: str | None = None
    """Release of what is sent, from ``LANGFUSE_RELEASE``."""
    timeout: float = _ANSWER_SECONDS
    """Seconds to wait for an answer."""
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), repr=False)
    """For ``Retry-After`` dates."""

    _limit: Deadline = field(init=False, repr=False, compare=False, default_factory=Deadline)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
        except ValueError as error:
            raise UsageError(f"{_NO_ADDRESS}: {error}") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(_NO_ADDRESS)
        try:
            port = parts.port
        except ValueError as error:
            raise UsageError(f"{_NO_ADDRESS}: {error}") from error
        if port == 0 or not self.base_url.isprintable() or " " in self.base_url:
            raise UsageError(_NO_ADDRESS)
        if parts.username or parts.password:
            raise UsageError("LANGFUSE_BASE_URL holds a password; leave it out, the keys are what signs in")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Project:
        """The project that the ``LANGFUSE_`` variables name.

        Args:
            environment: ``LANGFUSE_PUBLIC_KEY``, ``LANGFUSE_SECRET_KEY``, ``LANGFUSE_BASE_URL`` or ``LANGFUSE_HOST``,
                ``LANGFUSE_TRACING_ENVIRONMENT``, ``LANGFUSE_RELEASE``; the process's by default.

        Raises:
            UsageError: A key is missing, or the address is none.
        """
        values = os.environ if environment is None else environment
        missing = [name for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY") if not values.get(name, "").strip()]
        if missing:
            raise UsageError(
                f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set; take the keys from the "
                "project's settings in Langfuse (LANGFUSE_BASE_URL says where a server of your own is)"
            )
        base = values.get("LANGFUSE_BASE_URL") or values.get("LANGFUSE_HOST") or CLOUD
        return cls(
            public_key=values["LANGFUSE_PUBLIC_KEY"].strip(),
            secret_key=values["LANGFUSE_SECRET_KEY"].strip(),
            base_url=base.strip().rstrip("/"),
            environment=values.get("LANGFUSE_TRACING_ENVIRONMENT") or "default",
            release=values.get("LANGFUSE_RELEASE") or None,
        )

    @property
    def host(self) -> str:
        """Host and port, for people."""
        return urlsplit(self.base_url).netloc

    @cached_property
    def http(self) -> httpx.Client:
        """The connections: redirects off, every wait bounded."""
        import httpx

        return httpx.Client(
            auth=httpx.BasicAuth(self.public_key, self.secret_key),
            timeout=httpx.Timeout(self.timeout, connect=min(_CONNECT_SECONDS, self.timeout)),
            follow_redirects=False,
            event_hooks=self._limit.hooks,
        )

    @cached_property
    def api(self) -> LangfuseAPI:
        """The package's REST client on the same connections. Give every call ``request_options=ONCE``."""
        from langfuse.api.client import LangfuseAPI

        return LangfuseAPI(
            base_url=self.base_url,
            username=self.public_key,
            password=self.secret_key,
            x_langfuse_public_key=self.public_key,
            httpx_client=self.http,
        )

    def post_spans(self, body: bytes, *, size: int = 0) -> Sent:
        """Send spans once, gzipped; never follows a redirect, never retries.

        Args:
            body: An OTLP/JSON export request.
            size: At least so many bytes on the wire, to see whether they pass.

        Source of the protocol: Langfuse's OpenTelemetry endpoint with ``x-langfuse-ingestion-version: 4``.
        """
        headers = {
            "content-type": "application/json",
            "content-encoding": "gzip",
            "x-langfuse-ingestion-version": "4",
        }
        return self.post(_SPANS, zipped(body, size=size), headers=headers)

    def post(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> Sent:
        """Post bytes to a path of the server once."""
        import httpx

        try:
            answer = self.http.post(f"{self.base_url}{path}", content=body, headers=dict(headers))
        except httpx.RequestError as error:
            return by_error(error)
        text = "" if answer.is_success and answer.status_code != 207 else answer.text
        return by_status(answer.status_code, answer.headers, text, now=self.clock())

    def put_away(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Sent:
        """Put bytes once at an address that the server named, within the same limits and without our keys."""
        import httpx

        timeout = httpx.Timeout(self.timeout, connect=min(_CONNECT_SECONDS, self.timeout))
        try:
            with httpx.Client(timeout=timeout, follow_redirects=False, event_hooks=self._limit.hooks) as client:
                answer = client.put(url, content=body, headers=dict(headers))
        except httpx.InvalidURL:
            return Sent(outcome="refused", words="the server names an address for uploads that is none")
        except httpx.RequestError as error:
            return by_error(error)
        return by_status(answer.status_code, answer.headers, "", now=self.clock())

    def get(self, path: str, parameters: Mapping[str, str]) -> Any:
        """Read a JSON answer once; a ``Sent`` in place of it says why there is none.

        For reading back in bulk: the REST client works out the types of every row anew, which takes many times as
        long as everything else.
        """
        return self._json("GET", path, params=dict(parameters))

    def exchange(self, method: str, path: str, body: Any) -> Any:
        """Send a JSON object once and read a JSON answer; a ``Sent`` in place of it says why there is none.

        For what may be done twice without harm.
        """
        return self._json(method, path, json=body)

    def _json(self, method: str, path: str, **given: Any) -> Any:
        import httpx

        try:
            answer = self.http.request(method, f"{self.base_url}{path}", **given)
        except httpx.RequestError as error:
            # Done twice it does no harm, so that there is nothing to be in doubt about.
            return replace(by_error(error), outcome="retry")
        if not answer.is_success:
            return by_status(answer.status_code, answer.headers, answer.text, now=self.clock())
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError:
            words = f"HTTP {answer.status_code} that is no JSON: {answer.text}"
            return Sent(outcome="retry", status=answer.status_code, words=bounded(words))

    def finish_within(self, seconds: float | None) -> None:
        """Let no request from now on take longer than what is left of so many seconds; ``None`` for no such end."""
        self._limit.end = None if seconds is None else time.monotonic() + seconds

    def close(self) -> None:
        """Let go of the connections."""
        if "http" in self.__dict__:
            self.http.close()


def zipped(body: bytes, *, size: int = 0) -> bytes:
    """JSON compressed for the wire; with a size at least so many bytes, spaces added."""
    return gzip.compress(body.ljust(size), 0 if size else 1, mtime=0)
