"""Faults on our side reach the caller as what they are, not as a connection error that an SDK retries."""

from dataclasses import replace
from decimal import Decimal

import pytest

from harness.errors import DatasetMissing, RecordingMissing
from harness.session import call_frame, entered


def test_no_recording_to_replay(lab, asking, monkeypatch, tmp_path):
    monkeypatch.setenv("GOLDFORK_MODE", "replay")
    monkeypatch.setenv("GOLDFORK_HOME", str(tmp_path))
    monkeypatch.setenv("GOLDFORK_RECORDING", "unknown")
    client = lab.client(max_retries=2)
    with pytest.raises(RecordingMissing, match="unknown"):
        asking(client)
    assert lab.server.calls == 0


def test_content_that_is_gone(lab, asking):
    client = lab.client()
    lab.live(lambda: asking(client))

    def gone(digest: str) -> bytes:
        raise DatasetMissing(f"no content {digest!r}")

    broken = replace(lab.recording, read=gone)
    with pytest.raises(RecordingMissing, match="lost its content"):
        lab.replay(lambda: asking(client), broken)
    with pytest.raises(RecordingMissing, match="is not recorded"):
        lab.replay(lambda: asking(client, "else"), broken)


def test_prices_of_the_settings_and_the_prompt_of_the_step(lab, asking, monkeypatch):
    monkeypatch.setenv("GOLDFORK_PRICES", '{"m": {"input": "1", "output": "2"}}')
    client = lab.client()

    def work() -> str:
        with entered(call_frame()) as frame:
            frame.step.prompt = ("draft", "abc123")
            return asking(client) + asking(client, model="unpriced")

    lab.live(work)
    first, second = lab.recording.messages
    usage = first.usage
    assert first.cost == (Decimal(usage.input_tokens) + 2 * Decimal(usage.output_tokens)) / 1_000_000
    assert second.cost is None
    assert (first.prompt_name, first.prompt_version, first.params) == ("draft", "abc123", {"temperature": 1})
