"""What our own export writes comes back as the same run: names, kinds, parents, order, models, usage."""

from __future__ import annotations

import io
import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DatasetMissing
from harness.mirror import import_spans
from harness.mirror._otel import spans_of
from harness.record import Exchange, MessageRecord, Recording, RunRecord, StepRecord, Usage
from harness.store import open_store

START = datetime(2026, 11, 30, 10, tzinfo=UTC)
counts = st.none() | st.integers(0, 10**9)
usages = st.builds(Usage, input_tokens=counts, output_tokens=counts, cached_tokens=counts, reasoning_tokens=counts)
words = st.sampled_from(["plan", "draft", "search kb", "prüfen", "a/b", "tidy", "execute_tool x"])
models = st.none() | st.sampled_from(["gpt-5-mini", "text-embedding-3-small", "local/llama"])
endpoints = st.sampled_from(["/chat/completions", "/embeddings", "/responses", "/completions"])


@st.composite
def rows(draw):
    """What is below the root: kind of row, place of the parent among the steps, name, time; and for calls the rest."""
    return [
        (
            draw(st.sampled_from(["agent", "tool", "job", "call", "call"])),
            draw(st.integers(0, 99)),
            draw(words),
            # Clocks stand still, and some go backwards.
            draw(st.integers(-3, 4)),
            (draw(models), draw(usages), draw(endpoints), draw(st.sampled_from(["live", "recorded", "renamed"]))),
        )
        for _ in range(draw(st.integers(0, 12)))
    ]


def made(told, *, status="ok", kind="agent"):
    """A recording of such rows."""
    identifier = str(uuid.uuid4())
    run = RunRecord(id=identifier, workflow="triage", status=status, mode="live", started_at=START,
                    ended_at=START + timedelta(seconds=2), metadata={"session_id": "s"}, tags=("vip",))  # fmt: skip
    common = {"run_id": identifier, "status": "ok", "key": "k"}
    steps = [StepRecord(id=str(uuid.uuid4()), parent_id=None, seq=0, name="triage", kind=kind, scope="", occurrence=0,
                        started_at=START, duration_ms=2000.0, **common)]  # fmt: skip
    messages, at, blobs = [], START, {"0" * 64: b"{}"}
    for seq, (what, place, name, later, (model, usage, endpoint, state)) in enumerate(told, 1):
        at += timedelta(milliseconds=later)
        above = steps[place % len(steps)]
        inside = f"{above.scope}/{above.name}".lstrip("/") if above.parent_id else ""
        if what == "call":
            messages.append(
                MessageRecord(
                    id=str(uuid.uuid4()), run_id=identifier, step_id=above.id, seq=seq, scope=inside, method="POST",
                    endpoint=endpoint, provider="api.example.org", exact_key="e", semantic_key="s", occurrence=0,
                    request_hash="0" * 64, exchanges=(Exchange(status=200, body_hash="0" * 64),), status="ok",
                    model=model, usage=usage, cost=Decimal("0.5"), finish_reasons=("stop",), latency_ms=2.5,
                    cache_state=state, started_at=at))  # fmt: skip
            continue
        steps.append(StepRecord(
            id=str(uuid.uuid4()), parent_id=above.id, seq=seq, name=name, kind=what, scope=inside, occurrence=0,
            started_at=at, duration_ms=1.5, state="called" if what == "tool" else "reused", **common))  # fmt: skip

    def read(digest):
        if digest not in blobs:
            raise DatasetMissing(digest)
        return blobs[digest]

    return Recording(run=run, steps=tuple(steps), messages=tuple(messages), volatile=(), read=read)


def requests(recording, *, content=True, at_once=3):
    """The export of a recording as lines, a few spans each."""
    spans = spans_of(recording, content=content)
    batches = [spans[start : start + at_once] for start in range(0, len(spans), at_once)]
    return [{"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": one}]}]} for one in batches]


def structure(recording):
    """All of it that must come back; parents and steps of messages by their place."""
    places = {step.id: step.seq for step in recording.steps}
    steps = [
        (step.seq, places.get(step.parent_id), step.name, step.kind, step.scope, step.state, step.status,
         step.started_at) for step in recording.steps
    ]  # fmt: skip
    messages = [
        (one.seq, places[one.step_id], one.scope, one.model, one.usage, one.finish_reasons, one.cache_state, one.status,
         one.provider, one.started_at, one.cost if one.cache_state == "live" else Decimal(0))
        for one in recording.messages
    ]  # fmt: skip
    run = recording.run
    return steps, messages, (run.id, run.workflow, run.status, run.mode, run.tags, run.started_at)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('kept')}/s.db", durability="normal") as opened:
        yield opened


def load(store, lines):
    text = "\n".join(map(json.dumps, lines))
    return import_spans(store, [("export.jsonl", io.BytesIO(text.encode()))])


@settings(max_examples=60, deadline=None)
@given(rows(), st.booleans(), st.sampled_from(["agent", "job"]), st.randoms(use_true_random=False))
def test_what_the_export_writes_comes_back_the_same(kept, told, content, kind, random):
    recording = made(told, kind=kind)
    lines = requests(recording, content=content)
    random.shuffle(lines)
    result = load(kept, lines)
    assert (result.imported, result.left_out, result.mended) == ([recording.run.id], [], [])
    back = kept.recording(recording.run.id)
    # The run began where its first row did.
    first = min([row.started_at for row in [*recording.steps, *recording.messages]])
    expected = replace(recording, run=replace(recording.run, started_at=first))
    root = replace(recording.steps[0], started_at=first)
    assert structure(back) == structure(replace(expected, steps=(root, *recording.steps[1:])))
    assert back.run.fidelity == "imported"


def test_a_run_that_is_here_is_recognised_by_its_id(kept):
    recording = made([])
    kept.write(*recording.steps, recording.run).result()
    result = load(kept, requests(recording))
    assert (result.recorded, result.imported) == (1, [])
    assert kept.run(recording.run.id).fidelity == "wire"


def test_what_came_over_langfuse_is_not_replaced_by_spans_that_tell_less(kept):
    recording = made([("job", 0, "tidy", 1, (None, Usage(), "", "live"))])
    kept.write(*recording.steps, replace(recording.run, fidelity="imported", code_version="kept")).result()
    result = load(kept, requests(recording))
    assert (result.unchanged, result.imported, result.updated) == (1, [], [])
    assert kept.run(recording.run.id).code_version == "kept"


def test_who_merely_claims_a_run_gets_one_of_their_own(kept):
    recording, other = made([]), made([])
    lines = requests(recording)
    text = json.dumps(lines).replace(recording.run.id, other.run.id)
    result = load(kept, json.loads(text))
    assert other.run.id not in result.imported
    assert len(result.imported) == 1


def test_an_interrupted_run_is_interrupted(kept):
    recording = made([("job", 0, "tidy", 1, (None, Usage(), "", "live"))], status="interrupted")
    assert kept.recording(load(kept, requests(recording)).imported[0]).run.status == "interrupted"
