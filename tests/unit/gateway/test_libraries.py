"""Neither HTTP library is loaded for nothing, and one of them is enough."""

import subprocess
import sys

import pytest

from harness.errors import UsageError
from harness.gateway import wrap

LIGHT = """
import sys
import harness.gateway, harness.record
heavy = {"httpx", "httpx2", "openai", "sqlalchemy", "pydantic", "pydantic_settings", "numpy"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""

ONLY = """
import sys
sys.modules["{missing}"] = None
import {present} as library
from harness.gateway import install, wrap
from harness.session import Mode, RecordedAnswers, RunPlan, planned
from harness.testing import MemorySink, chat_answer

reply = library.Response(200, json=chat_answer("hi"))
client = wrap(library.Client(transport=library.MockTransport(lambda request: reply)))
sink = MemorySink()
ask = lambda: client.post("http://host/v1/chat/completions", json={{"model": "m"}}).json()
with install(), planned(RunPlan(mode=Mode.LIVE, sink=sink)):
    live = ask()
with planned(RunPlan(mode=Mode.REPLAY, sink=sink, resolver=RecordedAnswers(sink.recording()))):
    assert ask() == live
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_the_gateway_is_light():
    run(LIGHT)


@pytest.mark.parametrize(("present", "missing"), [("httpx2", "httpx"), ("httpx", "httpx2")])
def test_one_library_is_enough(present, missing):
    run(ONLY.format(present=present, missing=missing))


def test_an_object_without_an_http_client_cannot_be_wrapped():
    with pytest.raises(UsageError, match=r"cannot wrap 'object'.*harness\.install\(\)"):
        wrap(object())
