"""A run with every kind of row, changed at will; a store, a clock, a Langfuse and a project in it."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import orjson
import pytest

from harness.canonical import canonical_json
from harness.errors import DatasetMissing
from harness.mirror import Context, Project, freeze_run, span_id, thaw
from harness.record import Exchange, MessageRecord, Recording, RunRecord, StepRecord, Usage
from harness.store import open_store
from harness.testing.langfuse_server import LangfuseServer

START = datetime(2026, 11, 30, 10, 0, 0, 123457, tzinfo=UTC)
RUN, ROOT, DRAFT, SEARCH, JOB, CHAT = (f"019ad3b4-1111-7000-8000-00000000000{number}" for number in range(1, 7))
PLAIN = Context(environment="production", release="1.2", run_url="")
REQUEST = {
    "model": "gpt-5-mini",
    "temperature": 0,
    "tools": [{"type": "function", "function": {"name": "search_kb", "parameters": {}}}],
    "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "late"}],
}
RESPONSE = {
    "id": "chatcmpl-1",
    "model": "gpt-5-mini-2026-01-01",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "soon"}}],
}


class Book:
    """The parts of a recording."""

    START, PLAIN = START, PLAIN
    RUN, ROOT, DRAFT, SEARCH, JOB, CHAT = RUN, ROOT, DRAFT, SEARCH, JOB, CHAT

    def __init__(self):
        self.blobs = {}
        self.volatile = []
        self.run = RunRecord(
            id=RUN,
            workflow="triage",
            status="ok",
            mode="live",
            started_at=START,
            ended_at=START + timedelta(seconds=2),
            input_hash=self.put({"ticket": "late"}),
            output_hash=self.put({"reply": "soon"}),
            tags=("vip",),
            metadata={"user_id": "u-1", "session_id": "s-1", "tier": "gold"},
            code_version="abc",
        )
        common = {"run_id": RUN, "occurrence": 0, "key": "k" * 8, "status": "ok", "started_at": START}
        self.steps = [
            StepRecord(
                id=ROOT, parent_id=None, seq=0, name="triage", kind="agent", scope="", duration_ms=2000.0,
                input_hash=self.run.input_hash, output_hash=self.run.output_hash, **common,
            ),
            StepRecord(id=DRAFT, parent_id=ROOT, seq=1, name="draft", kind="agent", scope="triage", **common),
            StepRecord(
                id=SEARCH, parent_id=DRAFT, seq=3, name="search_kb", kind="tool", scope="triage/draft", version="2",
                determinism="time-bound", state="called", input_hash=self.put({"query": "refund"}),
                output_hash=self.put(["policy 7"]), duration_ms=20.7, **common,
            ),
            StepRecord(id=JOB, parent_id=ROOT, seq=4, name="tidy", kind="job", scope="triage", **common),
        ]  # fmt: skip
        self.messages = [self.message()]

    def put(self, value, *, raw=False):
        """Keep content, as a snapshot or raw."""
        data = value if raw else canonical_json(value)
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def message(self, request=REQUEST, response=RESPONSE, **changes):
        """A message; ``request`` and ``response`` as JSON values or bytes."""
        asked, said = (part if isinstance(part, bytes) else json.dumps(part).encode() for part in (request, response))
        made = MessageRecord(
            id=CHAT, run_id=RUN, step_id=DRAFT, seq=2, scope="triage/draft", method="POST",
            endpoint="/chat/completions", provider="api.example.org", exact_key="e", semantic_key="s", occurrence=0,
            request_hash=self.put(asked, raw=True),
            exchanges=(Exchange(status=200, body_hash=self.put(said, raw=True)),),
            status="ok", model="gpt-5-mini", model_served="gpt-5-mini-2026-01-01", system_fingerprint="fp_1",
            prompt_name="draft", prompt_version="3", params={"temperature": 0},
            usage=Usage(input_tokens=1000, output_tokens=50, cached_tokens=600, reasoning_tokens=20),
            cost=Decimal("0.00012300"), finish_reasons=("stop",), latency_ms=1500.5, first_chunk_ms=250.0,
            started_at=START,
        )  # fmt: skip
        return replace(made, **changes)

    def read(self, digest):
        """Content by hash."""
        if digest not in self.blobs:
            raise DatasetMissing(digest)
        return self.blobs[digest]

    @property
    def recording(self):
        """All of it."""
        return Recording(
            run=self.run,
            steps=tuple(self.steps),
            messages=tuple(self.messages),
            volatile=tuple(self.volatile),
            read=self.read,
        )

    def frozen(self, context=PLAIN):
        """As it is sent."""
        return freeze_run(self.recording, context)

    def spans(self, context=PLAIN):
        """Span id → span, its attributes as a plain dict."""
        return {span["spanId"]: span for span in map(opened, thaw(self.frozen(context).data))}

    def step(self, row_id, context=PLAIN):
        """The span of a step."""
        return self.spans(context)[span_id("step", row_id)]

    def chat(self, context=PLAIN):
        """The span of the first message."""
        return self.spans(context)[span_id("message", self.messages[0].id)]

    @staticmethod
    def attribute(span, name):
        """An observation attribute."""
        return span["attributes"].get(f"langfuse.observation.{name}")

    @staticmethod
    def meta(span):
        """The ``goldfork`` object, its texts read."""
        found = orjson.loads(span["attributes"]["langfuse.observation.metadata.goldfork"])
        texts = {"row", "root", "request"}
        return {name: orjson.loads(value) if name in texts else value for name, value in found.items()}


def opened(span):
    """A JSON span with its attributes as a dict and its times as whole milliseconds."""
    read = orjson.loads(span)
    read["attributes"] = {each["key"]: _plain(each["value"]) for each in read["attributes"]}
    read["start"], read["end"] = (int(read[f"{end}TimeUnixNano"]) / 1_000_000 for end in ("start", "end"))
    return read


def _plain(value):
    (only,) = value.values()
    return [_plain(each) for each in only["values"]] if isinstance(only, dict) else only


@pytest.fixture(scope="session")
def books():
    """The class ``Book``; call it for a recording of your own."""
    return Book


@pytest.fixture
def book():
    """A recording of one's own."""
    return Book()


class Clock:
    """A clock that only sleeping moves; it starts after whatever the real one says during a test."""

    def __init__(self):
        self.now = datetime.now(UTC) + timedelta(hours=1)

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def url(tmp_path):
    """Of a store's database."""
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def store(url):
    with open_store(url, durability="normal") as opened:
        yield opened


@pytest.fixture
def server():
    with LangfuseServer() as running:
        yield running


@pytest.fixture
def project(server):
    made = Project(public_key=server.public_key, secret_key=server.secret_key, base_url=server.url, timeout=5)
    yield made
    made.close()


@pytest.fixture
def environment(server, monkeypatch):
    """The server's address and keys in the variables."""
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", server.public_key)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", server.secret_key)
    monkeypatch.setenv("LANGFUSE_BASE_URL", server.url)
