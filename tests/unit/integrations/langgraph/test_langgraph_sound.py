"""Whatever a node hangs on, changed between recording and fork, is never passed over."""

import os
import random
from typing import Annotated, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from harness.replay import ReplayOptions, fork_run, live_run

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
RATE = 1


class State(TypedDict, total=False):
    topic: str
    plan: str
    text: str


class Desk:
    """An object of the application that a node is a method of."""

    def __init__(self):
        self.rate = 1

    def node(self, state):
        return {"plan": f"{self.rate} {state['topic']}"}


def helper(text):
    return f"{RATE} {text}"


def through_a_global(world):
    return lambda state: {"plan": helper(state["topic"])}, lambda value: globals().update(RATE=value)


def through_a_closure(world):
    held = {"rate": 1}
    return lambda state: {"plan": f"{held['rate']} {state['topic']}"}, lambda value: held.update(rate=value)


def through_a_default(world):
    def node(state, rate=1):
        return {"plan": f"{rate} {state['topic']}"}

    return node, lambda value: setattr(node, "__defaults__", (value,))


def through_an_object(world):
    desk = Desk()
    return desk.node, lambda value: setattr(desk, "rate", value)


def through_the_code(world):
    def node(state):
        return {"plan": f"1 {state['topic']}"}

    def change(value):
        made = {}
        exec(f"def node(state): return {{'plan': '{value} ' + state['topic']}}", made)
        node.__code__ = made["node"].__code__

    return node, change


def through_the_environment(world):
    def node(state):
        return {"plan": os.environ.get("SHOP_RATE", "1") + " " + state["topic"]}

    return node, lambda value: os.environ.__setitem__("SHOP_RATE", str(value))


def through_a_nested_graph(world):
    held = {"rate": 1}
    return inner_graph(lambda state: {"plan": f"{held['rate']} {state['topic']}"}), lambda value: held.update(
        rate=value
    )


def through_a_nested_branch(world):
    held = {"rate": 1}
    builder = StateGraph(State)
    for rate in range(1, 9):
        builder.add_node(f"n{rate}", writes(rate))
    builder.add_conditional_edges(START, lambda state: f"n{held['rate']}", [f"n{rate}" for rate in range(1, 9)])
    return builder.compile(), lambda value: held.update(rate=value)


def through_a_nested_reducer(world):
    held = {"rate": 1}

    def reduce(old, new):
        return f"{held['rate']} {new}"

    class Reduced(TypedDict):
        topic: str
        plan: Annotated[str, reduce]

    builder = StateGraph(Reduced)
    builder.add_node("only", lambda state: {"plan": state["topic"]})
    builder.add_edge(START, "only")
    return builder.compile(), lambda value: held.update(rate=value)


def through_metadata(world):
    metadata = {"rate": 1}

    def node(state, config):
        return {"plan": f"{config['metadata']['rate']} {state['topic']}"}

    return node, lambda value: metadata.update(rate=value), metadata


def writes(rate):
    return lambda state: {"plan": f"{rate} {state['topic']}"}


def inner_graph(node):
    builder = StateGraph(State)
    builder.add_node("only", node)
    builder.add_edge(START, "only")
    builder.add_edge("only", END)
    return builder.compile()


KINDS = [made for name, made in sorted(globals().items()) if name.startswith("through_")]


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    monkeypatch.delenv("SHOP_RATE", raising=False)
    yield
    globals().update(RATE=1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda made: made.__name__)
def test_a_changed_surrounding_is_never_passed_over_and_an_equal_one_is(world, kind):
    node, change, *metadata = kind(world)
    rng = random.Random(kind.__name__)

    def run(topic):
        builder = StateGraph(State)
        builder.add_node("plan", node, metadata=metadata[0] if metadata else None)
        builder.add_node("end", lambda state: {"text": state["plan"] + "!"})
        builder.add_edge(START, "plan")
        builder.add_edge("plan", "end")
        builder.add_edge("end", END)
        return builder.compile().invoke({"topic": topic})

    now = 1
    for _ in range(8):
        live = live_run(run, {"topic": "tea"}, dry=False, code_version=CODE)
        assert live.output["plan"].startswith(f"{now} "), live.error
        same = fork_run(live.run, target=run, change="input:plan=x", at="end", options=OPTIONS)
        assert next(s.state for s in same.run.steps if s.name == "plan") == "reused"
        now = rng.choice([rate for rate in range(1, 9) if rate != now])
        change(now)
        other = fork_run(
            live.run,
            target=run,
            change="input:topic=x",
            at="end",
            options=ReplayOptions(code_version=CODE, allow_undeclared=True),
        )
        assert next(s.state for s in other.run.steps if s.name == "plan") == "run"
        assert other.output["text"].startswith(f"{now} ")
