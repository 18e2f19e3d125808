"""Burr's own shape: plan, research, analyse, critique, revise, compose, verify, publish."""

import pytest

pytest.importorskip("burr")

from burr.core import ApplicationBuilder, State, action, default, expr

from harness.integrations import burr as goldfork_burr
from harness.replay import live_run, replay_run


@pytest.fixture
def build(world):
    def thinking(name, reads, write):
        @action(reads=reads, writes=[write])
        def body(state: State) -> State:
            world.ran.append(name)
            return state.update(**{write: world.ask(f"{name}: " + " | ".join(str(state[key]) for key in reads))})

        return body

    @action(reads=["topic"], writes=["plan"])
    def plan(state: State, tone: str) -> State:
        world.ran.append("plan")
        return state.update(plan=world.ask(f"plan {state['topic']} {tone}"))

    @action(reads=["draft"], writes=["draft", "rounds"])
    def revise(state: State) -> State:
        world.ran.append("revise")
        return state.update(draft=world.ask(f"revise {state['draft']}")).increment(rounds=1)

    @action(reads=["reply"], writes=["receipt"], tags=["determinism:side-effect"])
    def publish(state: State) -> State:
        world.sent.append(state["reply"])
        return state.update(receipt=len(world.sent))

    def build(topic):
        return (
            ApplicationBuilder()
            .with_actions(
                plan=plan,
                research=thinking("research", ["plan"], "facts"),
                analyse=thinking("analyse", ["facts"], "draft"),
                critique=thinking("critique", ["draft"], "critique"),
                revise=revise,
                compose=thinking("compose", ["draft", "critique"], "reply"),
                verify=thinking("verify", ["topic"], "verdict"),
                publish=publish,
            )
            .with_transitions(
                ("plan", "research"),
                ("research", "analyse"),
                ("analyse", "critique"),
                ("critique", "revise", expr("rounds < 2")),
                ("critique", "compose", default),
                ("revise", "critique"),
                ("compose", "verify"),
                ("verify", "publish"),
            )
            .with_state(topic=topic, rounds=0)
            .with_entrypoint("plan")
            .build()
        )

    return build


def outline(outcome):
    return {step.address: step.state for step in outcome.diff.steps}


def test_the_shape_is_recorded_replayed_for_nothing_and_forked(world, build, fork):
    pipeline = goldfork_burr.target(build, name="report")
    recorded = live_run(pipeline, {"topic": "tea", "tone": "dry"}, dry=False)
    assert recorded.error is None
    order = ["plan", "research", "analyse", "critique", "revise", "critique", "revise", "critique", "compose", "verify"]
    assert world.ran == order
    assert [step.name for step in recorded.run.steps[1:]] == [*order, "publish"]
    assert (world.server.calls, world.sent) == (10, [recorded.output["reply"]])
    by_step = {step.id: step for step in recorded.run.steps}
    assert [by_step[message.step_id].name for message in recorded.run.messages] == order

    again = replay_run(recorded.run, target=pipeline)
    assert again.status == "ok"
    assert again.output == recorded.output
    assert all(step.equal for step in again.diff.steps)
    assert (again.counts.provider_calls, again.counts.tokens_spent) == (0, 0)
    assert (world.server.calls, len(world.sent)) == (10, 1)

    forked = fork(recorded.run, target=pipeline, change="input:draft=Another draft", at="critique#1")
    assert world.ran == ["critique", "revise", "critique", "compose"]
    states = outline(forked)
    assert [name for name, state in states.items() if state == "reused"] == [
        "plan",
        "research",
        "analyse",
        "critique",
        "revise",
        "verify",
    ]
    assert forked.error.startswith("SideEffectBlocked")
    assert len(world.sent) == 1


def test_a_stand_in_lets_a_fork_go_past_a_side_effect(world, build, fork):
    pipeline = goldfork_burr.target(build, name="report", stand_ins={"publish": {"receipt": "none"}})
    recorded = live_run(pipeline, {"topic": "tea", "tone": "dry"}, dry=False)
    forked = fork(recorded.run, target=pipeline, change='output={"critique": "weak"}', at="critique#2")
    assert forked.error is None
    assert forked.output["receipt"] == "none"
    assert [step.address for step in forked.diff.steps if step.state == "run"] == ["compose"]
    assert [entry["tool"] for entry in forked.blocked] == ["publish"]
    assert len(world.sent) == 1
