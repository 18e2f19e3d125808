"""How a graph looks as a run: steps, scopes, model calls, streams, nested graphs, tools."""

import asyncio
import operator
import uuid
from dataclasses import dataclass
from typing import Annotated, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel

import harness
from harness.errors import UsageError
from harness.integrations.langgraph import target
from harness.pipeline import code_of, workflow
from harness.replay import ReplayOptions, content, fork_run, live_run, replay_run
from harness.session import Mode, NullSink, RunPlan, planned, recording_of

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


class State(TypedDict, total=False):
    topic: str
    items: list
    plan: str
    left: str
    right: str
    found: Annotated[list, operator.add]
    text: str


def chain(*nodes, state=State, **options):
    """A graph of nodes one after the other."""
    builder = StateGraph(state)
    for name, node, *more in nodes:
        builder.add_node(name, node, **(more[0] if more else {}))
    for one, two in zip([START, *(n[0] for n in nodes)], [*(n[0] for n in nodes), END], strict=True):
        builder.add_edge(one, two)
    return builder.compile(**options)


def addresses(outcome):
    return [step.address for step in sorted(outcome.run.steps, key=lambda s: s.seq)]


def states(outcome):
    return {diff.address: diff.state for diff in outcome.diff.steps}


def record(run, **inputs):
    outcome = live_run(run, inputs, dry=False, code_version=CODE)
    assert outcome.error is None
    return outcome


def test_a_graph_called_by_itself_is_a_run(world):
    graph = chain(("plan", lambda s: {"plan": world.ask("plan " + s["topic"])}), name="writer")
    with planned(RunPlan(mode=Mode.LIVE, sink=NullSink(), keep=True)) as runs:
        whole = graph.invoke({"topic": "tea"})
    assert whole == {"topic": "tea", "plan": world.digest("plan tea"), "found": []}
    run = recording_of(runs[0])
    assert (run.run.workflow, run.run.status) == ("writer", "ok")
    assert content(run, run.run.input_hash) == {"topic": "tea"}
    assert content(run, run.run.output_hash) == whole
    plan = run.steps[1]
    assert (plan.address, plan.kind, plan.parent_id) == ("plan", "agent", run.steps[0].id)
    assert content(run, plan.input_hash) == {"topic": "tea", "found": []}
    assert content(run, plan.output_hash) == {"plan": world.digest("plan tea")}
    assert [(m.scope, m.step_id) for m in run.messages] == [("plan", plan.id)]


def test_a_graph_is_its_own_target(world):
    graph = chain(("plan", lambda s: {"plan": world.ask("plan " + s["topic"])}), ("end", lambda s: {"text": "!"}))
    parent = record(target(graph), topic="tea").run
    assert parent.run.code_version == CODE
    replayed = replay_run(parent, target=target(graph), options=OPTIONS)
    assert replayed.status == "ok"
    assert replayed.diff.output_equal
    forked = fork_run(parent, target=target(graph), change="input:topic=soup", at="plan", options=OPTIONS)
    assert states(forked) == {"plan": "run", "end": "run"}
    assert forked.output["plan"] == world.digest("plan soup")
    assert world.server.calls == 2


def test_without_a_version_of_its_own_the_code_of_the_nodes_counts():
    graph = chain(("end", tea), ("last", tea))
    outcome = live_run(target(graph), {"topic": "tea"})
    assert outcome.run.run.code_version == code_of(tea)
    forked = fork_run(outcome.run, target=target(graph), change="input:text=x", at="last")
    assert states(forked) == {"end": "reused", "last": "run"}


def tea(state):
    return {"text": "tea"}


def parallel(world, ask):
    def run(topic):
        builder = StateGraph(State)
        builder.add_node("plan", ask("plan", "topic"))
        builder.add_node("left", ask("left", "plan"))
        builder.add_node("right", ask("right", "plan"))
        builder.add_node("text", ask("text", "left"))
        builder.add_edge(START, "plan")
        builder.add_edge("plan", "left")
        builder.add_edge("plan", "right")
        builder.add_edge(["left", "right"], "text")
        return builder.compile()

    return run


def test_calls_belong_to_the_node_that_made_them_in_threads_and_in_tasks(world):
    def ask(name, key):
        return lambda state: {name: world.ask(f"{name} {state[key]}")}

    def ask_async(name, key):
        async def node(state):
            return {name: await world.ask_async(f"{name} {state[key]}")}

        return node

    made, made_async = parallel(world, ask), parallel(world, ask_async)

    def plain(topic):
        return made(topic).invoke({"topic": topic})

    async def tasks(topic):
        return await made_async(topic).ainvoke({"topic": topic})

    async def mixed(topic):
        return await made(topic).ainvoke({"topic": topic})

    for run in (plain, tasks, mixed):
        before = world.server.calls
        live = record(run, topic="tea")
        names = {step.id: step.address for step in live.run.steps}
        assert {(names[m.step_id], m.scope) for m in live.run.messages} == {
            (f"LangGraph/{name}", f"LangGraph/{name}") for name in ("plan", "left", "right", "text")
        }
        replayed = replay_run(live.run, target=run, options=OPTIONS)
        assert replayed.diff.output_equal
        assert replayed.counts.steps_run == 5
        forked = fork_run(live.run, target=run, change="input:plan=x", at="right", options=OPTIONS)
        assert forked.error is None
        assert {k: v for k, v in states(forked).items() if v == "run"} == {
            "LangGraph": "run",
            "LangGraph/right": "run",
            "LangGraph/text": "run",
        }
        # The whole state is what a node is given: "text" is asked the same and answered from the recording.
        assert world.server.calls - before == 5


def test_what_send_starts_is_told_apart_by_what_was_sent(world):
    def run(items):
        builder = StateGraph(State)
        builder.add_node("work", lambda s: {"found": [world.ask("same") + s["item"]]})
        builder.add_node("text", lambda s: {"text": " ".join(s["found"])})
        builder.add_conditional_edges(START, lambda s: [Send("work", {"item": i}) for i in s["items"]], ["work"])
        builder.add_edge("work", "text")
        return builder.compile().invoke({"items": items})

    world.server.script(*"abcdef")
    live = record(run, items=["x", "y", "x", "z"])
    scopes = [step.scope for step in live.run.steps if step.name == "work"]
    assert len(set(scopes)) == 4
    assert sum(scope.endswith(".1]") for scope in scopes) == 1
    for _ in range(5):
        replayed = replay_run(live.run, target=run, options=OPTIONS)
        assert replayed.output == live.output
        assert replayed.diff.first_divergence is None
    forked = fork_run(live.run, target=run, change='input:items=["y", "z", "new"]', at="LangGraph", options=OPTIONS)
    assert forked.error is None
    work = [step.state for step in forked.run.steps if step.name == "work"]
    assert sorted(work) == ["reused", "reused", "run"]
    assert world.server.calls == 5


def test_a_loop_numbers_its_visits_and_stops_where_inputs_agree_again(world):
    class Counting(TypedDict, total=False):
        at: int
        text: str

    def run(at):
        builder = StateGraph(Counting)
        builder.add_node("turn", lambda s: {"at": s["at"] + 1, "text": world.ask(f"turn {s['at']}")})
        builder.add_edge(START, "turn")
        builder.add_conditional_edges("turn", lambda s: "turn" if s["at"] < 4 else END)
        return builder.compile().invoke({"at": at})

    live = record(run, at=1)
    assert addresses(live)[2:] == ["LangGraph/turn", "LangGraph/turn#1", "LangGraph/turn#2"]
    longer = fork_run(live.run, target=run, change="input:at=0", at="LangGraph/turn#0", options=OPTIONS)
    # The third and fourth visit have the count and text that the second and third were recorded with.
    assert [step.state for step in longer.run.steps[2:]] == ["run", "run", "reused", "reused"]
    shorter = fork_run(live.run, target=run, change="input:at=3", at="LangGraph/turn#1", options=OPTIONS)
    assert [step.state for step in shorter.run.steps[2:]] == ["reused", "run"]
    assert shorter.counts.provider_calls == 0


def test_a_nested_graph_is_a_scope_and_is_skipped_whole(world):
    inner = chain(("ask", lambda s: {"text": world.ask("inner " + s["topic"])}), ("shout", lambda s: {"plan": "!"}))

    def run(topic):
        graph = chain(("sub", inner), ("last", lambda s: {"left": s["text"] + s["plan"]}))
        return graph.invoke({"topic": topic})

    live = record(run, topic="tea")
    assert addresses(live)[1:] == [
        "LangGraph",
        "LangGraph/sub",
        "LangGraph/sub/ask",
        "LangGraph/sub/shout",
        "LangGraph/last",
    ]
    last = fork_run(live.run, target=run, change="input:plan=?", at="last", options=OPTIONS)
    assert states(last)["LangGraph/sub"] == "reused"
    assert states(last)["LangGraph/sub/ask"] == "reused"
    assert world.server.calls == 1
    inside = fork_run(live.run, target=run, change="input:text=x", at="shout", options=OPTIONS)
    assert states(inside)["LangGraph/sub"] == "run"
    assert states(inside)["LangGraph/sub/ask"] == "reused"
    assert states(inside)["LangGraph/sub/shout"] == "run"


def test_a_graph_called_inside_a_node_is_a_step_of_it(world):
    inner = chain(("ask", lambda s: {"text": world.ask("inner " + s["topic"])}), name="helper")

    def run(topic):
        return chain(("outer", lambda s: {"text": inner.invoke(s)["text"]})).invoke({"topic": topic})

    live = record(run, topic="tea")
    assert addresses(live)[2:] == ["LangGraph/outer", "LangGraph/outer/helper", "LangGraph/outer/helper/ask"]
    assert replay_run(live.run, target=run, options=OPTIONS).diff.output_equal


@pytest.mark.parametrize("how", ["updates", "values", "custom"])
def test_streams_give_the_same_live_replayed_and_forked(world, how):
    from langgraph.config import get_stream_writer

    def plan(state):
        get_stream_writer()("working")
        return {"plan": world.ask("plan")}

    graph = chain(("plan", plan), ("end", lambda s: {"text": s["plan"]}))

    @workflow("streamed")
    def run(topic):
        chunks = []
        for chunk in graph.stream({"topic": topic}, stream_mode=how):
            assert harness.session.current().step.record.name == "streamed"
            chunks.append(chunk)
        return chunks

    live = record(run, topic="tea")
    assert live.output
    assert replay_run(live.run, target=run, options=OPTIONS).output == live.output
    forked = fork_run(live.run, target=run, change="input:plan=x", at="end", options=OPTIONS)
    # Who reads what bodies stream gets it: they run then, with their calls answered.
    assert states(forked)["LangGraph/plan"] == ("run" if how == "custom" else "reused")
    assert forked.output[:1] == live.output[:1]
    assert forked.counts.provider_calls == 0


def test_async_streams_are_recorded():
    graph = chain(("plan", lambda s: {"plan": "p"}))

    async def run(topic):
        return [chunk async for chunk in graph.astream({"topic": topic})]

    live = record(run, topic="tea")
    assert live.output == [{"plan": {"plan": "p"}}]
    assert addresses(live)[1:] == ["LangGraph", "LangGraph/plan"]


@pytest.mark.parametrize("as_tags", [True, False])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_declared_node_is_a_tool(world, as_tags, asynchronous):
    def send(state):
        world.sent.append(state["plan"])
        return {"text": f"sent {state['plan']}"}

    def look(state):
        world.ran.append("look")
        return {"plan": f"found {len(world.ran)} {state['topic']}"}

    effect, bound = {"determinism": "side-effect"}, {"determinism": "time-bound", "ttl": 300}
    if as_tags:
        effect, bound = {"tags": ["determinism:side-effect"]}, {"tags": ["determinism:time-bound", "ttl:300"]}
    effect["stand_in"] = lambda inputs: {"text": f"would send {inputs['plan']}"}
    nodes = (("look", look, {"metadata": bound}), ("send", send, {"metadata": effect}))

    def run(topic):
        return chain(*nodes).invoke({"topic": topic})

    async def run_async(topic):
        return await chain(*nodes).ainvoke({"topic": topic})

    chosen = run_async if asynchronous else run
    live = record(chosen, topic="tea")
    tools = {step.name: step for step in live.run.steps if step.kind == "tool"}
    assert (tools["look"].determinism, tools["look"].ttl, tools["look"].state) == ("time-bound", 300.0, "called")
    assert (tools["send"].determinism, tools["send"].state) == ("side-effect", "called")
    replayed = replay_run(live.run, target=chosen, options=OPTIONS)
    assert replayed.diff.output_equal
    assert (world.ran, world.sent) == (["look"], ["found 1 tea"])
    assert states(replayed) == {"LangGraph": "run", "LangGraph/look": "answered", "LangGraph/send": "dry"}
    assert replayed.blocked[0]["answered_by"] == "recording"
    forked = fork_run(live.run, target=chosen, change="input:topic=soup", at="LangGraph", options=OPTIONS)
    assert forked.output["text"] == f"would send {forked.output['plan']}"
    assert world.sent == ["found 1 tea"]


@pytest.mark.parametrize("metadata", [{"determinism": "sometimes"}, {"determinism": "time-bound", "ttl": "soon"}])
def test_a_declaration_that_means_nothing_is_refused(metadata):
    with pytest.raises(UsageError, match="look"):
        chain(("look", lambda s: {}, {"metadata": metadata})).invoke({"topic": "tea"})


def test_a_node_that_changes_what_it_was_given_is_never_skipped(world):
    def dirty(state):
        state["items"].append(len(state["items"]))
        return {"plan": "p"}

    def replaces(state):
        state["plan"] = "quietly"
        return {"left": "l"}

    def run(items):
        nodes = ("dirty", dirty), ("replaces", replaces), ("clean", lambda s: {"right": "r"}), ("end", lambda s: {})
        return chain(*nodes).invoke({"items": list(items)})

    live = record(run, items=[1])
    assert {s.name: s.mutated for s in live.run.steps if s.kind == "agent" and s.scope} == {
        "dirty": True,
        "replaces": True,
        "clean": False,
        "end": False,
    }
    forked = fork_run(live.run, target=run, change="input:left=x", at="end", options=OPTIONS)
    assert [v for k, v in states(forked).items() if k != "LangGraph"] == ["run", "run", "reused", "run"]
    assert forked.output["items"] == live.output["items"] == [1, 1]


def test_commands_lead_on_when_their_node_is_skipped(world):
    def decide(state) -> Command:
        return Command(update={"plan": "p"}, goto=[Send("work", {"item": 1}), "side"])

    builder = StateGraph(State)
    builder.add_node("decide", decide, destinations=("work", "side"))
    builder.add_node("work", lambda s: {"found": [s["item"]]})
    builder.add_node("side", lambda s: {"found": [s["plan"]]})
    builder.add_node("end", lambda s: {"text": str(sorted(map(str, s["found"])))}, defer=True)
    builder.add_edge(START, "decide")
    builder.add_edge("work", "end")
    builder.add_edge("side", "end")
    graph = builder.compile()

    def run(topic):
        return graph.invoke({"topic": topic})

    live = record(run, topic="tea")
    assert live.output["text"] == "['1', 'p']"
    forked = fork_run(live.run, target=run, change='input:found=["z"]', at="end", options=OPTIONS)
    assert [d.state for d in forked.diff.steps] == ["run", "reused", "reused", "reused", "run"]
    assert forked.output["text"] == "['z']"


class Typed(BaseModel):
    topic: str
    plan: str = ""


@dataclass
class Fielded:
    topic: str
    plan: str = ""


@pytest.mark.parametrize("kind", [Typed, Fielded])
def test_states_of_models_and_dataclasses_have_named_inputs(kind):
    def run(topic):
        graph = chain(
            ("plan", lambda s: {"plan": f"plan {s.topic}"}),
            ("end", lambda s: {"topic": type(s).__name__ + s.plan + s.topic}),
            state=kind,
        )
        return graph.invoke({"topic": topic})

    live = record(run, topic="tea")
    assert live.output["topic"] == f"{kind.__name__}plan teatea"
    forked = fork_run(live.run, target=run, change="input:plan=x", at="end", options=OPTIONS)
    assert states(forked)["LangGraph/plan"] == "reused"
    assert forked.output["topic"] == f"{kind.__name__}xtea"


def test_a_retried_node_shows_every_attempt(world):
    def run(topic):
        tries = []

        def shaky(state):
            tries.append(1)
            if len(tries) == 1:
                raise ValueError("not yet")
            return {"plan": "p"}

        policy = RetryPolicy(initial_interval=0.0, jitter=False, retry_on=ValueError)
        return chain(("shaky", shaky, {"retry_policy": policy})).invoke({"topic": topic})

    live = record(run, topic="tea")
    assert [(s.address, s.status) for s in live.run.steps[2:]] == [
        ("LangGraph/shaky", "error"),
        ("LangGraph/shaky#1", "ok"),
    ]
    assert replay_run(live.run, target=run, options=OPTIONS).diff.first_divergence is None


def test_an_answer_to_an_interrupt_counts_as_input(world):
    def ask(state):
        return {"plan": world.ask(f"{interrupt('which?')} {state['topic']}")}

    def run(topic, answer):
        graph = chain(("ask", ask), ("end", lambda s: {"text": s["plan"]}), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        graph.invoke({"topic": topic}, config)
        return graph.invoke(Command(resume=answer), config)

    live = record(run, topic="tea", answer="green")
    assert live.output["text"] == world.digest("green tea")
    same = fork_run(live.run, target=run, change="input:plan=x", at="end", options=OPTIONS)
    assert states(same)["LangGraph/ask#1"] == "reused"
    other = fork_run(live.run, target=run, change="input:answer=black", at="run", options=OPTIONS)
    assert other.output["text"] == world.digest("black tea")


def test_what_the_caller_configured_counts_as_input(world):
    from langchain_core.runnables import RunnableConfig

    def node(state, config: RunnableConfig):
        return {"plan": config["configurable"]["language"] + config["metadata"]["user"]}

    def run(language, user):
        config = {"configurable": {"language": language}, "metadata": {"user": user}}
        return chain(("node", node), ("end", lambda s: {})).invoke({"topic": "t"}, config)

    live = record(run, language="en", user="ann")
    for change, said in (("input:language=de", "deann"), ("input:user=bob", "enbob")):
        forked = fork_run(live.run, target=run, change=change, at="run", options=OPTIONS)
        assert forked.output["plan"] == said
        assert states(forked)["LangGraph/node"] == "run"


def test_context_and_a_store_count(world):
    from langgraph.runtime import Runtime
    from langgraph.store.memory import InMemoryStore

    @dataclass
    class Context:
        tone: str

    def node(state, runtime: Runtime[Context]):
        return {"plan": runtime.context.tone + str(runtime.store and runtime.store.get(("a",), "k").value["v"])}

    def run(tone, value):
        store = None
        if value:
            store = InMemoryStore()
            store.put(("a",), "k", {"v": value})
        return chain(("node", node), ("end", lambda s: {}), store=store).invoke({"topic": "t"}, context=Context(tone))

    plain = record(run, tone="warm", value="")
    assert (
        states(fork_run(plain.run, target=run, change="input:tone=cold", at="run", options=OPTIONS))["LangGraph/node"]
        == "run"
    )
    assert (
        states(fork_run(plain.run, target=run, change="input:plan=cold", at="end", options=OPTIONS))["LangGraph/node"]
        == "reused"
    )
    stored = record(run, tone="warm", value="1")
    forked = fork_run(stored.run, target=run, change="input:value=2", at="run", options=OPTIONS)
    assert forked.output["plan"] == "warm2"


def test_the_application_is_as_it_was_outside_of_the_block(world):
    from langgraph.pregel import Pregel

    graph = chain(("plan", lambda s: {"plan": "p"}))
    before = dict(graph.nodes)
    graph.invoke({"topic": "tea"})
    assert graph.nodes == before
    assert all(type(graph.nodes[name].bound).__name__ == "RunnableCallable" for name in ("plan",))
    assert Pregel.invoke.__wrapped__.__qualname__ == "Pregel.invoke"


def test_calls_from_several_event_loops_are_kept_apart(world):
    graph = chain(("plan", lambda s: {"plan": world.ask(s["topic"])}))

    async def run(topics):
        return await asyncio.gather(*(graph.ainvoke({"topic": t}) for t in topics))

    live = record(run, topics=["a", "b"])
    assert [step["plan"] for step in live.output] == [world.digest("a"), world.digest("b")]
    assert replay_run(live.run, target=run, options=OPTIONS).output == live.output


def test_who_listens_to_events_gets_those_of_every_body(world):
    graph = chain(("plan", lambda s: {"plan": world.ask("plan")}), ("end", lambda s: {"text": s["plan"]}))

    async def run(topic):
        events = graph.astream_events({"topic": topic}, version="v2")
        return [(event["event"], event["name"]) async for event in events]

    live = record(run, topic="tea")
    forked = fork_run(live.run, target=run, change="input:plan=x", at="end", options=OPTIONS)
    assert forked.output == live.output
    assert {step.state for step in forked.run.steps if step.kind == "agent"} == {"run"}


def test_an_interrupted_run_replays_equal(world):
    def run(topic):
        graph = chain(("ask", lambda s: {"plan": interrupt("which?")}), checkpointer=InMemorySaver())
        return graph.invoke({"topic": topic}, {"configurable": {"thread_id": "1"}})["topic"]

    live = record(run, topic="tea")
    replayed = replay_run(live.run, target=run, options=OPTIONS)
    assert replayed.diff.first_divergence is None
    assert all(step.equal for step in replayed.diff.steps if step.name == "LangGraph")
    asked = next(step for step in live.run.steps if step.name == "ask")
    assert (asked.status, asked.error) == ("error", "Left: waits for an answer to 'which?'")


@pytest.mark.parametrize(("change", "at"), [('output={"plan": "x"}', "plan"), ('output={"text": "x"}', "LangGraph")])
def test_an_output_can_be_dictated_to_a_node_and_to_a_graph(world, change, at):
    def run(topic):
        return chain(("plan", lambda s: {"plan": world.ask("plan")}), ("end", lambda s: {"text": s["plan"]})).invoke(
            {"topic": topic}
        )

    live = record(run, topic="tea")
    assert fork_run(live.run, target=run, change=change, at=at, options=OPTIONS).output["text"] == "x"


def test_a_model_change_reaches_the_calls_of_its_node_alone(world):
    def run(topic):
        return chain(
            ("plan", lambda s: {"plan": world.ask("plan")}), ("end", lambda s: {"text": world.ask("end")})
        ).invoke({"topic": topic})

    live = record(run, topic="tea")
    forked = fork_run(live.run, target=run, change="model=other", at="end", options=OPTIONS)
    assert states(forked) == {"LangGraph": "run", "LangGraph/plan": "reused", "LangGraph/end": "run"}
    assert [request.json["model"] for request in world.server.requests] == ["m", "m", "other"]


def test_langgraphs_own_cache_answers_live_and_never_a_replay(world):
    from langgraph.cache.memory import InMemoryCache
    from langgraph.types import CachePolicy

    cache = InMemoryCache()

    def node(state):
        world.ran.append("node")
        return {"plan": "p"}

    def run(topic):
        return chain(("node", node, {"cache_policy": CachePolicy()}), cache=cache).invoke({"topic": topic})

    live = record(run, topic="tea")
    assert replay_run(live.run, target=run, options=OPTIONS).diff.first_divergence is None
    record(run, topic="tea")
    assert world.ran == ["node", "node"]


def test_the_functional_api_is_recorded_as_one_node(world):
    from langgraph.func import entrypoint, task

    @task
    def ask(text):
        return world.ask(text)

    @entrypoint()
    def write(topic):
        return [ask(f"a {topic}").result(), ask(f"b {topic}").result()]

    def run(topic):
        return write.invoke(topic)

    live = record(run, topic="tea")
    assert addresses(live)[1:] == ["LangGraph", "LangGraph/write"]
    assert {m.scope for m in live.run.messages} == {"LangGraph/write"}
    replayed = replay_run(live.run, target=run, options=OPTIONS)
    assert replayed.output == live.output == [world.digest("a tea"), world.digest("b tea")]
    assert world.server.calls == 2


def test_a_graph_with_a_memory_of_its_own_is_not_skipped(world):
    inner = chain(("count", lambda s: {"found": ["x"], "text": str(len(s["found"]))}), checkpointer=True)

    def run(topic, times):
        graph = chain(("sub", inner), ("end", lambda s: {}), checkpointer=InMemorySaver())
        for _ in range(times):
            last = graph.invoke({"topic": topic}, {"configurable": {"thread_id": "1"}})
        return last["text"]

    live = record(run, topic="tea", times=2)
    assert {step.mutated for step in live.run.steps if step.name == "sub"} == {True}
    forked = fork_run(live.run, target=run, change="input:left=x", at="end", options=OPTIONS)
    assert {step.state for step in forked.run.steps if step.name == "sub"} == {"run"}


@pytest.mark.parametrize("key", ["class", "two words", "state", "runtime", "self", "inputs"])
def test_any_state_key_will_do(key):
    keys = TypedDict("Keys", {key: str, "text": str}, total=False)

    def run(value):
        graph = chain(
            ("copy", lambda s: {"text": s[key]}),
            ("end", lambda s: {"text": s["text"] + "!"}, {"metadata": {"determinism": "deterministic"}}),
            state=keys,
        )
        return graph.invoke({key: value})

    live = record(run, value="v")
    assert live.output == {key: "v", "text": "v!"}
    replayed = replay_run(live.run, target=run, options=OPTIONS)
    assert replayed.output == live.output
    assert replayed.diff.first_divergence is None


def test_a_replay_leaves_the_threads_of_production_alone(world):
    saver = InMemorySaver()
    graph = chain(("plan", lambda s: {"plan": world.ask("plan")}), checkpointer=saver)
    with planned(RunPlan(mode=Mode.LIVE, sink=NullSink(), keep=True)) as runs:
        graph.invoke({"topic": "tea"}, {"configurable": {"thread_id": "42"}})
    run = recording_of(runs[0])
    before = [found.checkpoint["id"] for found in saver.list(None)]
    replayed = replay_run(run, target=target(graph))
    assert replayed.diff.output_equal
    assert [found.checkpoint["id"] for found in saver.list(None)] == before


def test_an_earlier_answer_of_the_same_node_counts_too(world):
    def ask(state):
        return {"plan": interrupt("which?") + interrupt("how?")}

    def run(first, second):
        graph = chain(("ask", ask), ("end", lambda s: {"text": s["plan"]}), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        graph.invoke({"topic": "tea"}, config)
        graph.invoke(Command(resume=first), config)
        return graph.invoke(Command(resume=second), config)["text"]

    live = record(run, first="green", second="hot")
    assert live.output == "greenhot"
    forked = fork_run(live.run, target=run, change="input:first=black", at="run", options=OPTIONS)
    assert forked.output == "blackhot"


def test_a_tool_is_answered_whatever_the_thread(world):
    def look(state):
        world.ran.append("look")
        return {"plan": "p"}

    def run(topic):
        graph = chain(("look", look, {"metadata": {"determinism": "deterministic"}}), checkpointer=InMemorySaver())
        return graph.invoke({"topic": topic}, {"configurable": {"thread_id": str(uuid.uuid4())}})

    live = record(run, topic="tea")
    assert replay_run(live.run, target=run, options=OPTIONS).status == "ok"
    assert world.ran == ["look"]
