"""What the probes ask: the loopback double always, a real server when its variables are set."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langfuse import Langfuse
from langfuse.api import LangfuseAPI
from opentelemetry.sdk.trace import TracerProvider

from harness.testing.langfuse_server import LangfuseServer

VARIABLES = ("GOLDFORK_PROBE_LANGFUSE_URL", "GOLDFORK_PROBE_LANGFUSE_PUBLIC_KEY", "GOLDFORK_PROBE_LANGFUSE_SECRET_KEY")
BASE = time.time_ns() // 1_000_000_000 * 1_000_000_000
"""Unix nanoseconds at which probes begin: now, so that a real server's time windows hold them."""
TRACES = "/api/public/otel/v1/traces"
ALL = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"


def attribute(key: str, value: Any) -> dict[str, Any]:
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
    if isinstance(value, list):
        return {"key": key, "value": {"arrayValue": {"values": [{"stringValue": each} for each in value]}}}
    return {"key": key, "value": {kinds[type(value)]: str(value) if type(value) is int else value}}


@dataclass
class Target:
    """One server and the raw client our own code uses."""

    url: str
    public_key: str
    secret_key: str
    double: LangfuseServer | None = None
    traces: list[str] = field(default_factory=list)
    undo: list[Callable[[], Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Certificates take 20 ms to load, and loopback has none.
        self.http = httpx.Client(
            base_url=self.url, auth=(self.public_key, self.secret_key), timeout=30, verify=self.double is None
        )
        self.patience = 5.0 if self.double else 60.0

    @cached_property
    def api(self) -> LangfuseAPI:
        """The SDK's REST client on the same connections."""
        return LangfuseAPI(
            base_url=self.url, username=self.public_key, password=self.secret_key, httpx_client=self.http
        )

    @property
    def takes_lists(self) -> bool:
        version = self.http.get("/api/public/health").json()["version"]
        return tuple(int(part) for part in version.split(".")[:2]) >= (4, 59)

    def trace(self) -> str:
        """An id for a trace that is deleted afterwards."""
        self.traces.append(uuid4().hex)
        return self.traces[-1]

    def name(self, kind: str) -> str:
        return f"goldfork-probe-{kind}-{uuid4().hex[:12]}"

    def span(self, trace: str, number: int = 1, *, ns: int = 0, **given: Any) -> dict[str, Any]:
        """A span of 5 ms, its start 10 ms times its number after now; ``attributes`` are given as a plain mapping."""
        attributes = given.pop("attributes", {})
        span = {
            "traceId": trace,
            "spanId": f"{number:016x}",
            "name": f"step {number}",
            "kind": 1,
            "startTimeUnixNano": str(BASE + number * 10_000_000 + ns),
            "endTimeUnixNano": str(BASE + number * 10_000_000 + 5_000_000 + ns),
            "attributes": [attribute(key, value) for key, value in attributes.items()],
            "status": {},
            **given,
        }
        return {key: value for key, value in span.items() if value is not None}

    def post(self, content: bytes, **headers: str | None) -> httpx.Response:
        sent = {"content-type": "application/json", "x-langfuse-ingestion-version": "4"}
        sent |= {key.replace("_", "-"): value for key, value in headers.items()}
        return self.http.post(TRACES, content=content, headers={k: v for k, v in sent.items() if v is not None})

    def send(self, *spans: dict[str, Any], scope: str = "langfuse-sdk", resource: dict[str, Any] | None = None) -> None:
        """Post spans and expect them to be taken."""
        response = self.post(gzip.compress(self.body(*spans, scope=scope, resource=resource)), content_encoding="gzip")
        assert response.status_code == 200, response.text

    def body(
        self, *spans: dict[str, Any], scope: str = "langfuse-sdk", resource: dict[str, Any] | None = None
    ) -> bytes:
        shared = {"attributes": [attribute(key, value) for key, value in (resource or {}).items()]}
        parts = [{"scope": {"name": scope}, "spans": list(spans)}]
        return json.dumps({"resourceSpans": [{"resource": shared, "scopeSpans": parts}]}).encode()

    def get(self, path: str, **query: Any) -> Any:
        response = self.http.get(f"/api/public/{path}", params=query)
        assert response.status_code == 200, response.text
        return response.json()

    def rows(self, trace: str, **query: Any) -> list[dict[str, Any]]:
        return self.get("v2/observations", traceId=trace, fields=ALL, limit=1000, **query)["data"]

    def wait(self, look: Callable[[], Any], until: Callable[[Any], Any] = bool) -> Any:
        """Poll until what is seen is what is waited for."""
        end = time.monotonic() + self.patience
        while not until(seen := look()):
            assert time.monotonic() < end, f"waited {self.patience} s in vain; last seen: {seen!r:.500}"
            time.sleep(0.01 if self.double else 1.0)
        return seen

    def seen(self, trace: str, count: int = 1, **query: Any) -> dict[str, dict[str, Any]]:
        """A trace's observations by name, once so many are there."""
        rows = self.wait(lambda: self.rows(trace, **query), lambda rows: len({row["id"] for row in rows}) >= count)
        return {row["name"]: row for row in rows}

    def stored(self, **given: Any) -> dict[str, Any]:
        """One span with these parts, as it is read back."""
        trace = self.trace()
        scope, resource = given.pop("scope", "langfuse-sdk"), given.pop("resource", None)
        query = {key: given.pop(key) for key in ("expandMetadata",) if key in given}
        self.send(self.span(trace, **given), scope=scope, resource=resource)
        return next(iter(self.seen(trace, **query).values()))

    def merged(self, trace: str, count: int) -> list[dict[str, Any]]:
        """A trace's rows after the column store has merged."""
        self.seen(trace)
        if self.double:
            self.double.merge()
        return self.wait(lambda: self.rows(trace), lambda rows: len(rows) == count)

    def score(self, **given: Any) -> httpx.Response:
        """Create a score in the shape this server takes."""
        return self.http.post("/api/public/scores", json=[given] if self.takes_lists else given)

    def clean(self) -> None:
        """Take away what the probe made."""
        for undo in reversed(self.undo):
            undo()
        if self.traces:
            self.http.request("DELETE", "/api/public/traces", json={"traceIds": self.traces}).raise_for_status()
        self.http.close()


def _real() -> dict[str, str] | None:
    values = [os.environ.get(name, "") for name in VARIABLES]
    return dict(zip(("url", "public_key", "secret_key"), values, strict=True)) if all(values) else None


@pytest.fixture(params=["double", "real"] if _real() else ["double"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    real = _real()
    if request.param == "real" and real:
        target = Target(url=real["url"].rstrip("/"), public_key=real["public_key"], secret_key=real["secret_key"])
        yield target
        target.clean()
        return
    # The SDK keeps one dead client for each public key, so that every test needs a key of its own.
    with LangfuseServer(keys=(f"pk-lf-{uuid4().hex}", f"sk-lf-{uuid4().hex}")) as server:
        target = Target(server.url, server.public_key, server.secret_key, server)
        yield target
        target.clean()


_CLIENTS: dict[str, Langfuse] = {}


@pytest.fixture
def sdk(target: Target) -> Iterator[Langfuse]:
    """The real SDK, pointed at the target."""
    client = _CLIENTS.get(target.public_key)
    if client is None:
        client = Langfuse(
            public_key=target.public_key,
            secret_key=target.secret_key,
            base_url=target.url,
            timeout=30,
            media_upload_thread_count=1,
            tracer_provider=TracerProvider(),
        )
    if not target.double:
        _CLIENTS[target.public_key] = client
    yield client
    client.flush()
    if target.double:
        client.shutdown()


@pytest.fixture
def server() -> Iterator[LangfuseServer]:
    """A double of its own, for what only a double does."""
    with LangfuseServer(keys=(f"pk-lf-{uuid4().hex}", f"sk-lf-{uuid4().hex}")) as server:
        yield server
