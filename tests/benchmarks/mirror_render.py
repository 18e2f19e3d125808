"""Spans rendered, redacted and frozen a second on one core: what the mirror costs before anything is sent.

    python tests/benchmarks/mirror_render.py [--quick]

A run has a root, three steps and four messages of one conversation. *fresh*: the texts of every run are its own.
*redact*: the same text through the redactor's scan alone, in MB of text a second.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256

from measuring import heading, options, say, table

from harness.canonical import canonical_json
from harness.mirror import Context, freeze_run, thaw
from harness.record import Exchange, MessageRecord, Recording, RunRecord, StepRecord, Usage
from harness.redact import scan

START = datetime(2026, 11, 30, 10, 0, 0, 123456, tzinfo=UTC)
CONTEXT = Context(environment="production", release="1.0", run_url="")
WORDS = str.split(
    "the customer ordered a lamp on Monday and it has not arrived yet; please check order 4711-88 of 2026-11-03, total "
    "49.90 EUR, key account: no, and answer kindly in two sentences. Refunds over 100 need approval by the team lead."
)


@dataclass
class Maker:
    """Makes runs with texts of their own."""

    dice: random.Random = field(default_factory=lambda: random.Random(7))
    blobs: dict[str, bytes] = field(default_factory=dict)
    text: int = 0

    def words(self, size: int) -> str:
        """About ``size`` characters."""
        said = ""
        while len(said) < size:
            said += " ".join(self.dice.choices(WORDS, k=40)) + "\n"
        self.text += size
        return said[:size]

    def put(self, data: bytes) -> str:
        """Keep content."""
        digest = sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def id(self) -> str:
        """An id as the product makes them."""
        return str(uuid.UUID(int=self.dice.getrandbits(128), version=4))

    def run(self) -> Recording:
        """A root, three steps, four messages."""
        run_id = self.id()
        given, made = {"ticket": self.words(1500)}, {"reply": self.words(800)}
        root = StepRecord(
            id=self.id(), run_id=run_id, parent_id=None, seq=0, name="triage", kind="agent", scope="", occurrence=0,
            key=sha256(b"k").hexdigest(), status="ok", input_hash=self.put(canonical_json(given)),
            output_hash=self.put(canonical_json(made)), started_at=START, duration_ms=4000.0,
        )  # fmt: skip
        steps, messages = [root], list[MessageRecord]()
        turns = [{"role": "system", "content": self.words(1500)}]
        for place in range(3):
            steps.append(self.step(run_id, root.id, place))
            for _ in range(2 if place == 2 else 1):
                turns.append({"role": "user", "content": self.words(1000)})
                answer = self.words(1200)
                messages.append(self.message(run_id, steps[-1], len(messages), turns, answer))
                turns.append({"role": "assistant", "content": answer})
        run = RunRecord(
            id=run_id, workflow="triage", status="ok", mode="live", started_at=START,
            ended_at=START + timedelta(seconds=4), tags=("nightly",), metadata={"user_id": "user-7", "tier": "gold"},
            input_hash=root.input_hash, output_hash=root.output_hash,
        )  # fmt: skip
        return Recording(
            run=run, steps=tuple(steps), messages=tuple(messages), volatile=(), read=self.blobs.__getitem__
        )

    def step(self, run_id: str, root: str, place: int) -> StepRecord:
        """One of the three."""
        return StepRecord(
            id=self.id(), run_id=run_id, parent_id=root, seq=1 + 10 * place,
            name=("classify", "search", "draft")[place],
            kind="tool" if place == 1 else "job", scope="triage", occurrence=0,
            key=sha256(b"s").hexdigest(), status="ok", input_hash=self.put(canonical_json({"text": self.words(700)})),
            output_hash=self.put(canonical_json([self.words(700)])), duration_ms=900.5,
            started_at=START + timedelta(seconds=place),
        )  # fmt: skip

    def message(
        self, run_id: str, step: StepRecord, number: int, turns: list[dict[str, str]], answer: str
    ) -> MessageRecord:
        """One turn of the conversation; the request repeats those before, up to 4 KB."""
        request = {"model": "gpt-5-mini", "temperature": 0, "messages": [turns[0], *turns[1:][-3:]]}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
        usage = {"prompt_tokens": 900, "completion_tokens": 300, "total_tokens": 1200}
        response = {"id": f"r-{number}", "model": "gpt-5-mini", "choices": [choice], "usage": usage}
        return MessageRecord(
            id=self.id(), run_id=run_id, step_id=step.id, seq=step.seq + 1 + number, scope=f"triage/{step.name}",
            method="POST", endpoint="/chat/completions", provider="api.example.org", exact_key=sha256(b"e").hexdigest(),
            semantic_key=sha256(b"m").hexdigest(), occurrence=0, request_hash=self.put(json.dumps(request).encode()),
            exchanges=(Exchange(status=200, headers=(("content-type", "application/json"),),
                                body_hash=self.put(json.dumps(response).encode())),),
            status="ok", model="gpt-5-mini", model_served="gpt-5-mini", params={"temperature": 0},
            usage=Usage(input_tokens=900, output_tokens=300, cached_tokens=500), cost=Decimal("0.00045"),
            finish_reasons=("stop",), latency_ms=800.0, first_chunk_ms=200.0, started_at=step.started_at,
        )  # fmt: skip


def _pinned() -> str:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    return f"core {cores[-1]} of {len(cores)}"


def main() -> None:
    """Measure and print."""
    quick = options(__doc__ or "").parse_args().quick
    where = _pinned()
    maker = Maker()
    runs = [maker.run() for _ in range(100 if quick else 500)]
    began = time.process_time()
    frozen = [freeze_run(run, CONTEXT) for run in runs]
    spent = time.process_time() - began
    spans = sum(len(run.span_ids) for run in frozen)
    size = sum(len(span) for run in frozen for span in thaw(run.data))
    texts = [maker.words(2000) for _ in range(1000)]
    began = time.process_time()
    found = sum(len(scan(text)) for text in texts)
    scanned = time.process_time() - began
    say(heading(["orjson"], also={"pinned to": where}))
    row = [
        f"{len(runs):,}",
        f"{spans / len(runs):.0f}",
        f"{size / spans:,.0f}",
        f"{spans / spent:,.0f}",
        f"{sum(map(len, texts)) / scanned / 1e6:,.1f}",
        f"{found:,}",
    ]
    say(table(["runs", "spans a run", "bytes a span", "spans per CPU second", "scan, MB/s", "findings"], [row]))


if __name__ == "__main__":
    main()
