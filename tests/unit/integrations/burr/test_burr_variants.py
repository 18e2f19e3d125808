"""Every way in which Burr executes an action: recorded, replayed, and skipped in a fork."""

import asyncio

import pytest

pytest.importorskip("burr")

from burr.core import Action, ApplicationBuilder, State, action
from burr.core.action import AsyncStreamingAction, StreamingAction, streaming_action

from harness.integrations import burr as goldfork_burr
from harness.replay import live_run, replay_run


def single(world):
    @action(reads=["topic"], writes=["middle"])
    def middle(state: State) -> tuple[dict, State]:
        world.ran.append("middle")
        made = world.ask(f"middle {state['topic']}")
        return {"made": made}, state.update(middle=made)

    return middle


def single_async(world):
    @action(reads=["topic"], writes=["middle"])
    async def middle(state: State) -> State:
        world.ran.append("middle")
        return state.update(middle=await world.ask_async(f"middle {state['topic']}"))

    return middle


def streamed(world):
    @streaming_action(reads=["topic"], writes=["middle"])
    def middle(state: State):
        world.ran.append("middle")
        parts = []
        for part in world.stream(f"middle {state['topic']}"):
            parts.append(part)
            yield {"part": part}, None
        yield {"made": "".join(parts)}, state.update(middle="".join(parts))

    return middle


def streamed_async(world):
    @streaming_action(reads=["topic"], writes=["middle"])
    async def middle(state: State):
        world.ran.append("middle")
        made = await world.ask_async(f"middle {state['topic']}")
        yield {"part": made[:4]}, None
        yield {"part": made[4:]}, None
        yield {"made": made}, state.update(middle=made)

    return middle


class Halves(Action):
    def __init__(self, world):
        super().__init__()
        self.world = world

    @property
    def reads(self):
        return ["topic"]

    @property
    def writes(self):
        return ["middle"]

    def run(self, state, **inputs):
        self.world.ran.append("middle")
        return {"made": self.world.ask(f"middle {state['topic']}")}

    def update(self, result, state):
        return state.update(middle=result["made"])


class HalvesAsync(Halves):
    async def run(self, state, **inputs):
        self.world.ran.append("middle")
        return {"made": await self.world.ask_async(f"middle {state['topic']}")}

    def is_async(self):
        return True


class HalvesStreamed(StreamingAction):
    def __init__(self, world):
        super().__init__()
        self.world = world

    reads, writes = Halves.reads, Halves.writes
    update = Halves.update

    def stream_run(self, state, **inputs):
        self.world.ran.append("middle")
        parts = []
        for part in self.world.stream(f"middle {state['topic']}"):
            parts.append(part)
            yield {"part": part}
        yield {"made": "".join(parts)}


class HalvesStreamedAsync(AsyncStreamingAction):
    def __init__(self, world):
        super().__init__()
        self.world = world

    reads, writes = Halves.reads, Halves.writes
    update = Halves.update

    async def stream_run(self, state, **inputs):
        self.world.ran.append("middle")
        made = await self.world.ask_async(f"middle {state['topic']}")
        yield {"part": made[:4]}
        yield {"part": made[4:]}
        yield {"made": made}


PLAIN = [single, streamed, Halves, HalvesStreamed]
ASYNC = [single_async, streamed_async, HalvesAsync, HalvesStreamedAsync]
CASES = [
    *((make, method) for make in PLAIN for method in ("run", "iterate", "steps", "stream_result", "stream_iterate")),
    *(
        (make, method)
        for make in ASYNC
        for method in ("arun", "aiterate", "asteps", "astream_result", "astream_iterate")
    ),
]


def application(world, make, *, asynchronous):
    def step(name, reads, write):
        @action(reads=reads, writes=[write])
        def plain(state: State) -> State:
            world.ran.append(name)
            return state.update(**{write: world.ask(f"{name} {[state[key] for key in reads]}")})

        @action(reads=reads, writes=[write])
        async def parallel(state: State) -> State:
            world.ran.append(name)
            return state.update(**{write: await world.ask_async(f"{name} {[state[key] for key in reads]}")})

        return parallel if asynchronous else plain

    made = make(world)
    return (
        ApplicationBuilder()
        .with_actions(first=step("first", ["seed"], "topic"), middle=made, last=step("last", ["middle"], "reply"))
        .with_transitions(("first", "middle"), ("middle", "last"))
        .with_state(seed="s")
        .with_entrypoint("first")
        .build()
    )


def drive(app, method):
    """Run an application to its end in one of Burr's ways; gives what its streams yielded."""
    if method.startswith("a"):
        return asyncio.run(drive_async(app, method))
    items = []
    if method == "run":
        app.run(halt_after=["last"])
    elif method == "iterate":
        items = [chosen.name for chosen, _, _ in app.iterate(halt_after=["last"])]
    elif method == "steps":
        while app.has_next_action():
            app.step()
    elif method == "stream_result":
        _, stream = app.stream_result(halt_after=["middle"])
        items = list(stream)
        stream.get()
        app.run(halt_after=["last"])
    else:
        for _, stream in app.stream_iterate(halt_after=["last"]):
            items += list(stream)
    return items


async def drive_async(app, method):
    items = []
    if method == "arun":
        await app.arun(halt_after=["last"])
    elif method == "aiterate":
        items = [chosen.name async for chosen, _, _ in app.aiterate(halt_after=["last"])]
    elif method == "asteps":
        while app.has_next_action():
            await app.astep()
    elif method == "astream_result":
        _, stream = await app.astream_result(halt_after=["middle"])
        items = [item async for item in stream]
        await stream.get()
        await app.arun(halt_after=["last"])
    else:
        async for _, stream in app.astream_iterate(halt_after=["last"]):
            items += [item async for item in stream]
    return items


@pytest.mark.parametrize(("make", "method"), CASES, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_every_way_to_execute_an_action_is_recorded_replayed_and_skipped(world, make, method, fork):
    def build():
        app = application(world, make, asynchronous=method.startswith("a"))
        items = drive(app, method)
        return {"items": items, "reply": app.state["reply"], "middle": app.state["middle"]}

    pipeline = goldfork_burr.target(build)
    recorded = live_run(pipeline, {})
    assert recorded.error is None
    assert world.ran == ["first", "middle", "last"]
    assert [step.name for step in recorded.run.steps[1:]] == world.ran
    owners = {step.id: step.name for step in recorded.run.steps}
    assert [owners[message.step_id] for message in recorded.run.messages] == world.ran
    calls = world.server.calls

    again = replay_run(recorded.run, target=pipeline)
    assert (again.status, again.output) == ("ok", recorded.output)
    assert all(step.equal for step in again.diff.steps)
    assert (world.server.calls, again.counts.tokens_spent) == (calls, 0)

    forked = fork(recorded.run, target=pipeline, change="input:middle=Else", at="last")
    assert forked.error is None
    assert world.ran == ["last"]
    assert {step.name: step.state for step in forked.diff.steps} == {
        "first": "reused", "middle": "reused", "last": "run"
    }  # fmt: skip
    assert forked.output["items"] == recorded.output["items"]
    assert forked.output["middle"] == "Else"
    assert world.server.calls == calls + 1

    changed = fork(recorded.run, target=pipeline, change="input:topic=Else", at="middle")
    assert world.ran == ["middle", "last"]
    assert changed.output["middle"] == world.digest("middle Else")
