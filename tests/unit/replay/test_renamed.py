"""Ids that the provider makes up are taken for what they stand for, and are never mixed up."""

import itertools
import json
from dataclasses import replace

import pytest
from openai import OpenAI

from harness.errors import StatefulFork
from harness.gateway import wrap
from harness.gateway._renamed import with_names
from harness.pipeline import prompt, step, tool, workflow
from harness.record import Exchange
from harness.replay import ReplayOptions, fork_run, live_run
from harness.testing import ScriptedServer

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
PLAN = prompt("plan", "Plan the work on {x}")


def call(name, number, argument):
    made = {"name": name, "arguments": json.dumps({"key": argument})}
    return {"id": f"call_{number:016d}", "type": "function", "function": made}


class Agent:
    """plan (the model asks for two tools) → act (their results go back to the model, which may quote an id)."""

    __goldfork_opaque__ = True

    def __init__(self):
        self.numbers = itertools.count(1)
        self.swapped = False
        self.quoting = False
        self.server = ScriptedServer(rule=self.reply)

        @tool(determinism="deterministic", version="1")
        def look(key):
            return f"result of {key}"

        @step
        def plan(x):
            return self.ask([{"role": "user", "content": PLAN.format(x=x)}])["tool_calls"]

        @step
        def act(calls):
            results = [look(json.loads(one["function"]["arguments"])["key"]) for one in calls]
            if self.swapped:
                results.reverse()
            tools = [
                {"role": "tool", "tool_call_id": one["id"], "content": result}
                for one, result in zip(calls, results, strict=True)
            ]
            asked = [{"role": "assistant", "content": None, "tool_calls": calls}, *tools]
            return self.ask([{"role": "user", "content": "work"}, *asked])

        @workflow("agent")
        def run(x):
            return act(plan(x))

        self.run = run

    def reply(self, seen):
        number = next(self.numbers)
        messages = seen.json["messages"]
        if messages[0]["content"].startswith("Plan"):
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [call("look", number * 10 + i, "ab"[i]) for i in (0, 1)],
            }
        else:
            message = {"role": "assistant", "content": f"done with {messages[1]['tool_calls'][1]['id']}"}
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": number,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }

    def ask(self, messages):
        client = wrap(OpenAI(base_url=self.server.url, api_key="sk-0123456789abcdef01234567", max_retries=0))
        reply = client.chat.completions.create(model="m", messages=messages)
        return reply.choices[0].message.model_dump(exclude_none=True)


@pytest.fixture
def agent():
    made = Agent()
    with made.server:
        yield made


def fork(agent, parent, *, change="prompt:plan=Plan well: {x}", mode="auto", arm=None, **options):
    options = replace(OPTIONS, **options)
    return fork_run(parent, target=agent.run, change=change, at="plan", mode=mode, arm=arm, options=options)


def test_a_call_that_differs_in_minted_ids_only_is_answered_under_this_runs_names(agent):
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    before = agent.server.calls
    outcome = fork(agent, parent)
    assert agent.server.calls == before + 1
    assert [message.cache_state for message in outcome.run.messages] == ["live", "renamed"]
    theirs = parent.messages[1]
    ours = outcome.run.messages[1]
    assert (ours.replay_of, ours.semantic_key) == (theirs.id, theirs.semantic_key)
    assert ours.exact_key != theirs.exact_key
    # The recorded answer quotes the recorded id; here it quotes the one that this run's plan got.
    new = json.loads(outcome.run.read(outcome.run.messages[0].answer.body_hash))["choices"][0]["message"]["tool_calls"]
    assert outcome.output["content"] == f"done with {new[1]['id']}"
    assert outcome.counts.tokens_spent == 2
    assert outcome.counts.tokens_saved == 2


def test_a_fork_with_renamed_answers_is_forked_and_replayed(agent):
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    first = fork(agent, parent)
    before = agent.server.calls
    again = fork(agent, parent, arm=first.run, mode="replay")
    assert (again.status, again.output) == ("ok", first.output)
    second = fork(agent, first.run, change="prompt:plan=Plan best: {x}")
    assert [message.cache_state for message in second.run.messages] == ["live", "renamed"]
    assert agent.server.calls == before + 1


def test_swapped_results_do_not_match(agent):
    parent = live_run(agent.run, {"x": "tea"}, code_version=CODE).run
    agent.swapped = True
    outcome = fork(agent, parent, allow_undeclared=True)
    assert [message.cache_state for message in outcome.run.messages] == ["live", "live"]


def test_an_id_that_no_answer_brought_is_text(agent):
    numbers = itertools.count(100)

    @step
    def plan(x):
        agent.ask([{"role": "user", "content": PLAN.format(x=x)}])
        return [{"id": f"own_{next(numbers)}", "type": "function", "function": {"name": "f", "arguments": "{}"}}] * 2

    @step
    def act(calls):
        asked = [{"role": "assistant", "tool_calls": calls}]
        return agent.ask([{"role": "user", "content": "work"}, *asked])

    @workflow("own")
    def run(x):
        return act(plan(x))

    parent = live_run(run, {"x": "tea"}, code_version=CODE).run
    outcome = fork_run(
        parent,
        target=run,
        change="prompt:plan=Plan well: {x}",
        at="plan",
        options=ReplayOptions(code_version=CODE, allow_undeclared=True),
    )
    assert [message.cache_state for message in outcome.run.messages] == ["live", "live"]


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_boundaries_of_a_stream_move_with_the_ids(size):
    body = b'data: {"id":"call_0000000001","x":"call_0000000001!"}\n\ndata: {"y":"call_00000000012"}\n\n'
    chunks = tuple((min(end, len(body)), 1.0) for end in range(size, len(body) + size, size))
    exchange, made = with_names(Exchange(status=200, chunks=chunks), body, {"call_0000000001": "c2"})
    assert made == body.replace(b"call_0000000001", b"c2").replace(b"c22", b"call_00000000012")
    ends = [end for end, _ in exchange.chunks]
    assert ends == sorted(ends)
    assert ends[-1] == len(made)


def test_ids_that_change_places_are_exchanged_at_once():
    body = b'["call_a", "call_b", "call_ab"]'
    _, made = with_names(Exchange(status=200), body, {"call_a": "call_b", "call_b": "call_a"})
    assert made == b'["call_b", "call_a", "call_ab"]'


@pytest.mark.parametrize(
    "options",
    [
        {"previous_response_id": None},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": None}]},
    ],
)
def test_what_a_recording_left_with_the_provider_is_never_continued_live(options):
    with ScriptedServer() as server:
        client = wrap(OpenAI(base_url=server.url, api_key="sk-0123456789abcdef01234567", max_retries=0))

        @step
        def begin(x):
            more = {"conversation": "conv_1"} if "conversation" in options else {}
            reply = client.responses.create(model="m", input="hello", **more)
            return [reply.id, reply.output[0].id]

        @step
        def go_on(ids, text):
            named = {name: ids[0] if value is None else value for name, value in {"input": text, **options}.items()}
            if "input" in options:
                named["input"] = [{"type": "item_reference", "id": ids[1]}, {"role": "user", "content": text}]
            return client.responses.create(model="m", **named).output_text

        @workflow("stateful")
        def run(x):
            return go_on(begin(x), "and then?")

        parent = live_run(run, {"x": 1}, code_version=CODE).run
        calls = server.calls
        outcome = fork_run(parent, target=run, change="input:text=no", at="go_on", options=OPTIONS)
        assert (outcome.error or "").startswith(StatefulFork.__name__)
        assert server.calls == calls
