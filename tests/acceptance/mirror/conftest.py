"""A store full of runs, a clock that jumps, and what a faithful mirror of that store looks like."""

import hashlib
import json
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from harness.mirror import Project, Sender, span_id, trace_id
from harness.record import Exchange, MessageRecord, RunRecord, StepRecord, Usage
from harness.store import open_store
from harness.testing.langfuse_server import LangfuseServer

START = datetime(2026, 11, 30, 10, 0, 0, 123456, tzinfo=UTC)
EXPERIMENT = "0198c0de-0000-7000-8000-00000000e001"


def digest(content):
    return hashlib.sha256(content).hexdigest()


def fixed_id(kind, *parts):
    """The same id on every run of the tests."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([kind, *parts])))


def records(number, *, steps=2, scored=False):
    """Run ``number``: a root, ``steps`` steps below it, one message in each; with all content.

    Returns:
        The records in order of writing, and the content by hash.
    """
    run_id = fixed_id("run", number)
    started = START + timedelta(seconds=number)
    run = RunRecord(
        id=run_id,
        workflow="triage",
        status="ok",
        mode="live",
        started_at=started,
        ended_at=started + timedelta(seconds=2),
        tags=("nightly",),
        metadata={"user_id": f"user-{number % 7}", "session_id": f"session-{number % 5}"},
        experiment=EXPERIMENT if scored else None,
        case=f"case-{number:05d}" if scored else None,
    )
    root = StepRecord(
        id=fixed_id("step", number, 0),
        run_id=run_id,
        parent_id=None,
        seq=0,
        name="triage",
        kind="agent",
        scope="",
        occurrence=0,
        key=digest(b"triage"),
        status="ok",
        started_at=started,
        duration_ms=2000.0,
    )
    made, blobs, seq = [run, root], {}, 1
    for place in range(steps):
        begun = started + timedelta(milliseconds=100 * (place + 1))
        step = replace(
            root,
            id=fixed_id("step", number, place + 1),
            parent_id=root.id,
            seq=seq,
            name=f"step-{place}",
            kind="job",
            scope="triage",
            started_at=begun,
            duration_ms=80.5,
        )
        request = json.dumps(
            {"model": "m-1", "messages": [{"role": "user", "content": f"question {place} of run {number}"}]}
        ).encode()
        response = json.dumps(
            {
                "id": f"r-{number}-{place}",
                "object": "chat.completion",
                "created": 1,
                "model": "m-1",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": f"answer {place} of run {number}"},
                    }
                ],
                "usage": {"prompt_tokens": 100 + number, "completion_tokens": 7, "total_tokens": 107 + number},
            }
        ).encode()
        blobs |= {digest(request): request, digest(response): response}
        message = MessageRecord(
            id=fixed_id("message", number, place),
            run_id=run_id,
            step_id=step.id,
            seq=seq + 1,
            scope=f"triage/step-{place}",
            method="POST",
            endpoint="/chat/completions",
            provider="127.0.0.1:8080",
            exact_key=digest(request),
            semantic_key=digest(request[::-1]),
            occurrence=0,
            request_hash=digest(request),
            exchanges=(
                Exchange(status=200, headers=(("content-type", "application/json"),), body_hash=digest(response)),
            ),
            status="ok",
            model="m-1",
            model_served="m-1",
            usage=Usage(input_tokens=100 + number, output_tokens=7),
            cost=Decimal("0.000123"),
            latency_ms=60.0,
            started_at=begun + timedelta(milliseconds=5),
        )
        made += [step, message]
        seq += 2
    return made, blobs


@dataclass(frozen=True)
class Row:
    """One observation that must be in the mirror, once."""

    trace: str
    id: str
    parent: str | None
    start: int
    usage: tuple[int, int] | None
    cost: Decimal | None


def expected_rows(made):
    """What the records of one run look like at the other end, in the order of the records."""
    found = []
    for record in made:
        if isinstance(record, StepRecord):
            parent = None if record.parent_id is None else span_id("step", record.parent_id)
            usage = cost = None
            kind = "step"
        elif isinstance(record, MessageRecord):
            parent, kind = span_id("step", record.step_id), "message"
            usage, cost = (record.usage.input_tokens, record.usage.output_tokens), record.cost
        else:
            continue
        start = int(record.started_at.timestamp() * 1000)
        found.append(Row(trace_id(record.run_id), span_id(kind, record.id), parent, start, usage, cost))
    return found


def seen_rows(server):
    """What the server holds once it has merged."""
    server.merge()
    rows = []
    for row in server.observations():
        usage = row.get("usageDetails") or None
        cost = (row.get("costDetails") or {}).get("total")
        start = datetime.fromisoformat(row["startTime"])
        rows.append(
            Row(
                row["traceId"],
                row["id"],
                row["parentObservationId"],
                round(start.timestamp() * 1000),
                None if usage is None else (usage["input"], usage["output"]),
                None if cost is None else Decimal(str(cost)),
            )
        )
    return rows


def fill(store, count, *, first=0, steps=2, scores=0):
    """Write runs, the first ``scores`` of them with a trial and a score each.

    Returns:
        The rows that must be in the mirror.
    """
    rows, futures = [], []
    for number in range(first, first + count):
        made, blobs = records(number, steps=steps, scored=number - first < scores)
        rows += expected_rows(made)
        # The final record of a run comes last, as in a real run.
        futures.append(store.write(*made[1:], made[0], blobs=blobs))
    for future in futures:
        future.result()
    if scores:
        score(store, range(first, first + scores))
    return rows


def score(store, numbers):
    """One experiment with a trial and a score for each of these runs."""
    store.save("experiments", [{"id": EXPERIMENT, "dataset": "triage", "started_at": START, "status": "ok"}])
    cases = [(f"case-{number:05d}", fixed_id("run", number), number) for number in numbers]
    store.save(
        "trials",
        [
            {"experiment": EXPERIMENT, "case": case, "arm": "recorded", "trial": 0, "run_id": run, "status": "ok"}
            for case, run, _ in cases
        ],
    )
    store.save(
        "scores",
        [
            {
                "experiment": EXPERIMENT,
                "case": case,
                "arm": "recorded",
                "trial": 0,
                "evaluator": "exact",
                "name": "exact",
                "status": "scored",
                "value": number % 3 / 2,
                "reason": f"because {number}",
            }
            for case, _, number in cases
        ],
    )


class Clock:
    """Simulated time for the sender and the server alike."""

    def __init__(self):
        # Ahead of the clock on the wall, which the store stamps new entries with.
        self.now = datetime.now(UTC) + timedelta(hours=1)

    def __call__(self):
        return self.now

    def unix(self):
        return self.now.timestamp()

    def sleep(self, seconds):
        self.now += timedelta(seconds=seconds)


def drive(sender, clock, *, until=lambda: False, hours=400.0, merge=None):
    """Let the sender work, time jumping to where something happens, until nothing is left.

    Returns:
        Whether nothing is left.
    """
    end = clock.now + timedelta(hours=hours)
    pause = 1.0
    while clock.now < end and not until():
        progress = sender.run_once()
        if progress.tally.worked:
            pause = 1.0
            continue
        if sender.left == 0:
            return True
        if merge is not None:
            merge()
        # Idle: what is due next is seconds to an hour away.
        clock.sleep(max(progress.wait, pause))
        pause = min(pause * 1.5, 120.0)
    return sender.left == 0


def tomorrow():
    return datetime.now(UTC) + timedelta(days=1)


def once_each(rows):
    """The ids that are there more than once; empty when all is well."""
    return {key for key, times in Counter((row.trace, row.id) for row in rows).items() if times > 1}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path / 'goldfork.db'}", durability="normal") as opened:
        yield opened


@pytest.fixture
def server(clock):
    with LangfuseServer(clock=clock.unix) as running:
        yield running


def project_of(server, **changes):
    keys = {"public_key": server.public_key, "secret_key": server.secret_key, "base_url": server.url, "timeout": 5.0}
    return Project(**{**keys, **changes})


@pytest.fixture
def sender(store, server, clock):
    made = Sender(store, project_of(server, clock=clock), clock=clock, sleep=clock.sleep, jitter=lambda: 0.5)
    yield made
    made.close()


@pytest.fixture
def fleet():
    """The helpers of this file, since test files do not import each other."""
    import types

    return types.SimpleNamespace(**{name: value for name, value in globals().items() if not name.startswith("_")})
