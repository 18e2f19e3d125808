"""A recorded run is repeated with the values it had: types, order, and kinds of parameters."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, replay_run
from harness.session import Mode, NullSink, RunPlan, planned, recording_of

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


@dataclass
class Ticket:
    text: str


class Order(BaseModel):
    lines: tuple[int, ...]


def record(function, *args, **kwargs):
    with planned(RunPlan(mode=Mode.LIVE, sink=NullSink(), keep=True, code_version=CODE)) as runs:
        function(*args, **kwargs)
    return recording_of(runs[0])


def positional(a, b=2, /, *rest, c=3):
    return [a, b, list(rest), c]


def collecting(a, **options):
    return [a, list(options.items())]


def typed(ticket, order, at, pair):
    return [ticket.text, list(order.lines), at.year, type(pair).__name__]


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (positional, (1,), {}),
        (positional, (1, 5, 6, 7), {"c": 9}),
        (collecting, (1,), {"z": 1, "b": 2}),
        (lambda **options: options, (), {"options": {"a": 1}}),
        (lambda *items: list(items), ({"a": 1},), {}),
        (typed, (Ticket("t"), Order(lines=(1, 2)), datetime(2026, 1, 1, tzinfo=UTC), (1, 2)), {}),
        (lambda table: list(table), ({"z": 1, "a": {"y": 1, "b": 2}},), {}),
    ],
)
def test_a_replay_gets_the_arguments_of_the_recorded_run(function, args, kwargs):
    run = workflow(f"inputs of {function.__name__}")(function)
    parent = record(run, *args, **kwargs)
    outcome = replay_run(parent, target=run)
    assert (outcome.status, outcome.error) == ("ok", None)
    assert outcome.diff.output_equal
    assert outcome.run.run.input_hash == parent.run.input_hash
    assert outcome.run.run.input_order == parent.run.input_order


def test_an_argument_whose_type_is_gone_arrives_as_plain_values():
    @dataclass
    class Local:
        text: str

    run = workflow("w")(lambda item: item["text"] if isinstance(item, dict) else item.text)
    parent = record(run, Local("t"))
    assert replay_run(parent, target=run).output == "t"


def test_a_case_may_give_the_keyword_arguments_themselves():
    run = workflow("w")(lambda **options: options)
    assert live_run(run, {"a": 1}).output == {"a": 1}
    assert live_run(run, {"options": {"a": 1}}).output == {"a": 1}


def test_a_recorded_tool_result_has_the_key_order_it_had():
    @tool(determinism="deterministic", version="1")
    def look():
        return {"name": "Z", "city": "A", "nested": [{"b": 1, "a": 2}]}

    @workflow("w")
    def run():
        return json.dumps(look())

    parent = live_run(run, {}).run
    assert parent.steps[1].output_order is not None
    outcome = replay_run(parent, target=run)
    assert outcome.output == json.dumps({"name": "Z", "city": "A", "nested": [{"b": 1, "a": 2}]})
    assert outcome.run.steps[1].output_order == parent.steps[1].output_order


def test_a_skipped_step_gives_the_key_order_it_had_in_forks_of_forks_too():
    @step
    def inner():
        return {"y": 1, "x": 2}

    @step
    def outer():
        return {"d": inner(), "c": 0}

    @step
    def last(text):
        return text

    @workflow("w")
    def run():
        return last(json.dumps(outer()))

    parent = live_run(run, {}, code_version=CODE).run
    for _ in range(2):
        outcome = fork_run(parent, target=run, change="output=0", at="last", mode="replay", options=OPTIONS)
        assert outcome.diff.steps[0].state == "reused"
        assert outcome.run.steps[-1].input_hash == parent.steps[-1].input_hash
        known = [step for step in outcome.run.steps if step.name in {"outer", "inner"}]
        assert [outcome.run.read(step.output_order) for step in known] == [
            parent.read(step.output_order) for step in known
        ]
        parent = replace(outcome.run, run=replace(outcome.run.run, code_version=CODE))


def test_a_tool_result_that_cannot_be_given_back_is_missing():
    class Opaque:
        pass

    @dataclass
    class Local:
        x: int

    @tool(determinism="deterministic", version="1")
    def look():
        return Local(1)

    @workflow("w")
    def run():
        return look().x

    parent = live_run(run, {}).run
    outcome = replay_run(parent, target=run)
    assert outcome.status == "missing"
    assert "cannot give back" in outcome.misses[0]


def test_state_outside_the_constructor_counts_as_input(executed):
    done = executed

    @step
    def draft(agent):
        done.append(agent.memory)
        return agent.memory

    @step
    def pick():
        return "one"

    @workflow("w")
    def run():
        agent = Agent("x")
        agent.memory = pick()
        return draft(agent)

    parent = live_run(run, {}, code_version=CODE).run
    outcome = fork_run(parent, target=run, change='output="two"', at="pick", mode="replay", options=OPTIONS)
    assert done == ["one", "two"]
    assert outcome.output == "two"


@dataclass
class Agent:
    name: str

    def __post_init__(self):
        self.memory = ""
