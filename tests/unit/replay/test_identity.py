"""What a reply says about itself (its ids, its time, its fingerprint) makes no output another one."""

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import DefaultHttpxClient, OpenAI

from harness.gateway import wrap
from harness.pipeline import prompt, step, tool, workflow
from harness.replay import ReplayOptions, compare, fork_run, live_run, replay_run
from harness.testing import ScriptedServer

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
PLAN = prompt("plan", "Plan the work on {x}")


class Agent:
    """plan (its output holds the whole reply) → look (a tool that is given an id) → act (passes the reply on)."""

    __goldfork_opaque__ = True

    def __init__(self, *, short=False):
        self.numbers = itertools.count(1)
        self.words = itertools.repeat("steady")
        self.short = short
        self.ran = []
        self.server = ScriptedServer(rule=self.reply)
        self.shape = lambda reply: reply.model_dump()

        @step
        def plan(x):
            self.ran.append("plan")
            return self.shape(self.ask(PLAN.format(x=x)))

        @tool(determinism="deterministic", version="1")
        def look(key):
            self.ran.append("look")
            return f"found {key}"[:5]

        @step
        def act(reply):
            self.ran.append("act")
            look(reply)
            return self.ask("work on it").choices[0].message.content

        @workflow("agent")
        def run(x):
            made = plan(x)
            return {"act": act(made), "plan": made}

        self.run = run

    def ask(self, text):
        where = {"base_url": self.server.url, "api_key": "sk-0123456789abcdef01234567"}
        with wrap(OpenAI(**where, max_retries=0, http_client=DefaultHttpxClient(verify=False))) as client:
            return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])

    def reply(self, seen):
        del seen
        number = next(self.numbers)
        message = {"role": "assistant", "content": next(self.words)}
        return {
            "id": "c0" if self.short else f"chatcmpl-{number:08d}",
            "object": "chat.completion",
            "created": 1_700_000_000 + number,
            "model": "m",
            "system_fingerprint": f"fp_{number}",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


@pytest.fixture
def agent():
    made = Agent()
    with made.server:
        yield made


def fork(agent, parent, change="prompt:plan=Plan well: {x}", at="plan"):
    agent.ran.clear()
    return fork_run(parent, target=agent.run, change=change, at=at, options=OPTIONS)


def test_the_same_answer_under_new_ids_is_no_divergence(agent):
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    outcome = fork(agent, parent)
    steps = {one.name: one for one in outcome.diff.steps}
    assert steps["plan"].output_hash != steps["plan"].parent_output_hash
    assert (steps["plan"].equal, steps["plan"].renamed, steps["plan"].difference) == (True, True, None)
    assert (steps["act"].equal, steps["act"].renamed) == (True, False)
    assert (outcome.diff.first_divergence, outcome.diff.output_equal) == (None, True)
    assert outcome.diff.tool_calls == ()
    # A body may do anything with an id, so what is given the new ones runs; its calls are answered.
    assert agent.ran.count("act") == 2
    assert [message.cache_state for message in outcome.run.messages] == ["live", "recorded"]
    assert outcome.counts.provider_calls == 1


def test_another_answer_is_a_divergence_and_only_its_text_is_shown(agent):
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    agent.words = itertools.repeat("other")
    outcome = fork(agent, parent)
    assert outcome.diff.first_divergence == "plan"
    (plan,) = [one for one in outcome.diff.steps if one.name == "plan"]
    assert (plan.equal, plan.renamed) == (False, False)
    assert "$.choices[0].message.content" in [place.path for place in plan.difference.places]


SHAPES = {
    "the reply itself": lambda reply: reply,
    "under another name": lambda reply: {"reply_id": reply.id, "at": {"created": reply.created}},
    "within a text": lambda reply: f"answered by {reply.id}.",
    "as a key": lambda reply: {reply.id: [reply.choices[0].message.content]},
    "deep, as a float": lambda reply: {"created_at": float(reply.created), "deep": [[{"id": reply.id}]]},
    "as JSON": lambda reply: json.loads(reply.model_dump_json()),
}
OWN = {
    "a part of the id": lambda reply: reply.id[-3:],
    "made of the time": lambda reply: reply.created % 1000,
    "the time under another name": lambda reply: {"seconds": reply.created},
    "the fingerprint alone": lambda reply: reply.system_fingerprint,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_ids_are_found_wherever_an_output_holds_them(agent, shape):
    agent.shape = SHAPES[shape]
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    outcome = fork(agent, parent)
    (plan,) = [one for one in outcome.diff.steps if one.name == "plan"]
    assert (plan.equal, plan.renamed) == (True, True)


@pytest.mark.parametrize("shape", OWN)
def test_what_is_not_known_for_a_replys_own_word_counts(agent, shape):
    """What the application makes of an id is its own."""
    agent.shape = OWN[shape]
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    outcome = fork(agent, parent)
    (plan,) = [one for one in outcome.diff.steps if one.name == "plan"]
    assert plan.equal is False


class Choosing:
    """Asks twice and names one of the replies by its id."""

    __goldfork_opaque__ = True

    def __init__(self):
        self.agent = Agent()
        self.chosen = 0

        @step
        def choose(x):
            replies = [self.agent.ask(f"{PLAN.format(x=x)} {n}") for n in range(2)]
            return {"best": replies[self.chosen].id, "of": [one.id for one in replies]}

        @workflow("choosing")
        def run(x):
            return choose(x)

        self.run = run


def test_the_id_of_another_reply_is_another_output():
    choosing = Choosing()
    with choosing.agent.server:
        parent = live_run(choosing.run, {"x": "tea"}, code_version=CODE).run
        change = "prompt:plan=Plan well: {x}"
        same = fork_run(parent, target=choosing.run, change=change, at="choose", options=OPTIONS)
        assert (same.diff.output_equal, same.diff.first_divergence) == (True, None)
        choosing.chosen = 1
        allowed = ReplayOptions(code_version=CODE, allow_undeclared=True)
        other = fork_run(parent, target=choosing.run, change=change, at="choose", options=allowed)
        assert (other.diff.output_equal, other.diff.first_divergence) == (False, "choose")


def test_a_provider_that_gives_every_reply_the_same_id_tells_nothing_by_it():
    agent = Agent(short=True)
    with agent.server:
        agent.shape = lambda reply: {"id": reply.id, "word": "c0"}
        parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
        outcome = fork(agent, parent)
        assert all(one.equal for one in outcome.diff.steps)
        assert not any(one.renamed for one in outcome.diff.steps)


def test_a_replay_reads_no_reply_to_compare(agent):
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    outcome = replay_run(parent, target=agent.run)
    bodies = {message.answer.body_hash for message in parent.messages}
    read = []

    def reading(recording):
        return replace(recording, read=lambda digest: read.append(digest) or recording.read(digest))

    compare(reading(outcome.run), reading(parent))
    assert not bodies & set(read)


@pytest.fixture(scope="module")
def served():
    made = Agent()
    with made.server:
        yield made


@settings(max_examples=25, deadline=None)
@given(
    content=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
    other=st.integers(0, 3),
)
def test_outputs_are_equal_exactly_when_their_own_content_is(served, content, other):
    """With any content around the reply's words: new ids make no difference, new content does."""
    agent, shown = served, [content]
    agent.shape = lambda reply: {"reply": reply.model_dump(), "shown": shown[0]}
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    fresh = live_run(agent.run, {"x": "tea"}, code_version=CODE, parent=parent)
    assert (fresh.diff.output_equal, fresh.diff.first_divergence) == (True, None)
    shown[0] = [content, other]
    assert live_run(agent.run, {"x": "tea"}, code_version=CODE, parent=parent).diff.output_equal is False
