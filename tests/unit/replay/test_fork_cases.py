"""Public faults of the field that concern forks, held as tests by their number."""

import os
import pickle
import subprocess
import sys

import pytest
from openai import OpenAI

from harness.canonical import request_keys
from harness.gateway import wrap
from harness.pipeline import NotReusable, restore, step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run
from harness.testing import ScriptedServer

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
CHAT = "/v1/chat/completions"


def form(boundary, text):
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="p"\r\n\r\n{text}\r\n--{boundary}--\r\n'
    return body.encode(), f"multipart/form-data; boundary={boundary}"


def exact(body, kind="application/json"):
    return request_keys("POST", CHAT, body, content_type=kind).exact


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (b'{"model":"m","temperature":1}', b'{ "temperature": 1.0, "model":"m" }', True),
        (b'{"q":"caf\\u00e9"}', '{"q":"café"}'.encode(), True),
        (b'{"stream":true}', b'{"stream":1}', False),
        (b'{"messages":[1,2]}', b'{"messages":[2,1]}', False),
        (b'{"x":null}', b"{}", False),
        (b'{"seed":9007199254740993}', b'{"seed":9007199254740992}', False),
        (b'{"user":"a","metadata":{"k":1}}', b'{"user":"b"}', True),
    ],
)
def test_case_012_what_counts_as_the_same_request_body(left, right, same):
    assert (exact(left) == exact(right)) is same


def test_case_012_a_fresh_boundary_is_no_other_request():
    assert exact(*form("AA", "hello")) == exact(*form("BB", "hello"))
    assert exact(*form("AA", "hello")) != exact(*form("AA", "hullo"))


def test_case_012_keys_do_not_depend_on_hash_seeds():
    code = (
        "from harness.canonical import request_keys;"
        f'print(request_keys(\'POST\', {CHAT!r}, b\'{{"b":[1,{{"d":1,"c":2}}],"a":"\\\\u00e9"}}\').exact)'
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_case_012_a_reordered_body_is_answered_in_a_fork():
    """One canonical form serves matching in a fork as well: another spelling of a request asks nothing anew."""
    with ScriptedServer() as server:
        client = wrap(OpenAI(base_url=server.url, api_key="sk-0123456789abcdef01234567", max_retries=0))
        options = [{"temperature": 1, "seed": 7}]

        @step
        def ask(text, note):
            asked = [{"role": "user", "content": text}]
            more = dict(options[0])
            return client.chat.completions.create(model="m", messages=asked, **more).choices[0].message.content

        @workflow("w")
        def run(text):
            return ask(text, "")

        parent = live_run(run, {"text": "hi"}, code_version=CODE).run
        options[0] = {"seed": 7, "temperature": 1.0}
        outcome = fork_run(parent, target=run, change="input:note=x", at="ask", mode="replay", options=OPTIONS)
        assert (outcome.status, outcome.diff.output_equal, server.calls) == ("ok", True, 1)


class Nested:
    """plan → research (search, rank, pick) → answer, which sends a mail."""

    __goldfork_opaque__ = True

    def __init__(self, server):
        client = wrap(OpenAI(base_url=server.url, api_key="sk-0123456789abcdef01234567", max_retries=0))
        self.mails = []

        def ask(text):
            reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
            return reply.choices[0].message.content

        @tool(determinism="side-effect", stand_in="not sent", version="1")
        def send(text):
            self.mails.append(text)
            return "sent"

        @step
        def plan(topic):
            return ask(f"plan {topic}")

        @step
        def search(plan):
            return ask(f"search {plan}")

        @step
        def rank(found, message):
            return ask(f"{message} {found}")

        @step
        def pick(ranked):
            return ask(f"pick {ranked}")

        @step
        def research(plan):
            return pick(rank(search(plan), "rank by date"))

        @step
        def answer(picked):
            return [ask(f"answer {picked}"), send(picked)]

        @workflow("nested")
        def run(topic):
            return answer(research(plan(topic)))

        self.run = run


@pytest.fixture
def server():
    with ScriptedServer(rule=lambda seen: f"<{seen.json['messages'][0]['content']}>") as made:
        yield made


def states(outcome):
    return {diff.address: (diff.state, diff.equal) for diff in outcome.diff.steps}


def test_case_020_a_fork_from_an_inner_step(server):
    nested = Nested(server)
    parent = live_run(nested.run, {"topic": "tea"}, dry=False, code_version=CODE).run
    assert (server.calls, len(nested.mails)) == (5, 1)
    outcome = fork_run(
        parent, target=nested.run, change="input:message=rank by price", at="research/rank", options=OPTIONS
    )
    assert server.calls == 5 + 3
    assert len(nested.mails) == 1
    assert outcome.blocked[0]["tool"] == "send"
    told = states(outcome)
    assert told["plan"] == ("reused", True)
    assert told["research/search"] == ("reused", True)
    assert told["research"] == told["research/rank"] == told["research/pick"] == ("run", False)
    assert told["answer"][0] == "run"
    assert outcome.run.run.parent_run_id == parent.run.id
    assert "rank by price" in outcome.output[0]
    calls = server.calls
    again = fork_run(outcome.run, target=nested.run, change="model=m2", at="answer", options=OPTIONS)
    assert server.calls == calls + 1
    assert states(again)["research"] == ("reused", True)


@pytest.mark.parametrize(("at", "change", "fresh"), [("plan", "input:topic=ale", 5), ("answer", "input:picked=x", 1)])
def test_case_020_a_fork_at_the_first_and_at_the_last_step(server, at, change, fresh):
    nested = Nested(server)
    parent = live_run(nested.run, {"topic": "tea"}, dry=False, code_version=CODE).run
    fork_run(parent, target=nested.run, change=change, at=at, options=OPTIONS)
    assert server.calls == 5 + fresh
    assert len(nested.mails) == 1


class Trap:
    def __reduce__(self):
        return os.mkdir, ("trap-was-sprung",)


def test_case_020_stored_bytes_are_never_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((NotReusable, ValueError)):
        restore(pickle.dumps(Trap()))
    assert list(tmp_path.iterdir()) == []
