"""An eight-step agent forked at each of its steps: ours beside Burr's and LangGraph's own forks.

    .venv/bin/pip install 'apache-burr>=0.43,<0.44' 'langgraph>=1.2,<1.3'
    .venv/bin/python tests/benchmarks/forks.py

The agent is plan → research → analyse → critique → revise → compose → verify → publish; not every step reads what
the one before it wrote. Each step but the last asks a model once (a loopback server that answers with a digest of the
request, 15 tokens a call); publish is the side effect. At each step one value that it reads is changed. Counted at the
server and in the side effect itself: calls that the fork makes, tokens, effects that happen a second time.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import openai
from measuring import heading

import harness
from harness.replay import ReplayOptions, content, fork_run, live_run
from harness.session import Change
from harness.testing import MemorySink, ScriptedServer, Seen, chat_answer

READS = {
    "plan": ("ticket",),
    "research": ("plan",),
    "analyse": ("research",),
    "critique": ("plan",),
    "revise": ("analyse", "critique"),
    "compose": ("revise",),
    "verify": ("research",),
    "publish": ("compose", "verify"),
}
"""Step → what it reads: the ticket, or what other steps wrote."""
TOKENS = 15


class Counted:
    """The world outside: the model and the effect."""

    __goldfork_opaque__ = True

    def __init__(self, url: str) -> None:
        self.client: Any = openai.OpenAI(base_url=url, api_key="sk-none", max_retries=0)
        self.effects = 0

    def ask(self, name: str, values: tuple[str, ...]) -> str:
        question = json.dumps([name, *values])
        made = self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
        return str(made.choices[0].message.content)

    def publish(self, values: tuple[str, ...]) -> str:
        self.effects += 1
        return "sent:" + "|".join(values)


def answer(seen: Seen) -> dict[str, Any]:
    """A digest of the request."""
    text = hashlib.sha256(seen.body).hexdigest()[:12]
    return {**chat_answer(text), "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": TOKENS}}


@dataclass
class Row:
    """What a fork did."""

    calls: int
    effects: int
    seconds: float


def measured(server: ScriptedServer, world: Counted, fork: Callable[[], object]) -> Row:
    calls, effects, start = server.calls, world.effects, time.perf_counter()
    fork()
    return Row(server.calls - calls, world.effects - effects, time.perf_counter() - start)


def ours(server: ScriptedServer) -> list[Row]:
    """Steps of this package, forked with one changed input."""
    world = Counted(server.url)
    world.client = harness.wrap(world.client)

    def made(name: str) -> Callable[..., str]:
        def body(**values: str) -> str:
            return world.ask(name, tuple(values.values()))

        return harness.step(name=name)(body)

    @harness.tool(determinism="side-effect", name="send", stand_in="kept dry")
    def send(values: list[str]) -> str:
        return world.publish(tuple(values))

    @harness.step(name="publish")
    def publish(**values: str) -> str:
        return send(list(values.values()))

    steps = {name: made(name) for name in READS} | {"publish": publish}

    @harness.workflow("agent")
    def agent(ticket: str) -> str:
        state = {"ticket": ticket}
        for name, reads in READS.items():
            state[name] = steps[name](**{read: state[read] for read in reads})
        return state["publish"]

    sink = MemorySink()
    live_run(agent, {"ticket": "late"}, dry=False, sink=sink, code_version="c" * 64)
    parent = sink.recording()
    rows = []
    for name in READS:
        # A step without named parameters takes its whole input as one object.
        reads = {read: "changed" if place == 0 else kept(parent, read) for place, read in enumerate(READS[name])}
        change = Change(kind="input", at=name, value={"values": reads})

        def fork(change: Change = change) -> object:
            return fork_run(parent, target=agent, change=change, options=ReplayOptions(code_version="c" * 64))

        rows.append(measured(server, world, fork))
    return rows


def kept(parent: Any, name: str) -> Any:
    """What a step wrote, from its recording."""
    if name == "ticket":
        return "late"
    found = next(step for step in parent.steps if step.name == name)
    return content(parent, found.output_hash)


def burr(server: ScriptedServer) -> list[Row]:
    """Burr's own fork: resume a copy of the application at a sequence, one value of its state overridden."""
    from burr.core import ApplicationBuilder, State, action
    from burr.core.persistence import SQLitePersister

    world = Counted(server.url)

    def made(name: str) -> Any:
        def body(state: State) -> State:
            values = tuple(state[read] for read in READS[name])
            return state.update(**{name: world.publish(values) if name == "publish" else world.ask(name, values)})

        body.__name__ = name
        return action(reads=list(READS[name]), writes=[name])(body)

    names = list(READS)
    with tempfile.TemporaryDirectory() as folder:
        persister = SQLitePersister(str(Path(folder) / "burr.db"), connect_kwargs={"check_same_thread": False})
        persister.initialize()

        def builder() -> Any:
            return (
                ApplicationBuilder()
                .with_actions(**{name: made(name) for name in names})
                .with_transitions(*zip(names, names[1:], strict=False))
                .with_state_persister(persister)
            )

        first = builder().with_identifiers(app_id="first").with_state(ticket="late").with_entrypoint("plan").build()
        first.run(halt_after=["publish"])
        rows = []
        for place, name in enumerate(names):
            override = {READS[name][0]: "changed"}

            def fork(place: int = place, override: dict[str, str] = override) -> None:
                origin: dict[str, Any] = {}
                if place:
                    origin = {"fork_from_app_id": "first", "fork_from_sequence_id": place - 1}
                    origin["override_state_values"] = override
                start = {"default_state": {"ticket": "changed"}, "default_entrypoint": "plan"}
                made = builder().with_identifiers(app_id=f"fork-{place}")
                app = made.initialize_from(persister, resume_at_next_action=True, **start, **origin).build()
                app.run(halt_after=["publish"])

            rows.append(measured(server, world, fork))
        persister.connection.close()
    return rows


def langgraph(server: ScriptedServer) -> list[Row]:
    """LangGraph's own fork: update the state of an old checkpoint, then invoke from there."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph

    world = Counted(server.url)
    state_type = TypedDict("state_type", dict.fromkeys(["ticket", *READS], str), total=False)  # type: ignore[misc]

    def made(name: str) -> Callable[[Any], dict[str, str]]:
        def body(state: Any) -> dict[str, str]:
            values = tuple(state[read] for read in READS[name])
            return {name: world.publish(values) if name == "publish" else world.ask(name, values)}

        return body

    names = list(READS)
    graph = StateGraph(state_type)
    for name in names:
        graph.add_node(f"{name}_node", made(name))
    graph.add_edge(START, "plan_node")
    for before, after in zip(names, names[1:], strict=False):
        graph.add_edge(f"{before}_node", f"{after}_node")
    graph.add_edge("publish_node", END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "first"}}
    compiled.invoke({"ticket": "late"}, config)
    history = {snapshot.next: snapshot for snapshot in compiled.get_state_history(config)}
    rows = []
    for place, name in enumerate(names):

        def fork(place: int = place, name: str = name) -> None:
            if place == 0:
                compiled.invoke({"ticket": "changed"}, {"configurable": {"thread_id": "fork"}})
                return
            at = history[f"{name}_node",]
            new = compiled.update_state(at.config, {READS[name][0]: "changed"}, as_node=f"{names[place - 1]}_node")
            compiled.invoke(None, new)

        rows.append(measured(server, world, fork))
    return rows


def main() -> None:
    """Measure all three in one run and print the table."""
    with ScriptedServer(rule=answer) as server:
        results = {"Goldfork": ours(server), "Burr": burr(server), "LangGraph": langgraph(server)}
    print(heading(["openai", "apache-burr", "langgraph"]))
    print("\n| forked at | " + " | ".join(f"{name}: calls / tokens / effects / ms" for name in results) + " |")
    print("| --- |" + " --: |" * len(results))
    for place, name in enumerate(READS):
        cells = [
            f"{row.calls} / {row.calls * TOKENS} / {row.effects} / {row.seconds * 1000:.0f}"
            for row in (rows[place] for rows in results.values())
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    totals = [
        f"{sum(r.calls for r in rows)} / {sum(r.calls for r in rows) * TOKENS} / {sum(r.effects for r in rows)} / "
        f"{sum(r.seconds for r in rows) * 1000:.0f}"
        for rows in results.values()
    ]
    print("| *all eight* | " + " | ".join(totals) + " |")


if __name__ == "__main__":
    main()
