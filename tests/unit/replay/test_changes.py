"""Every kind of change: applied where it is addressed, and refused where it has no place."""

import json

import pytest
from openai import OpenAI

from harness.errors import ChangeError
from harness.gateway import wrap
from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, require_uniform
from harness.session import Change, Mode, NullSink, RunPlan, planned, recording_of
from harness.testing import ScriptedServer

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


def schema(name):
    return {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}


@pytest.fixture
def desk():
    with ScriptedServer(rule=lambda seen: f"{seen.json['model']}: {seen.json['messages'][0]['content']}") as server:
        yield Desk(server)


class Desk:
    """gather (a tool, two calls) → answer (a call that offers functions)."""

    __goldfork_opaque__ = True

    def __init__(self, server):
        self.server = server
        self.client = wrap(OpenAI(base_url=server.url, api_key="sk-0123456789abcdef01234567", max_retries=0))
        self.looked = []

        @tool(determinism="deterministic", version="1")
        def look(key):
            self.looked.append(key)
            return [key, 1]

        @step
        def gather(key):
            return [look(key), self.ask("first"), self.ask("second")]

        @step
        def answer(found):
            return self.ask(f"answer {found[0]}", tools=[schema("send"), schema("stop")])

        @workflow("desk")
        def run(key):
            return answer(gather(key))

        self.run = run

    def ask(self, text, **options):
        messages = [{"role": "system", "content": text}, {"role": "user", "content": "go"}]
        reply = self.client.chat.completions.create(model="m", messages=messages, **options)
        return reply.choices[0].message.content

    def live(self, key="k"):
        return live_run(self.run, {"key": key}, code_version=CODE).run

    def fork(self, parent, change, at="", **options):
        return fork_run(parent, target=self.run, change=change, at=at, options=OPTIONS, **options)


def new_requests(outcome):
    """Bodies of the calls that the fork made."""
    run = outcome.run
    return [json.loads(run.read(m.request_hash)) for m in run.messages if m.cache_state == "live"]


def test_a_tools_result_is_dictated(desk):
    parent = desk.live()
    outcome = desk.fork(parent, 'tool:look=["other", 2]', "gather")
    assert outcome.output == "m: answer ['other', 2]"
    assert desk.looked == ["k"]
    assert outcome.counts.provider_calls == 1
    again = desk.fork(outcome.run, "model=n", "answer")
    assert again.output == "n: answer ['other', 2]"


def test_another_version_of_a_tool_is_called(desk):
    parent = desk.live()
    outcome = desk.fork(parent, "tool-version:look=2", "gather")
    assert desk.looked == ["k", "k"]
    called = next(step for step in outcome.run.steps if step.name == "look")
    assert (called.state, called.version) == ("called", "2")
    assert outcome.diff.output_equal


def test_a_functions_schema_is_replaced_and_nothing_else(desk, tmp_path):
    parent = desk.live()
    (tmp_path / "schema.json").write_text('{"type": "object", "properties": {"to": {"type": "string"}}}')
    outcome = desk.fork(parent, f"tool-schema:send=@{tmp_path / 'schema.json'}")
    (sent,) = new_requests(outcome)
    assert sent["tools"][0]["function"]["parameters"]["properties"] == {"to": {"type": "string"}}
    assert sent["tools"][0]["function"]["description"] == "send"
    assert sent["tools"][1] == schema("stop")
    whole = desk.fork(parent, 'tool-schema:stop={"description": "halt", "parameters": {"type": "null"}}')
    (sent,) = new_requests(whole)
    assert sent["tools"][1]["function"] == {"name": "stop", "description": "halt", "parameters": {"type": "null"}}


def test_a_place_in_the_request_is_replaced(desk, tmp_path):
    parent = desk.live()
    (tmp_path / "new.txt").write_text("Be brief.")
    outcome = desk.fork(parent, f"request:/messages/0/content=@{tmp_path / 'new.txt'}", "answer")
    assert outcome.output == "m: Be brief."
    assert [request["messages"][1] for request in new_requests(outcome)] == [{"role": "user", "content": "go"}]


def test_one_message_of_a_step_is_addressed(desk):
    parent = desk.live()
    outcome = desk.fork(parent, "request:/messages/1/content=stop", "gather~1")
    assert [request["messages"][0]["content"] for request in new_requests(outcome)] == ["second"]
    outcome = desk.fork(parent, "model=n", "gather~0")
    assert [request["model"] for request in new_requests(outcome)] == ["n"]


@pytest.mark.parametrize(
    ("change", "at", "says"),
    [
        ("tool:find=1", "gather", "calls no tool 'find' at or below 'gather'; it calls: look"),
        ("tool:look=1", "answer", "calls no tool 'look' at or below 'answer'; it calls: none"),
        ("tool-version:find=1", "", "calls no tool 'find'"),
        ("tool-schema:find={}", "", "no model call that offers such a function"),
        ("request:/messages/7/content=x", "", "no request made in it has such a place"),
        ("model=n", "gather~2", "made 2 model calls of its own, so there is no 'gather~2'"),
        ("tool:look=1", "gather~0", "addresses one model call"),
        ("request:messages=x", "", "JSON pointer"),
        ("tool-schema:send=text", "", "is a JSON object"),
        ("model=n", "elsewhere~1", "has no step 'elsewhere'"),
    ],
)
def test_what_has_no_place_is_refused(desk, change, at, says):
    parent = desk.live()
    with pytest.raises(ChangeError, match=says):
        desk.fork(parent, change, at)


def test_bare_code_without_steps_is_forked_at_one_message(desk):
    def bare():
        return [desk.ask("one"), desk.ask("two"), desk.ask("three")]

    parent = live_run(bare, {}, code_version=CODE).run
    outcome = fork_run(parent, target=bare, change="request:/messages/0/content=zwei", at="~1", options=OPTIONS)
    assert outcome.output == ["m: one", "m: zwei", "m: three"]
    assert outcome.counts.provider_calls == 1
    assert outcome.run.run.fork_step == "bare~1"


def test_calls_outside_any_workflow_are_forked_too(desk):
    def bare():
        return [desk.ask("one"), desk.ask("two")]

    with planned(RunPlan(mode=Mode.LIVE, sink=NullSink(), keep=True, code_version=CODE)) as runs:
        bare()
    parent = recording_of(runs[0])
    outcome = fork_run(parent, target=bare, change="model=n", at="~1", options=OPTIONS)
    assert outcome.output == ["m: one", "n: two"]


def test_one_text_is_not_put_where_the_cases_differ(desk):
    parents = [desk.live("a"), desk.live("b")]
    require_uniform(parents, Change.parse("request:/messages/0/content=x", at="gather~0"))
    with pytest.raises(ChangeError, match="holds 2 different texts"):
        require_uniform(parents, Change.parse("request:/messages/0/content=x", at="answer"))


@pytest.mark.parametrize(
    ("change", "digest"),
    [
        (Change(kind="prompt", at="draft", name="draft", value="New {x}"), "30e5260ae9f6bd73"),
        (Change(kind="model", at="draft", value="m2"), "23223cb2d9d1b6f2"),
        (Change(kind="param", at="draft", name="temperature", value=0), "52636367ed842292"),
        (Change(kind="input", at="draft", name="x", value=1), "e62eef6e714fb3f5"),
        (Change(kind="output", at="draft#1", value=[1]), "e4935944c073511d"),
    ],
)
def test_the_digests_of_changes_stay(change, digest):
    assert change.digest == digest
