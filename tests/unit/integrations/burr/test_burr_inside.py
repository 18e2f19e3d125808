"""Applications inside actions: parallel, recursive, gathered; scopes of their own that stay the same."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("burr")

from burr.core import ApplicationBuilder, ApplicationContext, GraphBuilder, State, action
from burr.core.parallelism import MapActions, MapStates, RunnableGraph

from harness.integrations import burr as goldfork_burr
from harness.replay import live_run, replay_run

WORLDS = []
"""The world of the running test, since parallel actions find their sub-actions in the module."""


@pytest.fixture(autouse=True)
def placed(world):
    WORLDS.append(world)
    yield
    WORLDS.clear()


class Reach:
    """The test's world, wherever it stands."""

    __goldfork_opaque__ = True

    def ask(self, text):
        WORLDS[0].ran.append(text)
        return WORLDS[0].ask(text)

    async def ask_async(self, text):
        WORLDS[0].ran.append(text)
        return await WORLDS[0].ask_async(text)


REACH = Reach()


@action(reads=["prompt"], writes=["answer"])
def query(state: State, delay: float = 0.0) -> State:
    time.sleep(delay)
    return state.update(answer=REACH.ask(f"query {state['prompt']}"))


@action(reads=["answer"], writes=["answer"])
def polish(state: State) -> State:
    return state.update(answer=REACH.ask(f"polish {state['answer']}"))


GRAPH = GraphBuilder().with_actions(query=query, polish=polish).with_transitions(("query", "polish")).build()


class Fan(MapStates):
    """Asks for every prompt at once; the first ones take longest."""

    def action(self, state, inputs):
        return RunnableGraph(graph=GRAPH, entrypoint="query", halt_after=["polish"])

    def states(self, state, context, inputs):
        for prompt in state["prompts"]:
            yield state.update(prompt=prompt)

    def reduce(self, state, states):
        return state.update(answers=[one["answer"] for one in states])

    @property
    def reads(self):
        return ["prompts"]

    @property
    def writes(self):
        return ["answers"]


class Models(MapActions):
    """The same prompt to several actions at once, the first one slowest."""

    def actions(self, state, context, inputs):
        for number in range(3):
            yield query.bind(delay=0.05 * (2 - number)).action_function.with_name("query")

    def state(self, state, inputs):
        return state.update(prompt="same")

    def reduce(self, state, states):
        return state.update(answers=[one["answer"] for one in states])

    reads, writes = Fan.reads, Fan.writes


@action(reads=["answers"], writes=["reply"])
def join(state: State) -> State:
    return state.update(reply=REACH.ask(f"join {state['answers']}"))


def build(fan, **state):
    return (
        ApplicationBuilder()
        .with_actions(fan=fan, join=join)
        .with_transitions(("fan", "join"))
        .with_state(**state)
        .with_entrypoint("fan")
        .build()
    )


def addresses(outcome):
    return sorted(step.address for step in outcome.diff.steps)


def states(outcome):
    return {step.address: step.state for step in outcome.diff.steps}


@pytest.mark.parametrize("fan", [Fan, Models])
def test_parallel_applications_have_scopes_that_stay_the_same(world, fan, fork):
    pipeline = goldfork_burr.target(lambda: build(fan(), prompts=["a", "b", "c"]), name="fan")
    recorded = live_run(pipeline, {})
    assert recorded.error is None
    inner = ["query", "polish"] if fan is Fan else ["query"]
    assert addresses(recorded) == sorted(["fan", "join", *(f"fan/[{n}]/{name}" for n in range(3) for name in inner)])
    owners = {step.id: step.address for step in recorded.run.steps}
    assert len({owners[message.step_id] for message in recorded.run.messages}) == len(recorded.run.messages)
    assert all(m.scope == owners[m.step_id] for m in recorded.run.messages)
    calls = world.server.calls
    for _ in range(3):
        again = replay_run(recorded.run, target=pipeline)
        assert (again.status, again.output, again.diff.first_divergence) == ("ok", recorded.output, None)
    forked = fork(recorded.run, target=pipeline, change='output={"reply": "x"}', at="join")
    assert forked.output["answers"] == recorded.output["answers"]
    assert (world.ran, world.server.calls) == ([], calls)


def test_a_fork_inside_one_parallel_application_leaves_the_others_alone(world, fork):
    pipeline = goldfork_burr.target(lambda: build(Fan(), prompts=["a", "b", "c"]), name="fan")
    recorded = live_run(pipeline, {})
    forked = fork(recorded.run, target=pipeline, change="input:prompt=z", at="fan/[1]/query")
    answers = [world.digest(f"polish {world.digest(f'query {prompt}')}") for prompt in "azc"]
    assert forked.output["answers"] == answers
    assert states(forked) == {
        "fan": "run", "fan/[0]/query": "reused", "fan/[0]/polish": "reused", "fan/[1]/query": "run",
        "fan/[1]/polish": "run", "fan/[2]/query": "reused", "fan/[2]/polish": "reused", "join": "run",
    }  # fmt: skip
    assert world.ran == ["query z", f"polish {world.digest('query z')}", f"join {answers}"]


def countdown(depth):
    @action(reads=["depth"], writes=["total"])
    def descend(state: State, __context: ApplicationContext) -> State:
        made = REACH.ask(f"level {state['depth']}")
        if state["depth"] == 0:
            return state.update(total=made)
        below = [nested(state["depth"] - 1) for _ in range(2)]
        return state.update(total=[made, *below])

    def nested(level):
        app = application(level)
        _, _, after = app.run(halt_after=["descend"])
        return after["total"]

    def application(level):
        return (
            ApplicationBuilder()
            .with_actions(descend=descend)
            .with_state(depth=level)
            .with_entrypoint("descend")
            .build()
        )

    return lambda: application(depth)


def test_recursion_has_a_scope_for_every_level(world, fork):
    pipeline = goldfork_burr.target(countdown(2), name="down")
    recorded = live_run(pipeline, {})
    assert recorded.error is None
    below = [f"descend/[{n}]/descend" for n in range(2)]
    lowest = [f"{at}/[{n}]/descend" for at in below for n in range(2)]
    assert addresses(recorded) == sorted(["descend", *below, *lowest])
    assert replay_run(recorded.run, target=pipeline).output == recorded.output
    forked = fork(recorded.run, target=pipeline, change='output={"total": "x"}', at=lowest[3])
    assert forked.error is None
    assert states(forked)[below[0]] == "reused"
    # What lies around the fork step runs, its calls answered.
    assert world.ran == ["level 2", "level 1"]
    assert forked.counts.provider_calls == 0


def test_gathered_applications_are_numbered_in_the_order_they_were_started(world):
    @action(reads=["prompt"], writes=["answer"])
    async def slow(state: State) -> State:
        await asyncio.sleep(0.05 if state["prompt"] == "a" else 0)
        return state.update(answer=await REACH.ask_async(f"slow {state['prompt']}"))

    @action(reads=["prompts"], writes=["answers"])
    async def fan(state: State) -> State:
        apps = [
            ApplicationBuilder().with_actions(slow=slow).with_state(prompt=prompt).with_entrypoint("slow").build()
            for prompt in state["prompts"]
        ]
        done = await asyncio.gather(*(app.arun(halt_after=["slow"]) for app in apps))
        return state.update(answers=[after["answer"] for _, _, after in done])

    pipeline = goldfork_burr.target(lambda: build(fan, prompts=["a", "b"]), name="gathered")
    recorded = live_run(pipeline, {})
    assert recorded.error is None
    assert addresses(recorded) == ["fan", "fan/[0]/slow", "fan/[1]/slow", "join"]
    again = replay_run(recorded.run, target=pipeline)
    assert (again.output, again.diff.first_divergence) == (recorded.output, None)


@pytest.mark.parametrize("declared", [True, False])
def test_what_a_sub_application_reads_of_its_parents_state_the_parent_reads(world, fork, declared):
    @action(reads=["secret"] if declared else [], writes=["answer"])
    def inner(state: State) -> State:
        return state.update(answer=[state["secret"]])

    @action(reads=["unused"], writes=["answers"])
    def outer(state: State) -> State:
        # As Burr's own parallel actions do it.
        bare = state.wipe(delete=["__PRIOR_STEP", "__SEQUENCE_ID"])
        made = ApplicationBuilder().with_actions(inner=inner).with_state(bare).with_entrypoint("inner").build()
        return state.update(answers=made.run(halt_after=["inner"])[2]["answer"])

    @action(reads=["seed"], writes=["secret"])
    def first(state: State) -> State:
        return state.update(secret=state["seed"])

    def app():
        return (
            ApplicationBuilder()
            .with_actions(first=first, outer=outer, join=join)
            .with_transitions(("first", "outer"), ("outer", "join"))
            .with_state(seed=1, unused=0)
            .with_entrypoint("first")
            .build()
        )

    pipeline = goldfork_burr.target(app, name="inner")
    recorded = live_run(pipeline, {})
    assert recorded.output["answers"] == [1]
    same = fork(recorded.run, target=pipeline, change='output={"reply": "x"}', at="join")
    assert (states(same)["outer"], states(same)["outer/[0]/inner"]) == ("reused", "reused")
    forked = fork(recorded.run, target=pipeline, change="input:seed=2", at="first")
    assert forked.output["answers"] == [2]
    assert (states(forked)["outer"], states(forked)["outer/[0]/inner"]) == ("run", "run")


class Late(ThreadPoolExecutor):
    """Starts what was submitted first last."""

    submitted = 0

    def submit(self, fn, /, *args, **kwargs):
        wait = 0.1 * (2 - self.submitted)
        self.submitted += 1
        return super().submit(lambda: (time.sleep(max(wait, 0)), fn(*args, **kwargs))[1])


def test_a_scope_goes_by_the_order_of_the_tasks_and_not_of_their_start(world):
    def app(executor):
        made = ApplicationBuilder().with_actions(fan=Fan(), join=join).with_transitions(("fan", "join"))
        made = made.with_state(prompts=["a", "b", "c"]).with_entrypoint("fan")
        return made.with_parallel_executor(executor).build()

    recorded = live_run(goldfork_burr.target(lambda: app(Late)), {})
    asked = {m.scope: m for m in recorded.run.messages}
    bodies = [recorded.run.read(asked[f"fan/[{n}]/query"].request_hash) for n in range(3)]
    assert [f"query {prompt}".encode() in body for prompt, body in zip("abc", bodies, strict=True)] == [True] * 3
    again = replay_run(recorded.run, target=goldfork_burr.target(lambda: app(ThreadPoolExecutor)))
    assert (again.status, again.output) == ("ok", recorded.output)
