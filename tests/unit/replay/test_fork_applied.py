"""A fork whose change never came into play is refused; what the change reaches is not taken from the recording."""

import ssl

import openai
import pytest

from harness.errors import ChangeError
from harness.gateway import wrap
from harness.pipeline import prompt, step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run
from harness.session import branch
from harness.testing import ScriptedServer

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


@pytest.fixture(scope="module")
def ask():
    http = openai.DefaultHttpxClient(verify=ssl.create_default_context())
    with ScriptedServer(rule=lambda seen: f"{seen.json['model']}: {seen.json['messages'][0]['content']}") as server:
        made = openai.OpenAI(base_url=server.url, api_key="k", max_retries=0, http_client=http)
        client = wrap(made)

        def call(text):
            message = {"role": "user", "content": text}
            return client.chat.completions.create(model="m", messages=[message]).choices[0].message.content

        yield call
        client.close()
        made.close()


def test_a_model_at_the_root_is_new_in_tools_and_everywhere_else(ask):
    @tool(determinism="deterministic")
    def sub():
        return ask("sub")

    @step
    def one():
        return sub()

    @workflow("w")
    def run():
        return [one(), ask("root")]

    parent = live_run(run, {}, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="model=new", at="w", options=OPTIONS)
    assert outcome.output == ["new: sub", "new: root"]


def test_a_prompt_used_in_a_branch_is_found(ask):
    text = prompt("p", "old {x}")

    @step
    def first():
        return ask(text.format(x="first"))

    @step
    def llm(asked):
        return ask(asked)

    @step
    def parallel():
        with branch("a"):
            return llm(text.format(x="branch"))

    @workflow("w")
    def run():
        return [first(), parallel()]

    parent = live_run(run, {}, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="prompt:p=new {x}", at="first", options=OPTIONS)
    assert outcome.output == ["m: new first", "m: new branch"]
    again = fork_run(outcome.run, target=run, change="prompt:p=third {x}", at="first", options=OPTIONS)
    assert again.output == ["m: third first", "m: third branch"]


@pytest.mark.parametrize("stand_in", [True, False])
def test_a_side_effect_that_the_change_reaches_stays_dry_and_is_not_answered(ask, stand_in):
    done = []

    def send():
        done.append(1)
        return ask("send")

    options = {"stand_in": "stands in"} if stand_in else {}
    send = tool(determinism="side-effect", **options)(send)

    @step
    def one():
        return [ask("one"), send()]

    @workflow("w")
    def run():
        return one()

    parent = live_run(run, {}, dry=False, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="model=new", at="one", options=OPTIONS)
    assert done == [1]
    if stand_in:
        assert outcome.output == ["new: one", "stands in"]
    else:
        assert "calls inside it that the change alters" in outcome.error
        assert "--allow" not in outcome.error


@pytest.mark.parametrize(
    ("change", "at", "says"),
    [
        ("model=new", "pure", "change of model at step 'pure' altered nothing"),
        ("param:seed=1", "pure", "change of param:seed at step 'pure' altered nothing"),
        ("output=1", "block", "change of output at step 'block' altered nothing"),
        ("input:x=1", "block", "change of input:x at step 'block' altered nothing"),
    ],
)
def test_a_change_that_never_came_into_play_is_refused(ask, change, at, says):
    @step
    def pure(x):
        return x

    @workflow("w")
    def run(x):
        with step("block", x=x) as block:
            block.output = pure(x)
        return ask(x)

    parent = live_run(run, {"x": "a"}, code_version=CODE).run
    with pytest.raises(ChangeError, match=says):
        fork_run(parent, target=run, change=change, at=at, options=OPTIONS)


def test_a_change_to_what_is_there_already_counts_as_applied(ask):
    @workflow("w")
    def run(x):
        return ask(x)

    parent = live_run(run, {"x": "a"}, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="model=m", at="w", mode="replay", options=OPTIONS)
    assert outcome.diff.output_equal
