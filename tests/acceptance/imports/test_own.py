"""What our own mirror exported comes back as the same Run > Step > Message."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import sys
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.canonical import content_hash, request_keys
from harness.mirror import Window, import_runs
from harness.mirror._freeze import envelope, freeze_run, thaw
from harness.mirror._render import Context
from harness.pipeline import plain, snapshot
from harness.record import Exchange, MessageRecord, RunRecord, StepRecord, Usage, request_view, view_response
from harness.replay import live_run
from harness.store import open_store
from harness.testing import ScriptedServer, chat_answer

BEGIN = datetime(2026, 11, 10, 9, tzinfo=UTC)
CONTEXT = Context(environment="default", release=None, run_url="")

words = st.text(alphabet="abcdefgh äöü", min_size=1, max_size=12).filter(lambda text: text.strip() == text)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, min_size=1, max_size=3),
    max_leaves=5,
)
counts = st.none() | st.integers(0, 10**6)
statuses = st.sampled_from(["ok", "error"])


fresh = itertools.count(1)


def identifiers(draw):
    # Fresh in every example: all of them go through the same two stores.
    return str(uuid.UUID(int=(next(fresh) << 64) + draw(st.integers(1, 2**64 - 1))))


class Made:
    """A run's records and content."""

    def __init__(self, draw):
        self.draw = draw
        self.blobs = {}
        self.begin = BEGIN + timedelta(
            milliseconds=draw(st.integers(0, 10_000)), microseconds=draw(st.integers(0, 999))
        )
        self.seq = 0

    def next(self):
        self.seq += 1
        return self.seq - 1

    def snap(self, value):
        taken = snapshot(value)
        self.blobs.update(taken.blobs)
        return taken.hash

    def moment(self, seq):
        return self.begin + timedelta(milliseconds=seq * 3, microseconds=self.draw(st.integers(0, 999)))


@st.composite
def runs(draw):
    made = Made(draw)
    run_id = identifiers(draw)
    status = draw(statuses)
    error = "it went wrong" if status == "error" else None
    given_input, output = draw(values), draw(values)
    run = RunRecord(
        id=run_id,
        workflow=draw(words),
        status=status,
        mode="live",
        case=draw(st.none() | st.just("case-a")),
        started_at=made.begin,
        ended_at=made.begin + timedelta(seconds=1),
        input_hash=made.snap(given_input),
        output_hash=made.snap(output) if status == "ok" else None,
        error=error,
        tags=tuple(draw(st.lists(st.sampled_from(["x", "y"]), max_size=2, unique=True))),
        metadata=draw(st.dictionaries(st.sampled_from(["user_id", "session_id", "a.b", "note"]), words, max_size=3)),
        code_version=draw(st.none() | st.just("c" * 64)),
    )
    root = StepRecord(
        id=identifiers(draw), run_id=run_id, parent_id=None, seq=made.next(), name=run.workflow, kind="job", scope="",
        occurrence=0, key="r" * 64, status=status, input_hash=run.input_hash, output_hash=run.output_hash, error=error,
        started_at=made.begin, duration_ms=1000.0,
    )  # fmt: skip
    steps, messages = [root], []
    for _ in range(draw(st.integers(0, 5))):
        above = draw(st.sampled_from(steps))
        if draw(st.booleans()):
            steps.append(_step(made, run_id, above))
        else:
            messages.append(_message(made, run_id, above))
    return run, steps, messages, made.blobs


def _inside(step):
    return "" if step.parent_id is None else f"{step.scope}/{step.name}".lstrip("/")


def _step(made, run_id, above):
    draw = made.draw
    kind, status, seq = draw(st.sampled_from(["agent", "tool", "job"])), draw(statuses), made.next()
    return StepRecord(
        id=identifiers(draw), run_id=run_id, parent_id=above.id, seq=seq, name=draw(words), kind=kind,
        scope=_inside(above), occurrence=draw(st.integers(0, 3)), key=f"{seq:064x}", status=status,
        state=draw(st.sampled_from(["run", "answered", "called", "dry"])),
        determinism=draw(st.sampled_from([None, "deterministic", "side-effect"])),
        ttl=draw(st.sampled_from([None, 2.5])),
        version=draw(st.none() | words), input_hash=made.snap(draw(values)),
        output_hash=made.snap(draw(values)) if status == "ok" else None, mutated=draw(st.booleans()),
        error="no" if status == "error" else None, started_at=made.moment(seq),
        duration_ms=draw(st.integers(0, 5000)) / 8,
    )  # fmt: skip


def _message(made, run_id, above):
    draw, seq = made.draw, made.next()
    request = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": draw(words)}]}).encode()
    answer = json.dumps(chat_answer(draw(words), model="m-1")).encode()
    keys = request_keys("POST", "/chat/completions", request)
    sent, got = draw(counts), draw(counts)
    return MessageRecord(
        id=identifiers(draw), run_id=run_id, step_id=above.id, seq=seq, scope=_inside(above), method="POST",
        endpoint="/chat/completions", provider="recorded", exact_key=keys.exact, semantic_key=keys.semantic,
        occurrence=draw(st.integers(0, 2)), request_hash=_keep(made, request),
        exchanges=(Exchange(status=200, body_hash=_keep(made, answer)),), status="ok",
        cache_state=draw(st.sampled_from(["live", "recorded"])), model="m-1", model_served="m-1-x",
        params={"temperature": 0.5}, finish_reasons=("stop",),
        usage=Usage(
            input_tokens=sent,
            output_tokens=got,
            cached_tokens=None if sent is None else draw(st.none() | st.integers(0, sent)),
            reasoning_tokens=None if got is None else draw(st.none() | st.integers(0, got)),
        ),
        cost=draw(st.none() | st.integers(0, 10**9).map(lambda n: Decimal(n) / 10**10)),
        latency_ms=draw(st.integers(0, 9000)) / 4, first_chunk_ms=None, started_at=made.moment(seq),
    )  # fmt: skip


def _keep(made, data):
    made.blobs[content_hash(data)] = data
    return content_hash(data)


CONTENT = {"input_hash", "input_order", "output_hash", "output_order", "request_hash", "exchanges"}


def bare(record):
    """A record without where its content stands."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__ if name not in CONTENT}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    opened = [open_store(f"sqlite:///{folder}/{name}.db", durability="normal") for name in ("here", "there")]
    yield opened
    for store in opened:
        store.close()


def send(desk, recording):
    sent = desk.project.post_spans(
        envelope(thaw(freeze_run(recording, CONTEXT).data), public_key=desk.project.public_key)
    )
    assert sent.outcome == "accepted", sent


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(runs())
def test_a_mirrored_run_comes_back_as_it_was(desk, window, stores, made):
    run, steps, messages, blobs = made
    here, there = stores
    here.write(*steps, *messages, run, blobs=blobs).result()
    before = here.recording(run.id)
    desk.server.reset()
    send(desk, before)
    result = import_runs(there, desk.project, window, sleep=lambda _: None)
    assert (result.left_out, result.imported) == ([], [run.id])
    after = there.recording(run.id)
    assert bare(after.run) == {**bare(before.run), "fidelity": "imported", "owner": ""}
    assert [bare(step) for step in after.steps] == [bare(step) for step in before.steps]
    assert [bare(one) for one in after.messages] == [bare(one) for one in before.messages]
    for ours, theirs in zip(after.steps, before.steps, strict=True):
        for name in ("input_hash", "output_hash"):
            told, kept = getattr(ours, name), getattr(theirs, name)
            assert (told is None) == (kept is None)
            if told is not None:
                assert plain(after.read(told)) == plain(before.read(kept))
    for ours, theirs in zip(after.messages, before.messages, strict=True):
        assert ours.answer.status == theirs.answer.status
    again = import_runs(there, desk.project, dataclasses.replace(window, since=BEGIN - timedelta(days=2)))
    assert (again.imported, again.updated, again.unchanged) == ([], [], 1)
    back = import_runs(here, desk.project, window, sleep=lambda _: None)
    assert (back.recorded, back.imported) == (1, []), "what was recorded here stays as it is"
    assert here.recording(run.id).run == before.run


AGENT = """
import openai
import harness

URL = {}


@harness.tool(determinism="deterministic")
def find(query):
    return [query.upper(), {"n": 1.5}]


@harness.step(ignore=("stamp",))
def draft(text, stamp):
    client = harness.wrap(openai.OpenAI(base_url=URL["base"], api_key="sk-test-0123456789", max_retries=0))
    said = client.chat.completions.create(
        model="m-1", messages=[{"role": "user", "content": text}], temperature=0.5, stop=["END"]
    )
    pieces = client.chat.completions.create(model="m-1", messages=[{"role": "user", "content": "go"}], stream=True)
    client.embeddings.create(model="e-1", input=[text])
    return said.choices[0].message.content + "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)


@harness.workflow("desk")
def desk(text):
    return {"reply": draft(find(text)[0], str(harness.uuid()))}
"""


@pytest.fixture
def recorded(tmp_path, stores):
    """A run as it is recorded in life: a tool, a step, a plain and a streamed answer, an embedding."""
    (tmp_path / "own_agent.py").write_text(AGENT, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    module = importlib.import_module("own_agent")
    with ScriptedServer() as provider:
        module.URL["base"] = provider.url
        outcome = live_run(module.desk, {"text": "hello"}, sink=stores[0])
    sys.path.remove(str(tmp_path))
    del sys.modules["own_agent"]
    assert outcome.error is None
    stores[0].flush()
    return stores[0].recording(outcome.run.run.id)


def in_window(recording):
    return Window(since=recording.run.started_at - timedelta(hours=1), until=datetime.now(UTC) + timedelta(hours=1))


def test_a_run_from_life_comes_back_with_its_keys_and_words(desk, stores, recorded):
    send(desk, recorded)
    result = import_runs(stores[1], desk.project, in_window(recorded), sleep=lambda _: None)
    assert (result.left_out, result.imported) == ([], [recorded.run.id])
    after = stores[1].recording(recorded.run.id)
    assert [bare(step) for step in after.steps] == [bare(step) for step in recorded.steps]
    names = {"provider", "params"}
    for ours, theirs in zip(after.messages, recorded.messages, strict=True):
        kept, had = bare(ours), bare(theirs)
        assert {k: v for k, v in kept.items() if k not in names} == {k: v for k, v in had.items() if k not in names}
        asked = request_view(ours.endpoint, after.read(ours.request_hash))
        assert asked.messages == request_view(theirs.endpoint, recorded.read(theirs.request_hash)).messages
        exchanges = (
            (ours.answer, after.read(ours.answer.body_hash)),
            (theirs.answer, recorded.read(theirs.answer.body_hash)),
        )
        told, said = (view_response(ours.endpoint, *pair) for pair in exchanges)
        assert (told.text, told.model_served) == (said.text, said.model_served)
    plain_call = after.messages[0]
    keys = request_keys("POST", plain_call.endpoint, after.read(plain_call.request_hash))
    assert keys.exact == plain_call.exact_key, "what was asked is told completely"
    assert stores[1].check().ok


def test_what_does_not_agree_is_a_strangers_trace(desk, stores, recorded):
    spans = [json.loads(span) for span in thaw(freeze_run(recorded, CONTEXT).data)]
    for attribute in spans[1]["attributes"]:
        if attribute["key"].endswith("metadata.goldfork"):
            meta = json.loads(attribute["value"]["stringValue"])
            row = json.dumps({**json.loads(meta["row"]), "seq": 0})
            attribute["value"]["stringValue"] = json.dumps({**meta, "row": row})
    desk.project.post_spans(envelope([json.dumps(span).encode() for span in spans]))
    result = desk.load(in_window(recorded))
    assert result.left_out == []
    found = desk.store.recording(result.imported[0])
    assert found.run.id != recorded.run.id
    assert (len(found.steps), len(found.messages)) == (len(recorded.steps), len(recorded.messages))


def test_a_trace_that_claims_parts_of_another_run_stays_out(desk, stores, recorded):
    here = stores[0]
    other = str(uuid.uuid4())
    records = [
        dataclasses.replace(recorded.run, id=other),
        *(dataclasses.replace(step, run_id=other) for step in recorded.steps),
    ]
    claim = dataclasses.replace(recorded, run=records[0], steps=tuple(records[1:]), messages=())
    send(desk, claim)
    result = import_runs(here, desk.project, in_window(recorded), sleep=lambda _: None)
    assert result.imported == []
    assert [reason for _, reason in result.left_out if recorded.run.id in reason]
    assert here.recording(recorded.run.id).steps == recorded.steps


def test_imported_twice_from_a_mirror_that_somebody_added_to(desk, stores, recorded, span):
    send(desk, recorded)
    store, window = desk.store, in_window(recorded)
    assert import_runs(store, desk.project, window).imported == [recorded.run.id]
    trace = desk.server.rows[0].trace_id
    body = json.loads(envelope([b"{}"], public_key=desk.project.public_key))
    begin = str(int(recorded.run.started_at.timestamp() * 1000) * 1_000_000)
    extra = {
        "traceId": trace,
        "spanId": "ab" * 8,
        "name": "added",
        "startTimeUnixNano": begin,
        "endTimeUnixNano": begin,
    }
    body["resourceSpans"][0]["scopeSpans"][0]["spans"] = [extra]
    assert desk.project.post_spans(json.dumps(body).encode()).outcome == "accepted"
    again = import_runs(store, desk.project, window)
    assert (again.imported, again.updated, again.unchanged) == ([], [], 1)
    assert len(store.runs()) == 1
