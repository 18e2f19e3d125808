"""Continuing from a checkpoint with one value changed."""

import operator
import sqlite3
from typing import Annotated, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from harness.errors import ChangeError, UsageError
from harness.integrations.langgraph import fork_from
from harness.replay import live_run
from harness.session import Mode

CODE = "c" * 64


class State(TypedDict, total=False):
    topic: str
    plan: str
    found: Annotated[list, operator.add]
    text: str


def make(world, checkpointer):
    builder = StateGraph(State)

    def note(name, key):
        def node(state):
            world.ran.append(name)
            return {key: world.ask(f"{name} {state.get('topic')} {state.get('plan')}")}

        return node

    def send(state):
        world.sent.append(state["plan"])
        return {"found": ["sent"]}

    builder.add_node("plan", note("plan", "plan"))
    builder.add_node("left", lambda s: {"found": [note("left", "x")(s)["x"]]})
    builder.add_node("right", lambda s: {"found": [note("right", "x")({"plan": "fixed"})["x"]]})
    builder.add_node("send", send, metadata={"determinism": "side-effect", "stand_in": {"found": ["would send"]}})
    builder.add_node("end", note("end", "text"))
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "left")
    builder.add_edge("plan", "right")
    builder.add_edge(["left", "right"], "send")
    builder.add_edge("send", "end")
    builder.add_edge("end", END)
    return builder.compile(checkpointer=checkpointer)


@pytest.fixture(params=["memory", "sqlite"])
def checkpointer(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
        return
    connection = sqlite3.connect(tmp_path / "c.db", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


def before(graph, node):
    thread = {"configurable": {"thread_id": "t"}}
    return next(s for s in graph.get_state_history(thread) if node in s.next).config["configurable"]["checkpoint_id"]


@pytest.fixture
def parent(world, checkpointer):
    graph = make(world, checkpointer)

    def run(topic):
        return graph.invoke({"topic": topic}, {"configurable": {"thread_id": "t"}})

    outcome = live_run(run, {"topic": "tea"}, dry=False, code_version=CODE)
    assert outcome.error is None
    world.ran.clear()
    world.sent.clear()
    return graph, outcome


def test_only_what_follows_runs_and_the_thread_is_left_alone(world, checkpointer, parent):
    graph, live = parent
    history = [s.values for s in graph.get_state_history({"configurable": {"thread_id": "t"}})]
    calls = world.server.calls
    outcome = fork_from(graph, checkpointer, "t", before(graph, "left"), override={"plan": "new"}, run=live.run)
    assert outcome.error is None
    assert sorted(world.ran) == ["end", "left", "right"]
    assert outcome.output["plan"] == "new"
    assert outcome.output["found"] == [world.digest("left tea new"), world.digest("right None fixed"), "would send"]
    # What the changed value does not reach is answered from the recording.
    assert world.server.calls - calls == 2
    assert world.sent == []
    assert outcome.run.run.parent_run_id == live.run.run.id
    assert [s.values for s in graph.get_state_history({"configurable": {"thread_id": "t"}})] == history
    ours = {"configurable": {"thread_id": outcome.metadata["thread_id"]}}
    assert graph.get_state(ours).values["plan"] == "new"


def test_a_value_with_a_reducer_is_replaced(world, checkpointer, parent):
    graph, live = parent
    outcome = fork_from(graph, checkpointer, "t", before(graph, "send"), override={"found": ["only"]}, run=live.run)
    assert outcome.output["found"] == ["only", "would send"]
    assert outcome.blocked[0]["answered_by"] == "stand-in"
    assert world.sent == []


def test_without_a_recording_all_that_follows_is_asked_afresh(world, checkpointer, parent):
    graph, _ = parent
    calls = world.server.calls
    outcome = fork_from(graph, checkpointer, "t", before(graph, "left"), override={"plan": "new"})
    assert outcome.error is None
    assert world.server.calls - calls == 3
    assert outcome.run.run.workflow == "LangGraph"


def test_in_replay_a_changed_question_is_missing(world, checkpointer, parent):
    graph, live = parent
    outcome = fork_from(
        graph, checkpointer, "t", before(graph, "left"), override={"plan": "new"}, run=live.run, mode=Mode.REPLAY
    )
    assert outcome.status == "missing"


def test_what_is_not_there_is_refused_before_anything_runs(world, checkpointer, parent):
    graph, live = parent
    there = before(graph, "left")
    last = graph.get_state({"configurable": {"thread_id": "t"}}).config["configurable"]["checkpoint_id"]
    for thread, checkpoint, said in (("t", "nope", "'nope'"), ("u", there, "'u'"), ("t", last, "ends its run")):
        with pytest.raises(UsageError, match=said):
            fork_from(graph, checkpointer, thread, checkpoint, override={"plan": "new"}, run=live.run)
    for override in ({"plam": 1}, {}):
        with pytest.raises(ChangeError):
            fork_from(graph, checkpointer, "t", there, override=override, run=live.run)
    assert world.ran == []
