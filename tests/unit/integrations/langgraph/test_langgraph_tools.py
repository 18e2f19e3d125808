"""An agent whose model calls LangChain tools: what a replay and a fork let them do."""

import json

import pytest
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import harness
from harness.replay import ReplayOptions, fork_run, live_run, replay_run

openai_models = pytest.importorskip("langchain_openai")

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


@pytest.fixture(autouse=True)
def tapped():
    with harness.gateway.install():
        yield


def asks(*calls, minted="call"):
    """A model's answer that calls tools."""
    made = [
        {"id": f"{minted}_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def make(world, declare=True, metadata=None):
    @langchain_tool
    def look(what: str) -> str:
        """Look something up."""
        world.ran.append(what)
        return f"{what} found {len(world.ran)}"

    @langchain_tool
    def send(text: str) -> str:
        """Send it."""
        world.sent.append(text)
        return f"sent {text}"

    if declare:
        look.metadata = {"determinism": "time-bound", "ttl": 300}
        send.tags = ["determinism:side-effect"]
        send.metadata = {"stand_in": lambda arguments: f"would send {arguments['text']}"}
    model = openai_models.ChatOpenAI(model="m", max_retries=0, **world.where).bind_tools([look, send])
    builder = StateGraph(MessagesState)
    builder.add_node("think", lambda s: {"messages": [model.invoke(s["messages"])]})
    builder.add_node("tools", ToolNode([look, send]), metadata=metadata)
    builder.add_edge(START, "think")
    builder.add_conditional_edges("think", lambda s: "tools" if s["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "think")
    return builder.compile()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_tools_are_answered_and_side_effects_stay_dry(world, asynchronous):
    graph = make(world)

    def run(question):
        return graph.invoke({"messages": [("user", question)]})

    async def run_async(question):
        return await graph.ainvoke({"messages": [("user", question)]})

    chosen = run_async if asynchronous else run
    world.server.script(asks(("look", {"what": "tea"}), ("send", {"text": "hello"})), "done")
    live = live_run(chosen, {"question": "q"}, dry=False, code_version=CODE)
    assert live.error is None
    tools = {step.name: step for step in live.run.steps if step.kind == "tool"}
    assert {name: (s.scope, s.determinism) for name, s in tools.items()} == {
        "look": ("LangGraph/tools", "time-bound"),
        "send": ("LangGraph/tools", "side-effect"),
    }
    replayed = replay_run(live.run, target=chosen, options=OPTIONS)
    assert replayed.status == "ok"
    assert replayed.diff.first_divergence is None
    assert replayed.output == live.output
    assert (world.ran, world.sent, world.server.calls) == (["tea"], ["hello"], 2)
    world.server.script(asks(("look", {"what": "tea"}), ("send", {"text": "bye"}), minted="new"), "other")
    forked = fork_run(live.run, target=chosen, change="model=other", at="LangGraph/think#0", options=OPTIONS)
    assert forked.error is None
    said = [message["content"] for message in forked.output["messages"] if message["type"] == "tool"]
    assert said == ["tea found 1", "would send bye"]
    ids = [message["tool_call_id"] for message in forked.output["messages"] if message["type"] == "tool"]
    assert ids == ["new_0", "new_1"]
    assert (world.ran, world.sent) == (["tea"], ["hello"])


def test_a_tool_that_declares_nothing_stops_a_replay(world):
    graph = make(world, declare=False)

    def run(question):
        return graph.invoke({"messages": [("user", question)]})

    world.server.script(asks(("send", {"text": "hello"})), "done")
    live = live_run(run, {"question": "q"}, dry=False, code_version=CODE)
    replayed = replay_run(live.run, target=run, options=OPTIONS)
    assert replayed.status == "missing"
    assert "'send'" in replayed.misses[0]
    assert world.sent == ["hello"]


def test_a_declared_node_covers_the_tools_in_it(world):
    graph = make(world, declare=False, metadata={"determinism": "deterministic"})

    def run(question):
        return graph.invoke({"messages": [("user", question)]})

    world.server.script(asks(("send", {"text": "hello"})), "done")
    live = live_run(run, {"question": "q"}, dry=False, code_version=CODE)
    assert [step.name for step in live.run.steps if step.kind == "tool"] == ["tools"]
    replayed = replay_run(live.run, target=run, options=OPTIONS)
    assert replayed.output == live.output
    assert world.sent == ["hello"]
