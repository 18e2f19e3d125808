"""Recorded model calls on their way through a dataset: replayed without a provider, and missed when deleted."""

from __future__ import annotations

import httpx
import pytest

from harness.curation import Draft, snapshot, stage
from harness.dataset import GoldenDataset
from harness.gateway import wrap
from harness.pipeline import step, workflow
from harness.replay import live_run, replay_run
from harness.testing import MemorySink, ScriptedServer

KEY = "sk-MARK-0123456789abcdefghij"
TURNS = 3


class Sinks:
    """Runs in a sink, found by id."""

    def __init__(self, sink: MemorySink) -> None:
        self.sink = sink

    def recording(self, ref, *, arm="recorded", trial=0):
        return self.sink.recording(ref)


def make(client: httpx.Client):
    @step
    def ask(said: list) -> str:
        reply = client.post("/chat/completions", json={"model": "m", "messages": said})
        return reply.json()["choices"][0]["message"]["content"]

    @workflow("talk")
    def talk(topic: str) -> dict:
        said: list = [{"role": "system", "content": "Talk."}]
        for turn in range(TURNS):
            said = [*said, {"role": "user", "content": f"{topic} {turn} " * 60}]
            said = [*said, {"role": "assistant", "content": ask(said)}]
        return {"said": said}

    return talk


@pytest.fixture
def talk():
    with ScriptedServer() as server, httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {KEY}"}) as c:
        wrapped = wrap(c)
        yield make(wrapped)
        wrapped.close()


@pytest.fixture
def dataset(tmp_path, talk) -> GoldenDataset:
    """Two frozen cases of three model calls each."""
    sink = MemorySink()
    made = GoldenDataset.create(tmp_path / "talks", target="")
    for topic in ("cats", "dogs"):
        run = live_run(talk, {"topic": topic}, sink=sink).run.run
        stage(Sinks(sink), run.id, made, draft=Draft(id=topic))
    snapshot(made, approve="ann", accept_findings=True)
    return made


def replayed(dataset: GoldenDataset, talk) -> dict[str, str]:
    return {case.id: replay_run(dataset.recording(case.id), target=talk).status for case in dataset.cases}


def test_cases_replay_from_their_files(dataset, talk) -> None:
    for case in dataset.cases:
        outcome = replay_run(dataset.recording(case.id), target=talk)
        assert outcome.diff.output_equal
        assert outcome.counts.provider_calls == 0
        assert outcome.output == case.expected_output


def test_a_deleted_message_line_fails_that_case_alone(dataset, talk) -> None:
    path = dataset.path / f"recordings/{dataset.arms('cats')[0].digest}.jsonl"
    lines = path.read_bytes().split(b"\n")
    index = next(n for n, line in enumerate(lines) if b'"record":"message"' in line)
    path.write_bytes(b"\n".join(lines[:index] + lines[index + 1 :]))
    done = snapshot(dataset, accept_findings=True)
    assert (done.frozen.version, len(done.readdressed)) == (2, 1)
    assert dataset.verify() == ()
    assert replayed(dataset, talk) == {"cats": "missing", "dogs": "ok"}


def test_no_key_and_no_host_reaches_the_folder(dataset) -> None:
    written = b"".join(path.read_bytes() for path in dataset.path.rglob("*") if path.is_file())
    assert b"MARK" not in written
    assert b"127.0.0.1" not in written
    assert b"localhost" not in written
