"""A store on each database, and records to put into it."""

import hashlib
import itertools
import json
import os
import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from harness.record import Exchange, MessageRecord, RunRecord, StepRecord, Usage
from harness.store import open_store

_START = datetime(2026, 11, 30, 10, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def store(url):
    with open_store(url, durability="normal") as opened:
        yield opened


class Records:
    """Makes valid records; every id is new."""

    def __init__(self):
        self._random = random.Random(7)
        self._ids = itertools.count(1)

    @staticmethod
    def hash(content):
        return hashlib.sha256(content).hexdigest()

    def id(self):
        return str(uuid.UUID(int=(next(self._ids) << 80) | (0x7 << 76) | (0b10 << 62) | self._random.getrandbits(60)))

    def run(self, **changes):
        made = RunRecord(
            id=self.id(),
            workflow="triage",
            status="running",
            mode="live",
            owner=f"{os.uname().nodename}:{os.getpid()}:{2**42}",
            started_at=_START,
        )
        return replace(made, **changes)

    def done(self, run, **changes):
        return replace(run, **{"status": "ok", "ended_at": run.started_at + timedelta(seconds=2), **changes})

    def step(self, run, **changes):
        made = StepRecord(
            id=self.id(),
            run_id=run.id,
            parent_id=None,
            seq=0,
            name="draft",
            kind="agent",
            scope="",
            occurrence=0,
            key=self.hash(b"draft"),
            status="ok",
            started_at=_START,
            duration_ms=1.5,
        )
        return replace(made, **changes)

    def message(self, run, request, response=b"{}", **changes):
        """A finished message; its content is ``records.blobs(request, response)``."""
        made = MessageRecord(
            id=self.id(),
            run_id=run.id,
            step_id=None,
            seq=1,
            scope="draft",
            method="POST",
            endpoint="/chat/completions",
            provider="127.0.0.1:8080",
            exact_key=self.hash(request),
            semantic_key=self.hash(request[::-1]),
            occurrence=0,
            request_hash=self.hash(request),
            exchanges=(
                Exchange(
                    status=200,
                    headers=(("content-type", "application/json"), ("x-request-id", "req_1")),
                    body_hash=self.hash(response),
                ),
            ),
            status="ok",
            model="m-1",
            params={"temperature": 0.1, "seed": 42},
            usage=Usage(input_tokens=11, output_tokens=7),
            cost=Decimal("0.000123"),
            finish_reasons=("stop",),
            latency_ms=12.5,
            started_at=_START,
        )
        return replace(made, **changes)

    def blobs(self, *contents):
        return {self.hash(content): content for content in contents}


@pytest.fixture
def records():
    return Records()


class Conversation:
    """A growing conversation: 10 tools, a 2 KB system prompt, about 1.3 KB of new content a turn. Fixed seed."""

    def __init__(self):
        self._random = random.Random(20261130)
        syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ar", "en", "il")]
        self._words = ["".join(self._random.choices(syllables, k=self._random.randint(1, 4))) for _ in range(4000)]
        self._weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(len(self._words))))
        self._tools = [
            {
                "type": "function",
                "function": {
                    "name": f"tool_{number}",
                    "description": self._text(240),
                    "parameters": {
                        "type": "object",
                        "properties": {
                            name: {"type": "string", "description": self._text(60)} for name in ("query", "customer")
                        },
                        "required": ["query"],
                        "additionalProperties": False,
                    },
                },
            }
            for number in range(10)
        ]
        self._messages = [{"role": "system", "content": self._text(2048)}]

    def _text(self, size):
        words = []
        length = 0
        while length < size:
            words.append(self._random.choices(self._words, cum_weights=self._weights)[0])
            length += len(words[-1]) + 1
        return " ".join(words)[:size]

    def turn(self, number):
        """The next turn: request bytes, response bytes, headers."""
        self._messages.append({"role": "user", "content": self._text(500)})
        request = _compact(
            {"messages": self._messages, "model": "gpt-5-mini", "tools": self._tools, "temperature": 0.2}
        )
        answer = {"role": "assistant", "content": self._text(800)}
        response = {
            "id": f"chatcmpl-{self._random.getrandbits(120):x}",
            "object": "chat.completion",
            "created": 1796000000 + number * 7,
            "model": "gpt-5-mini-2026-01-01",
            "choices": [
                {
                    "index": 0,
                    "message": {**answer, "refusal": None, "annotations": []},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": 900 + 330 * number,
                "completion_tokens": 201,
                "total_tokens": 1101 + 330 * number,
            },
            "system_fingerprint": "fp_50cad350e4",
        }
        self._messages.append(answer)
        headers = (
            ("date", f"Mon, 30 Nov 2026 10:{number // 60 % 60:02}:{number % 60:02} GMT"),
            ("content-type", "application/json"),
            ("content-length", str(1100 + number)),
            ("openai-version", "2020-10-01"),
            ("openai-processing-ms", str(self._random.randint(300, 3000))),
            ("x-request-id", f"req_{self._random.getrandbits(128):032x}"),
            ("x-ratelimit-remaining-tokens", str(self._random.randint(100000, 200000))),
        )
        return request, _compact(response), headers


def _compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.fixture
def conversation():
    return Conversation()
