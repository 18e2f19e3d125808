"""A small recording, and a dataset to put it in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.dataset import Case, GoldenDataset
from harness.record import Exchange, MessageRecord, Recording, RunRecord, StepRecord, VolatileRecord

MOMENT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Blobs(dict[str, bytes]):
    """Content by hash."""

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self[digest] = data
        return digest

    def json(self, value: Any) -> str:
        return self.put(json.dumps(value).encode())


def message(blobs: Blobs, seq: int, body: Mapping[str, Any], reply: str, **fields: Any) -> MessageRecord:
    request = blobs.json(body)
    answer = blobs.json({"choices": [{"message": {"role": "assistant", "content": reply}}]})
    exchange = Exchange(status=200, headers=(("content-type", "application/json"),), body_hash=answer)
    defaults: dict[str, Any] = {
        "id": f"message-{seq}",
        "run_id": "run-1",
        "step_id": "step-1",
        "seq": seq,
        "scope": "draft",
        "method": "POST",
        "endpoint": "/chat/completions",
        "provider": "recorded",
        "exact_key": request,
        "semantic_key": request,
        "occurrence": 0,
        "request_hash": request,
        "exchanges": (exchange,),
        "status": "ok",
        "started_at": MOMENT,
    }
    return MessageRecord(**{**defaults, **fields})


def step(step_id: str, seq: int, value: str, **fields: Any) -> StepRecord:
    defaults: dict[str, Any] = {
        "id": step_id,
        "run_id": "run-1",
        "parent_id": None,
        "seq": seq,
        "name": "draft",
        "kind": "agent",
        "scope": "",
        "occurrence": 0,
        "key": value,
        "status": "ok",
        "input_hash": value,
        "started_at": MOMENT,
    }
    return StepRecord(**{**defaults, **fields})


def conversation(turns: int, words: int = 50) -> Recording:
    """A run in which each turn sends everything said before; every turn is equally long."""
    blobs = Blobs()
    said: list[dict[str, str]] = [{"role": "system", "content": "You are a clerk. " * 20}]
    messages: list[MessageRecord] = []
    inner: list[StepRecord] = []
    tools = [{"type": "function", "function": {"name": "find", "description": "Finds things. " * 60}}]
    for turn in range(turns):
        said.append({"role": "user", "content": f"question {turn:04d} " * words})
        body = {"model": "m", "messages": said, "tools": tools, "temperature": 0}
        inner.append(step(f"turn-{turn}", 2 * turn + 2, blobs.json({"said": said}), parent_id="step-1"))
        messages.append(message(blobs, 2 * turn + 3, body, f"answer {turn:04d} " * 10))
        said.append({"role": "assistant", "content": f"answer {turn:04d} " * 10})
    value = blobs.json({"ticket": "Where is my parcel?"})
    run = RunRecord(
        id="run-1", workflow="triage", status="ok", mode="live", started_at=MOMENT, input_hash=value, output_hash=value
    )
    steps = (step("step-1", 1, value), *inner)
    volatile = VolatileRecord(run_id="run-1", scope="draft", name="now", occurrence=0, value=1764504000.0)
    return Recording(run=run, steps=steps, messages=tuple(messages), volatile=(volatile,), read=blobs.__getitem__)


@pytest.fixture
def talk() -> Callable[..., Recording]:
    """Makes a recording of that many turns."""
    return conversation


@pytest.fixture
def dataset(tmp_path: Path) -> GoldenDataset:
    """A dataset with two recorded, approved cases, not yet frozen."""
    made = GoldenDataset.create(tmp_path / "triage", target="app.pipeline:triage")
    for case_id, turns in (("late", 2), ("lost", 3)):
        made.put_case(Case(id=case_id, input={"ticket": case_id}, approver="ann"))
        made.put_recording(case_id, conversation(turns))
    return made
