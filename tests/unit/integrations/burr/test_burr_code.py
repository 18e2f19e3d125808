"""A changed piece of code, or of what it hangs on, is never taken for the old one."""

import pytest

pytest.importorskip("burr")

from burr.core import Action, ApplicationBuilder, State, action
from burr.core.action import Input, Result
from burr.integrations.pydantic import PydanticTypingSystem
from pydantic import BaseModel

from harness.integrations import burr as goldfork_burr
from harness.replay import ReplayOptions, fork_run, live_run, replay_run

SUFFIX = "!"


def helper(text):
    return text + SUFFIX


def other_helper(text):
    return text + SUFFIX + SUFFIX


class Shout(Action):
    def __init__(self, times):
        super().__init__()
        self.times = times

    @property
    def reads(self):
        return ["word"]

    @property
    def writes(self):
        return ["shout"]

    def run(self, state, **inputs):
        return {"made": state["word"] * self.times}

    def update(self, result, state):
        return state.update(shout=result["made"])


class ShoutLess(Shout):
    def update(self, result, state):
        return state.update(shout=result["made"].lower())


def shouting(times=2, ending="?", bound=1, made=Shout, call=helper):
    @action(reads=["shout"], writes=["answer"])
    def answer(state: State, count: int, mark: str = ending) -> State:
        return state.update(answer=call(state["shout"]) * count + mark)

    @action(reads=["answer"], writes=["done"])
    def last(state: State) -> State:
        return state.update(done=state["answer"])

    def build():
        return (
            ApplicationBuilder()
            .with_actions(shout=made(times), answer=answer.bind(count=bound), last=last)
            .with_transitions(("shout", "answer"), ("answer", "last"))
            .with_state(word="Hey")
            .with_entrypoint("shout")
            .build()
        )

    return goldfork_burr.target(build)


def forked(recorded, pipeline):
    # What only the digest of the package would tell apart is no proof enough.
    options = ReplayOptions(code_version=recorded.run.run.code_version, allow_undeclared=True)
    outcome = fork_run(recorded.run, target=pipeline, change='output={"done": 0}', at="last", options=options)
    assert outcome.error is None
    return {step.name: step.state for step in outcome.run.steps}, outcome.output


def test_the_same_code_is_reused():
    recorded = live_run(shouting(), {})
    states, _ = forked(recorded, shouting())
    assert (states["shout"], states["answer"]) == ("reused", "reused")


@pytest.mark.parametrize(
    ("changed", "stale", "answer"),
    [
        ({"times": 3}, "shout", "HeyHeyHey!?"),
        ({"made": ShoutLess}, "shout", "heyhey!?"),
        ({"ending": "."}, "answer", "HeyHey!."),
        ({"bound": 2}, "answer", "HeyHey!HeyHey!?"),
        ({"call": other_helper}, "answer", "HeyHey!!?"),
        ({"call": str.upper}, "answer", "HEYHEY?"),
    ],
    ids=["default", "class", "ending", "bound", "helper", "builtin"],
)
def test_what_changed_runs(changed, stale, answer):
    recorded = live_run(shouting(), {})
    states, output = forked(recorded, shouting(**changed))
    assert states[stale] == "run"
    assert output["answer"] == answer


def test_a_changed_global_runs(monkeypatch):
    recorded = live_run(shouting(), {})
    monkeypatch.setitem(globals(), "SUFFIX", "~")
    states, output = forked(recorded, shouting())
    assert (states["shout"], states["answer"], output["answer"]) == ("reused", "run", "HeyHey~?")


def test_burrs_own_actions_are_reused_too(fork):
    @action(reads=["word"], writes=["length"])
    def measure(state: State) -> State:
        return state.update(length=len(state["word"]))

    def build():
        return (
            ApplicationBuilder()
            .with_actions(ask=Input("word"), measure=measure, give=Result("length"))
            .with_transitions(("ask", "measure"), ("measure", "give"))
            .with_entrypoint("ask")
            .build()
        )

    pipeline = goldfork_burr.target(build)
    recorded = live_run(pipeline, {"word": "four"})
    assert recorded.output == {"word": "four", "length": 4}
    outcome = fork(recorded.run, target=pipeline, change="input:word=sixsix", at="measure")
    assert {step.name: step.state for step in outcome.run.steps[1:]} == {
        "ask": "reused", "measure": "run", "give": "run"
    }  # fmt: skip
    assert outcome.output["length"] == 6


class Report(BaseModel):
    topic: str
    facts: list[str] = []
    summary: str | None = None
    unrelated: int = 0


def test_typed_state_is_recorded_and_reused(fork):
    @action.pydantic(reads=["topic"], writes=["facts"])
    def research(state: Report) -> Report:
        state.facts = [state.topic, "known"]
        return state

    @action.pydantic(reads=["facts"], writes=["summary"])
    def sum_up(state: Report) -> Report:
        state.summary = ", ".join(state.facts)
        return state

    def build():
        return (
            ApplicationBuilder()
            .with_typing(PydanticTypingSystem(Report))
            .with_actions(research=research, sum_up=sum_up)
            .with_transitions(("research", "sum_up"))
            .with_state(Report(topic="tea"))
            .with_entrypoint("research")
            .build()
        )

    pipeline = goldfork_burr.target(build)
    recorded = live_run(pipeline, {})
    assert recorded.output["summary"] == "tea, known"
    assert replay_run(recorded.run, target=pipeline).diff.first_divergence is None
    outcome = fork(recorded.run, target=pipeline, change='input:facts=["else"]', at="sum_up")
    assert {step.name: step.state for step in outcome.run.steps[1:]} == {"research": "reused", "sum_up": "run"}
    assert outcome.output["summary"] == "else"
