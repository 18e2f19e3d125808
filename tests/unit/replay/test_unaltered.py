"""A fork that runs to its end before it is known that the change altered nothing; and where a change has no place."""

import pytest
from openai import OpenAI

from harness.errors import ChangeError
from harness.gateway import wrap
from harness.pipeline import step, workflow
from harness.replay import ReplayOptions, fork_run, live_run
from harness.session import Change
from harness.testing import MemorySink, ScriptedServer

OTHER = ReplayOptions(code_version="d" * 64, allow_undeclared=True)


class Switch:
    __goldfork_opaque__ = True
    word = "old"


@pytest.fixture
def server():
    with ScriptedServer(rule=lambda seen: "hi") as one:
        yield one


@pytest.fixture
def switched(server):
    """A workflow whose code comes to ask something else and to leave a step out."""
    switch = Switch()
    client = wrap(OpenAI(base_url=server.url, api_key="sk-0123456789abcdef01234567", max_retries=0))

    @step
    def ask(n):
        asked = [{"role": "user", "content": switch.word}]
        return client.chat.completions.create(model="m", messages=asked).choices[0].message.content

    @step
    def tail(n):
        return "x"

    @workflow("switched")
    def run(n):
        asked = ask(n)
        return [asked, tail(n)] if switch.word == "old" else asked

    return run, switch


def test_the_error_carries_what_was_called(server, switched):
    run, switch = switched
    parent = live_run(run, {"n": 1}).run
    before = len(server.requests)
    switch.word = "new"
    sink = MemorySink()
    with pytest.raises(ChangeError, match="altered nothing") as caught:
        fork_run(parent, target=run, change="output=y", at="tail", sink=sink, options=OTHER)
    outcome = caught.value.outcome
    assert len(server.requests) - before == 1
    assert (outcome.counts.provider_calls, outcome.output) == (1, "hi")
    assert sink.recording(outcome.run.run.id).run.status == "ok"


def test_what_is_refused_before_it_runs_carries_nothing(switched):
    run, _ = switched
    parent = live_run(run, {"n": 1}).run
    with pytest.raises(ChangeError) as caught:
        fork_run(parent, target=run, change="output=y", at="nowhere")
    assert caught.value.outcome is None


def test_an_output_needs_a_step_and_the_error_lists_those_there_are(switched):
    run, _ = switched
    parent = live_run(run, {"n": 1}).run
    for at in (None, "switched"):
        with pytest.raises(ChangeError, match=r"name the step with at= \(--at\): ask, tail\Z"):
            fork_run(parent, target=run, change="output=y", at=at)


def test_other_changes_hold_for_the_whole_run_without_a_step(server, switched):
    run, _ = switched
    parent = live_run(run, {"n": 1}).run
    assert fork_run(parent, target=run, change="model=m2").counts.provider_calls == 1
    assert server.requests[-1].json["model"] == "m2"
    assert fork_run(parent, target=run, change=Change(kind="input", at="", name="n", value=2)).status == "ok"
