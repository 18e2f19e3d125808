"""The pytest plugin in a user's own project: marked tests answer from a recording, and never call."""

import os
import subprocess
import sys

from harness.testing import ScriptedServer

AGENT = """
import os
import openai
import harness

client = harness.wrap(openai.OpenAI(base_url=os.environ["URL"], api_key="sk-test-0123456789", max_retries=0))


@harness.workflow("desk")
def desk(text):
    message = {"role": "user", "content": text}
    return client.chat.completions.create(model="m", messages=[message]).choices[0].message.content
"""
TESTS = """
import pytest
from desk import desk


@pytest.mark.goldfork("desk")
def test_recorded():
    assert desk("parcel") == "answer 0 to parcel"


@pytest.mark.goldfork("desk")
def test_never_recorded():
    desk("something else")
"""


def test_marked_tests_are_answered_from_the_recording_or_fail(tmp_path):
    (tmp_path / "desk.py").write_text(AGENT)
    (tmp_path / "test_desk.py").write_text(TESTS)
    with ScriptedServer() as server:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "URL": server.url}

        def go(*command):
            return subprocess.run(
                [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )

        assert go("-c", "import desk; desk.desk('parcel')").returncode == 0
        asked = len(server.requests)
        done = go("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_desk.py")
        assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
        assert "RecordingMissing" in done.stdout
        assert len(server.requests) == asked
        assert go("-m", "pytest", "-q", "--goldfork-mode", "auto", "test_desk.py").returncode == 0
        assert len(server.requests) == asked + 1
