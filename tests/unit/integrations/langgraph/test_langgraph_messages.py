"""Chat histories: ids that LangGraph and LangChain draw, and chat models as what a node hangs on."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

import harness
from harness.replay import ReplayOptions, fork_run, live_run, replay_run

openai_models = pytest.importorskip("langchain_openai")

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


@pytest.fixture
def tapped():
    """For clients that cannot be reached."""
    with harness.gateway.install():
        yield


def states(outcome):
    return {diff.address: diff.state for diff in outcome.diff.steps}


def model_of(world, **options):
    return openai_models.ChatOpenAI(model="m", temperature=0, max_retries=0, **world.where, **options)


def conversation(first, second):
    builder = StateGraph(MessagesState)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", END)
    return builder.compile()


def test_drawn_ids_are_replayed_and_a_chat_model_is_known_by_its_settings(world, tapped):
    model = model_of(world)

    def answer(state):
        return {"messages": [model.invoke(state["messages"])]}

    def thank(state):
        return {"messages": [HumanMessage("thanks for " + state["messages"][-1].content)]}

    def run(question):
        return conversation(answer, thank).invoke({"messages": [HumanMessage(question)]})

    live = live_run(run, {"question": "why?"}, dry=False, code_version=CODE)
    assert live.error is None
    assert live.output["messages"][1]["content"] == world.digest("why?")
    assert len({m["id"] for m in live.output["messages"]}) == 3
    replayed = replay_run(live.run, target=run, options=OPTIONS)
    assert replayed.status == "ok"
    assert replayed.diff.first_divergence is None
    assert replayed.output == live.output
    changed = '[{"type": "human", "content": "x"}]'
    forked = fork_run(live.run, target=run, change=f"input:messages={changed}", at="second", options=OPTIONS)
    assert states(forked)["LangGraph/first"] == "reused"
    model.temperature = 1
    warmer = fork_run(
        live.run,
        target=run,
        change=f"input:messages={changed}",
        at="second",
        options=ReplayOptions(code_version=CODE, allow_undeclared=True),
    )
    assert states(warmer)["LangGraph/first"] == "run"
    assert world.server.calls == 2


async def _ask(model: Any, state: Any) -> Any:
    return {"messages": [await model.ainvoke(state["messages"])]}


def test_async_chat_models_too(world, tapped):
    async def answer(state):
        return await _ask(model_of(world), state)

    async def run(question):
        return await conversation(answer, lambda s: {"messages": [AIMessage("done")]}).ainvoke(
            {"messages": [("user", question)]}
        )

    live = live_run(run, {"question": "why?"}, dry=False, code_version=CODE)
    assert live.error is None
    replayed = replay_run(live.run, target=run, options=OPTIONS)
    assert replayed.diff.first_divergence is None
    assert replayed.output == live.output
    assert {m.scope for m in live.run.messages} == {"LangGraph/first"}
    assert world.server.calls == 1
