"""Exactly one change: what the current code does by itself is told from what the fork's change does."""

import itertools
import random
import threading
import time
from dataclasses import replace

import pytest

from harness.errors import ChangeError, UndeclaredChange
from harness.pipeline import carry, prompt, step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, null_replay
from harness.session import Change

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
SETTING = {"factor": 2, "extra": False}


@step
def scale(x):
    return x * SETTING["factor"]


@step
def tell(x):
    return f"is {x}"


@workflow("scaled")
def scaled(x):
    if SETTING["extra"]:
        tell("more")
    return tell(scale(x))


@pytest.fixture
def setting():
    yield SETTING
    SETTING.update(factor=2, extra=False)


@pytest.fixture
def parent():
    return live_run(scaled, {"x": 3}, code_version=CODE).run


def fork(run, parent, change="input:x=1", at="tell", **options):
    return fork_run(parent, target=run, change=change, at=at, mode="replay", options=replace(OPTIONS, **options))


def test_code_that_gives_what_it_gave_leaves_the_change_alone(parent):
    outcome = fork(scaled, parent)
    assert (outcome.output, outcome.undeclared) == ("is 1", ())


def test_a_changed_value_is_named_with_step_place_and_hashes(parent, setting):
    setting["factor"] = 5
    recorded = next(s for s in parent.steps if s.name == "scale").output_hash[:8]
    with pytest.raises(UndeclaredChange, match=rf"step 'scale' has hash [0-9a-f]{{8}}, recorded {recorded}.*--allow"):
        fork(scaled, parent)
    assert fork(scaled, parent, change="code").output == "is 15"
    allowed = fork(scaled, parent, allow_undeclared=True)
    assert allowed.output == "is 1"
    assert "first at $" in allowed.undeclared[0]
    assert allowed.counts.tokens_spent == 0


def test_an_added_step_is_named_and_at_most_three_are(parent, setting):
    setting.update(factor=5, extra=True)
    with pytest.raises(ChangeError) as caught:
        fork(scaled, parent)
    assert "step 'tell#1' is new" in str(caught.value) or "step 'tell' is new" in str(caught.value)
    assert len(caught.value.undeclared) > 3
    assert "more" in str(caught.value)


def test_code_as_the_change_is_refused_where_nothing_was_edited(parent, setting):
    with pytest.raises(ChangeError, match="the code is the recorded one"):
        fork(scaled, parent, change="code", at="")
    setting["factor"] = 4
    assert fork(scaled, parent, change="code", at="").undeclared == ()


def test_a_call_that_is_no_longer_made_so_explains_itself(provider):
    parent = live_run(provider.run, {"ticket": "a"}, code_version=CODE).run
    before = provider.server.calls
    provider.ask, ask = (lambda text: ask(f"{text}?")), provider.ask
    with pytest.raises(UndeclaredChange, match="recorded .*look a.*now .*look a\\?"):
        fork_run(
            parent, target=provider.run, change="model=n", at="check", options=ReplayOptions(code_version="d" * 64)
        )
    assert provider.server.calls == before


def test_a_null_replay_is_made_once_for_many_forks(parent):
    change = Change.parse("input:x=1", at="tell")
    null = null_replay(parent, change=change, target=scaled, options=OPTIONS)
    assert null.undeclared == ()
    assert [fork(scaled, parent, f"input:x={n}", null=null).output for n in range(3)] == ["is 0", "is 1", "is 2"]


def test_chance_in_a_body_is_called_not_deterministic():
    numbers = itertools.count()

    @step
    def draw():
        return random.random() + next(numbers)

    @step
    def use(x):
        return x

    @workflow("chance")
    def run():
        return use(draw())

    parent = live_run(run, {}, code_version=CODE).run
    with pytest.raises(UndeclaredChange, match=r"two replays of the same code differ at step 'draw' .*random"):
        fork(run, parent, "input:x=1", "use")


def test_of_a_value_that_is_never_the_same_the_place_and_both_hashes_are_named():
    numbers = itertools.count()

    @step
    def make(seed):
        return {"seed": seed, "ticket": {"number": next(numbers)}}

    @step
    def use(made):
        return len(made)

    @workflow("never")
    def run():
        return use(make(1))

    parent = live_run(run, {}, code_version=CODE).run
    hashes = r"\(input (\w{8}), output \w{8}, then input \1, output \w{8}, "
    told = rf"differ at step 'make' {hashes}first at \$.ticket.number of the output\)"
    with pytest.raises(UndeclaredChange, match=told):
        fork(run, parent, "output=7", "use")


def test_a_mutated_argument_that_makes_the_difference_is_named():
    seen = []

    @step
    def note(items):
        items.append(len(seen))
        seen.append(1)
        return list(items)

    @workflow("notes")
    def run():
        return note([])

    parent = live_run(run, {}, code_version=CODE).run
    with pytest.raises(
        UndeclaredChange,
        match=r"'note' has hash .* and it changed its argument 'items' at \$\[0\] \(hash \w{8}, then \w{8}\)",
    ):
        fork(run, parent, "input:items=[7]", "note")


def test_steps_in_another_order_are_named_and_parallel_ones_are_not():
    order = ["a", "b"]

    @step
    def one(name):
        time.sleep(0.001)
        return name

    @workflow("ordered")
    def run():
        return sorted([one(name) for name in order])

    parent = live_run(run, {}, code_version=CODE).run
    assert fork(run, parent, "output=1", "one#0").undeclared == ()
    order.reverse()
    with pytest.raises(UndeclaredChange, match="now starts before"):
        fork(run, parent, "input:name=c", "one#0")

    @workflow("parallel")
    def parallel():
        threads = [threading.Thread(target=carry(one), args=(name,)) for name in order]
        for thread in threads:
            thread.start()
            thread.join()

    parent = live_run(parallel, {}, code_version=CODE).run
    order.reverse()
    assert fork(parallel, parent, "input:name=c", "one#0").undeclared == ()


def test_an_edited_tool_is_an_undeclared_change(provider):
    def make(version):
        @tool(determinism="deterministic", version=version)
        def look(key):
            return key

        @step
        def find(key):
            return look(key)

        @workflow("w")
        def run():
            return find("k")

        return run

    parent = live_run(make("1"), {}, code_version=CODE).run
    with pytest.raises(UndeclaredChange, match="its version is '2', the recording holds 1"):
        fork(make("2"), parent, "input:key=j", "find")


def test_the_prefix_that_is_proven_does_not_run_for_it_either():
    text, bodies = prompt("p", "say {x}"), Log()

    @step
    def first(x):
        bodies.append("first")
        return x

    @step
    def second(x):
        bodies.append("second")
        return text.format(x=x)

    @workflow("w")
    def run():
        return second(first(1))

    parent = live_run(run, {}, code_version=CODE).run
    bodies.clear()
    outcome = fork(run, parent, "prompt:p=tell {x}", "second")
    assert outcome.output == "tell 1"
    assert bodies == ["second", "second"]


class Log(list):
    """Bodies that ran, in the null replay too; opaque, so that it is not what a step hangs on."""

    __goldfork_opaque__ = True
