"""A change of a prompt, a model or a parameter reaches calls and tools below the step it names, and no others."""

import ssl

import openai
import pytest

from harness.errors import ChangeError
from harness.gateway import wrap
from harness.pipeline import prompt, step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run
from harness.testing import ScriptedServer

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


@pytest.fixture(scope="module")
def client():
    http = openai.DefaultHttpxClient(verify=ssl.create_default_context())
    with ScriptedServer() as server:
        made = openai.OpenAI(base_url=server.url, api_key="k", max_retries=0, http_client=http)
        yield wrap(made)
        made.close()


@pytest.fixture
def nested(client):
    """outer (calls, and has inner, which calls) and beside, which calls."""

    def ask(text):
        message = {"role": "user", "content": text}
        return client.chat.completions.create(model="m", messages=[message]).choices[0].message.content

    @step
    def inner():
        return ask("inner")

    @step
    def outer():
        return [ask("outer"), inner()]

    @step
    def beside():
        return ask("beside")

    @workflow("nested")
    def run():
        return [outer(), beside(), outer()]

    return run, live_run(run, {}, dry=False, code_version=CODE).run


def models(outcome):
    return [(message.scope, message.model, message.cache_state) for message in outcome.run.messages]


def test_a_model_is_new_in_every_visit_of_the_step_and_nowhere_else(nested):
    run, parent = nested
    outcome = fork_run(parent, target=run, change="model=new", at="beside", options=OPTIONS)
    assert models(outcome) == [
        ("outer", "m", "recorded"),
        ("outer/inner", "m", "recorded"),
        ("beside", "new", "live"),
        ("outer", "m", "recorded"),
        ("outer/inner", "m", "recorded"),
    ]
    outcome = fork_run(parent, target=run, change="model=new", at="inner", options=OPTIONS)
    assert [scope for scope, model, _ in models(outcome) if model == "new"] == ["outer/inner", "outer/inner"]
    outcome = fork_run(parent, target=run, change="param:temperature=0.5", at="outer/inner#1", options=OPTIONS)
    assert [state for _, _, state in models(outcome)] == ["recorded"] * 4 + ["live"]


def test_a_model_is_new_in_the_steps_below_the_one_that_is_named(nested):
    run, parent = nested
    outcome = fork_run(parent, target=run, change="model=new", at="outer#0", options=OPTIONS)
    assert [(scope, model) for scope, model, _ in models(outcome)] == [
        ("outer", "new"),
        ("outer/inner", "new"),
        ("beside", "m"),
        ("outer", "m"),
        ("outer/inner", "m"),
    ]


def test_a_tool_that_uses_the_prompt_is_called_again(executed):
    text = prompt("p", "old")

    @tool(determinism="deterministic")
    def look():
        executed.append("look")
        return text.format()

    @tool(determinism="deterministic")
    def other():
        executed.append("other")
        return "other"

    @step
    def first():
        return [look(), other()]

    @workflow("w")
    def run():
        return first()

    parent = live_run(run, {}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="prompt:p=new", at="first", options=OPTIONS)
    assert outcome.output == ["new", "other"]
    assert executed == ["look"]


def test_a_tool_is_no_step_that_a_change_can_name():
    @tool(determinism="deterministic")
    def look():
        return 1

    @workflow("w")
    def run():
        return look()

    parent = live_run(run, {}, code_version=CODE).run
    with pytest.raises(ChangeError, match="no step 'look'"):
        fork_run(parent, target=run, change="output=2", at="look", options=OPTIONS)
