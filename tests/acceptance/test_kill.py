"""A live run killed at any moment: what the caller had in hand is in the store."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from harness.store import open_store
from harness.testing import ScriptedServer

AGENT = """
import os, sys
import openai
import harness

client = harness.wrap(openai.OpenAI(base_url=sys.argv[1], api_key="sk-test-0123456789"))
witness = os.open("witness", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@harness.step
def ask(i):
    if i % 3:
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"call {i}"}])
        return reply.id
    pieces = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"call {i}"}], stream=True
    )
    return [piece.id for piece in pieces][-1]


@harness.workflow("killed")
def run():
    i = 0
    while True:
        name = ask(i)
        os.write(witness, f"{name}\\n".encode())
        os.fsync(witness)
        i += 1


run()
"""


def killed_run(folder, url, wait):
    """Start the agent, let it work for a while after its first reply, kill it, and return what it had seen."""
    (folder / "agent.py").write_text(AGENT)
    environment = {**os.environ, "GOLDFORK_HOME": str(folder / "state"), "GOLDFORK_MODE": "live"}
    child = subprocess.Popen([sys.executable, "agent.py", url], cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    witness = folder / "witness"
    deadline = time.monotonic() + 60
    while not (witness.exists() and witness.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(wait)
    child.send_signal(signal.SIGKILL)
    child.wait()
    return witness.read_text().split()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_what_the_caller_had_in_hand_is_in_the_store(tmp_path, seed):
    with ScriptedServer() as server:
        seen = killed_run(tmp_path, server.url, random.Random(seed).uniform(0, 0.25))
    assert seen
    store = open_store(f"sqlite:///{tmp_path / 'state' / 'goldfork.db'}")
    try:
        [summary] = store.runs()
        recording = store.recording(summary.id)
        bodies = b"".join(
            recording.read(exchange.body_hash)
            for message in recording.messages
            for exchange in message.exchanges
            if message.status == "ok" and exchange.body_hash
        )
        assert [name for name in seen if name.encode() not in bodies] == []
        assert summary.status == "abandoned"
        report = store.check()
        assert report.ok, report.faults
    finally:
        store.close()
