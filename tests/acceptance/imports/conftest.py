"""A loopback Langfuse, a store, and traces as a stranger's tracer would send them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.mirror import Project, Window, import_runs
from harness.store import Store, open_store
from harness.testing.langfuse_server import LangfuseServer

BEGIN = datetime(2026, 11, 10, 9, tzinfo=UTC)
WINDOW = Window(since=BEGIN - timedelta(days=1), until=BEGIN + timedelta(days=1))
LF = "langfuse.observation."


@dataclass(frozen=True)
class Span:
    """One span of a stranger's trace; times in milliseconds after ``BEGIN``."""

    id: str
    parent: str | None = None
    name: str = "work"
    type: str = "span"
    start: int = 0
    end: int | None = None
    input: Any = None
    output: Any = None
    more: Mapping[str, Any] | None = None
    """Further attributes."""


def hex_id(name: str, length: int = 16) -> str:
    """A stable id of hex digits for a short name."""
    return name.encode().hex().rjust(length, "0")[-length:]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": json.dumps(value)}


def _nano(milliseconds: int) -> str:
    return str((int(BEGIN.timestamp() * 1000) + milliseconds) * 1_000_000)


def request_of(trace: str, spans: list[Span], scope: str = "langfuse-sdk") -> bytes:
    """An OTLP/JSON request that holds the spans."""
    made = []
    for span in spans:
        io = {"input": span.input, "output": span.output}
        attributes: dict[str, Any] = {
            f"{LF}type": span.type,
            "langfuse.trace.name": "shop",
            **{f"{LF}{name}": value if isinstance(value, str) else json.dumps(value) for name, value in io.items()
               if value is not None},
            **(span.more or {}),
        }  # fmt: skip
        made.append(
            {
                "traceId": hex_id(trace, 32),
                "spanId": hex_id(span.id),
                **({"parentSpanId": hex_id(span.parent)} if span.parent else {}),
                "name": span.name,
                "startTimeUnixNano": _nano(span.start),
                "endTimeUnixNano": _nano(span.start + 10 if span.end is None else span.end),
                "attributes": [{"key": key, "value": _value(value)} for key, value in attributes.items()],
            }
        )
    scoped = {"scope": {"name": scope}, "spans": made}
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scoped]}]}).encode()


class Desk:
    """The double, the store, and the way between them."""

    def __init__(self, server: LangfuseServer, store: Store) -> None:
        self.server = server
        self.store = store
        self.sleep: Callable[[float], None] = lambda _: None
        self.project = Project(public_key=server.public_key, secret_key=server.secret_key, base_url=server.url)

    def post(self, trace: str, *spans: Span) -> str:
        """Send a trace; its id on the server."""
        sent = self.project.post_spans(request_of(trace, list(spans)))
        assert sent.outcome == "accepted", sent
        return hex_id(trace, 32)

    def load(self, window: Window = WINDOW, **options: Any) -> Any:
        """Import."""
        return import_runs(self.store, self.project, window, sleep=self.sleep, **options)


@pytest.fixture
def server() -> Iterator[LangfuseServer]:
    with LangfuseServer() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/goldfork.db", durability="normal") as opened:
        yield opened


@pytest.fixture
def make_desk() -> Iterator[Callable[[LangfuseServer, Store], Desk]]:
    made: list[Desk] = []

    def make(server: LangfuseServer, store: Store) -> Desk:
        made.append(Desk(server, store))
        return made[-1]

    yield make
    for desk in made:
        desk.project.close()


@pytest.fixture
def desk(make_desk: Callable[[LangfuseServer, Store], Desk], server: LangfuseServer, store: Store) -> Desk:
    return make_desk(server, store)


@pytest.fixture
def desk_on_each(
    make_desk: Callable[[LangfuseServer, Store], Desk], server: LangfuseServer, url: str
) -> Iterator[Desk]:
    """The same on every database."""
    with open_store(url, durability="normal") as opened:
        yield make_desk(server, opened)


@pytest.fixture
def span() -> type[Span]:
    """What a trace is made of."""
    return Span


@pytest.fixture
def begin() -> datetime:
    return BEGIN


@pytest.fixture
def window() -> Window:
    return WINDOW
