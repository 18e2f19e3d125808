"""Faults on our side reach the caller as what they are, not as a connection error that an SDK retries."""

import os
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import pytest

from harness.errors import DatasetMissing, RecordingMissing
from harness.session import call_frame, entered

ALONE = """
import openai

from harness.errors import RecordingMissing
from harness.gateway import wrap
from harness.testing import ScriptedServer

with ScriptedServer() as server:
    client = wrap(openai.OpenAI(base_url=server.url, api_key="k", max_retries=2))
    try:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    except RecordingMissing as error:
        print(len(server.requests), error)
"""


def test_no_recording_to_replay(tmp_path):
    # A process of its own, since the implicit run of this one may be under way already.
    asked = {"GOLDFORK_MODE": "replay", "GOLDFORK_HOME": str(tmp_path), "GOLDFORK_RECORDING": "unknown"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("0 "), done.stderr
    assert "unknown" in done.stdout


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
