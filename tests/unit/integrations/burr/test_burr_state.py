"""What an action does to the state and reads of it, declared or not: no false reuse, and reuse where it is safe."""

import warnings

import pytest

pytest.importorskip("burr")

from burr.core import ApplicationBuilder, State, action

from harness.integrations import burr as goldfork_burr
from harness.replay import content, live_run, replay_run


def chain(*steps, **state):
    """A builder of an application that runs functions one after another."""

    def build():
        names = [step.action_function._originating_fn.__name__ for step in steps]
        builder = ApplicationBuilder().with_actions(**dict(zip(names, steps, strict=True)))
        builder = builder.with_transitions(*zip(names, names[1:], strict=False))
        made = {name: value() if callable(value) else value for name, value in state.items()}
        return builder.with_state(**made).with_entrypoint(names[0]).build()

    return goldfork_burr.target(build)


def states(outcome):
    return {step.address: step.state for step in outcome.diff.steps}


@action(reads=[], writes=["source"])
def start(state: State) -> State:
    return state.update(source="one")


@action(reads=[], writes=["done"])
def last(state: State) -> State:
    return state.update(done=True)


def test_an_action_that_appends_to_a_list_it_only_read_is_marked_and_never_skipped(world, fork):
    @action(reads=["notes"], writes=["seen"])
    def look(state: State) -> State:
        world.ran.append("look")
        state["notes"].append("looked")
        return state.update(seen=len(state["notes"]))

    @action(reads=["notes"], writes=["summary"])
    def sum_up(state: State) -> State:
        world.ran.append("sum_up")
        return state.update(summary=" ".join(state["notes"]))

    pipeline = chain(start, look, sum_up, last, notes=lambda: ["first"])
    recorded = live_run(pipeline, {})
    assert recorded.output["notes"] == ["first", "looked"]
    steps = {step.name: step for step in recorded.run.steps}
    assert [name for name, step in steps.items() if step.mutated] == ["look"]
    # Snapshots hold what was there, whatever became of it later.
    assert content(recorded.run, steps["look"].input_hash) == {"notes": ["first"]}
    assert content(recorded.run, steps["sum_up"].input_hash) == {"notes": ["first", "looked"]}
    again = replay_run(recorded.run, target=pipeline)
    assert (again.output, again.diff.first_divergence) == (recorded.output, None)
    forked = fork(recorded.run, target=pipeline, change='output={"done": false}', at="last")
    assert world.ran == ["look"]
    assert forked.output == {**recorded.output, "done": False}


def test_appending_without_declaring_the_read_is_reused_only_on_top_of_the_same(world, fork):
    @action(reads=["source"], writes=["log"])
    def note(state: State) -> State:
        world.ran.append("note")
        return state.append(log="noted")

    @action(reads=["seed"], writes=["log"])
    def first(state: State) -> State:
        world.ran.append("first")
        return state.append(log=f"seed {state['seed']}")

    pipeline = chain(start, first, note, last, log=list, seed=1)
    recorded = live_run(pipeline, {})
    assert recorded.output["log"] == ["seed 1", "noted"]
    step = next(step for step in recorded.run.steps if step.name == "note")
    assert content(recorded.run, step.input_hash)["$also_read"] == {"values": {"log": ["seed 1"]}}
    same = fork(recorded.run, target=pipeline, change='output={"done": 0}', at="last")
    assert states(same)["note"] == "reused"
    # A fork of a fork rests on what the first fork skipped.
    assert states(fork(same.run, target=pipeline, change='output={"done": 1}', at="last"))["note"] == "reused"
    other = fork(recorded.run, target=pipeline, change="input:seed=2", at="first")
    assert other.output["log"] == ["seed 2", "noted"]
    assert states(other)["note"] == "run"


def test_a_tool_that_appends_is_answered_only_on_top_of_the_same(world, fork):
    @action(reads=["source"], writes=["log"], tags=["determinism:deterministic"])
    def note(state: State) -> State:
        world.ran.append("note")
        return state.append(log="noted")

    @action(reads=["seed"], writes=["log"])
    def first(state: State) -> State:
        return state.append(log=f"seed {state['seed']}")

    pipeline = chain(start, first, note, last, log=list, seed=1)
    recorded = live_run(pipeline, {})
    assert replay_run(recorded.run, target=pipeline).output == recorded.output
    same = fork(recorded.run, target=pipeline, change='output={"done": 0}', at="last")
    assert (states(same)["note"], same.output["log"]) == ("answered", ["seed 1", "noted"])
    other = fork(recorded.run, target=pipeline, change="input:seed=2", at="first")
    assert (states(other)["note"], other.output["log"]) == ("called", ["seed 2", "noted"])
    # Both forks are recordings like any other, with each step once.
    assert len({step.id for step in same.run.steps}) == len(same.run.steps)
    for forked in (same, other):
        again = fork(forked.run, target=pipeline, change='output={"done": 1}', at="last")
        assert (states(again)["note"], again.output["log"]) == ("answered", forked.output["log"])
    assert world.ran == []


def test_a_value_that_was_changed_without_being_declared_at_all_is_noticed(world, fork):
    @action(reads=[], writes=["seen"])
    def look(state: State) -> State:
        world.ran.append("look")
        notes = state["notes"]
        notes.append("looked")
        return state.update(seen=True)

    pipeline = chain(start, look, last, notes=lambda: ["first"])
    recorded = live_run(pipeline, {})
    assert recorded.output["notes"] == ["first", "looked"]
    forked = fork(recorded.run, target=pipeline, change='output={"done": 0}', at="last")
    assert (world.ran, forked.output["notes"]) == (["look"], ["first", "looked"])


def test_a_value_that_was_not_declared_or_not_there_counts_as_read(world, fork):
    @action(reads=["source"], writes=["answer"])
    def peek(state: State) -> State:
        world.ran.append("peek")
        given = state
        return state.update(answer=[given.get("hidden"), given.get("missing", "none")])

    @action(reads=["seed"], writes=["hidden"])
    def first(state: State) -> State:
        after = state.update(hidden=state["seed"])
        return after.update(missing="there") if state["seed"] == 3 else after

    pipeline = chain(start, first, peek, last, seed=1)
    recorded = live_run(pipeline, {})
    assert recorded.output["answer"] == [1, "none"]
    kept = fork(recorded.run, target=pipeline, change='output={"done": 0}', at="last")
    assert states(kept)["peek"] == "reused"
    hidden = fork(recorded.run, target=pipeline, change="input:seed=2", at="first")
    assert (states(hidden)["peek"], hidden.output["answer"]) == ("run", [2, "none"])
    missing = fork(recorded.run, target=pipeline, change='output={"hidden": 1, "missing": "x"}', at="first")
    assert (states(missing)["peek"], missing.output["answer"]) == ("run", [1, "x"])


def test_an_action_that_looks_at_the_whole_state_hangs_on_all_of_it(world, fork):
    @action(reads=["source"], writes=["names"])
    def survey(state: State) -> State:
        return state.update(names=sorted(name for name in state if not name.startswith("__")))

    @action(reads=["source"], writes=["copied"])
    def whole(state: State) -> State:
        return state.update(copied={k: v for k, v in state.get_all().items() if not k.startswith("__")})

    @action(reads=["seed"], writes=["hidden"])
    def first(state: State) -> State:
        return state.update(hidden=state["seed"])

    pipeline = chain(start, first, survey, whole, last, seed=1)
    recorded = live_run(pipeline, {})
    forked = fork(recorded.run, target=pipeline, change="input:seed=2", at="first")
    assert {name: states(forked)[name] for name in ("survey", "whole", "last")} == {
        "survey": "reused", "whole": "run", "last": "reused"
    }  # fmt: skip
    more = fork(recorded.run, target=pipeline, change='output={"hidden": 1, "new": 1}', at="first")
    assert states(more)["survey"] == "run"
    assert more.output["names"] == ["hidden", "new", "seed", "source"]


def test_values_that_share_a_part_are_made_again_since_a_recording_would_part_them(world, fork):
    @action(reads=["source"], writes=["left", "right"])
    def twins(state: State) -> State:
        shared = [1]
        return state.update(left=shared, right=shared)

    @action(reads=["left"], writes=["seen"])
    def grow(state: State) -> State:
        state["left"].append(2)
        return state.update(seen=True)

    pipeline = chain(start, twins, grow, last)
    recorded = live_run(pipeline, {})
    assert recorded.output["right"] == [1, 2]
    forked = fork(recorded.run, target=pipeline, change='output={"done": 0}', at="last")
    assert forked.output["right"] == [1, 2]
    assert {name: states(forked)[name] for name in ("start", "twins", "grow")} == {
        "start": "reused", "twins": "run", "grow": "run"
    }  # fmt: skip


def test_what_an_action_deletes_or_sets_beside_its_writes_is_part_of_its_output(world, fork):
    @action(reads=["seed"], writes=["kept"])
    def tidy(state: State) -> State:
        world.ran.append("tidy")
        return state.update(kept=1, besides=2).wipe(delete=["old"])

    pipeline = chain(start, tidy, last, seed=1, old="x")
    recorded = live_run(pipeline, {})
    assert recorded.output == {"seed": 1, "source": "one", "kept": 1, "besides": 2, "done": True}
    forked = fork(recorded.run, target=pipeline, change='output={"done": true}', at="last")
    assert (world.ran, forked.output) == ([], recorded.output)


def test_a_change_replaces_the_state_value_from_that_action_on(world, fork):
    @action(reads=["seed"], writes=["doubled"])
    def double(state: State) -> State:
        return state.update(doubled=state["seed"] * 2)

    @action(reads=["seed", "doubled"], writes=["total"])
    def add(state: State) -> State:
        return state.update(total=state["seed"] + state["doubled"])

    pipeline = chain(start, double, add, seed=1)
    recorded = live_run(pipeline, {})
    forked = fork(recorded.run, target=pipeline, change="input:seed=5", at="double")
    assert forked.output == {"seed": 5, "source": "one", "doubled": 10, "total": 15}
    refused = fork(recorded.run, target=pipeline, change="input:sead=5", at="double")
    assert refused.error.endswith("step 'double' has no parameter 'sead'; it has: seed")


def test_a_value_that_no_recording_can_hold_is_made_again(world, fork):
    class Handle:
        pass

    @action(reads=["source"], writes=["handle"])
    def opened(state: State) -> State:
        return state.update(handle=Handle())

    @action(reads=["handle"], writes=["kind"])
    def used(state: State) -> State:
        return state.update(kind=type(state["handle"]).__name__)

    pipeline = chain(start, opened, used, last)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorded = live_run(pipeline, {})
    forked = fork(recorded.run, target=pipeline, change='output={"done": 0}', at="last")
    assert forked.error is None
    assert {name: states(forked)[name] for name in ("start", "opened", "used")} == {
        "start": "reused", "opened": "run", "used": "run"
    }  # fmt: skip


def test_an_error_of_an_action_is_recorded_and_raised_as_it_was(world):
    @action(reads=["source"], writes=["never"])
    def broken(state: State) -> State:
        raise ValueError("no such order")

    @action(reads=["source"], writes=["never"])
    def nothing(state: State) -> State:
        return None

    for wrong, message in ((broken, "ValueError: no such order"), (nothing, "ValueError: ")):
        pipeline = chain(start, wrong, last)
        recorded = live_run(pipeline, {})
        assert recorded.error.startswith(message)
        assert [(step.name, step.status) for step in recorded.run.steps[1:]] == [
            ("start", "ok"), (wrong.__name__, "error")
        ]  # fmt: skip
        again = replay_run(recorded.run, target=pipeline)
        assert (again.error, again.diff.first_divergence) == (recorded.error, None)
