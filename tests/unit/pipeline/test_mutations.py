"""A body that changes what was handed to it is told on: which step, which argument, where, the hashes."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest

from harness.pipeline import carry, snapshot, step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, mutations, replay_run
from harness.session import current
from harness.testing import MemorySink

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
SEEN = []


@dataclass
class Basket:
    items: list = field(default_factory=list)


@dataclass
class Agent:
    turns: int = 0

    @step
    def turn(self, word):
        self.turns += 1
        return word


@step
def collect(facts, topic):
    facts[1]["words"].append(topic)
    return len(facts)


@step
def total(facts):
    return sum(len(fact["words"]) for fact in facts)


@workflow("collecting")
def collecting(topic):
    facts = [{"words": []}, {"words": ["a"]}]
    return collect(facts, topic) + total(facts)


def hashes(*values):
    return [snapshot(value, ordered=False).hash for value in values]


def test_the_argument_the_place_in_it_and_both_hashes_are_named():
    outcome = live_run(collecting, {"topic": "b"}, code_version=CODE)
    (found,) = outcome.mutations
    before, after = hashes([{"words": []}, {"words": ["a"]}], [{"words": []}, {"words": ["a", "b"]}])
    assert (found.step, found.argument, found.path) == ("collect", "facts", "$[1].words[1]")
    assert (found.before, found.after) == (before, after)
    assert str(found) == (
        f"step 'collect' changed its argument 'facts' at $[1].words[1] (hash {before[:8]}, then {after[:8]})"
    )
    assert [s.name for s in outcome.run.steps if s.mutated] == ["collect"]


def test_it_is_kept_with_the_run_and_found_again_in_replay_and_fork():
    sink = MemorySink()
    first = live_run(collecting, {"topic": "b"}, code_version=CODE, sink=sink)
    assert mutations(sink.recording()) == first.mutations
    assert replay_run(first.run, target=collecting, options=OPTIONS).mutations == first.mutations
    forked = fork_run(first.run, target=collecting, change="output=7", at="total", options=OPTIONS)
    assert [(s.name, s.state) for s in forked.run.steps if s.name == "collect"] == [("collect", "run")]
    assert forked.mutations == first.mutations


def test_a_run_that_changes_nothing_says_nothing():
    @step
    def copied(facts):
        return [*facts, 1]

    run = workflow("clean")(lambda: copied([0]))
    outcome = live_run(run, {})
    assert outcome.mutations == ()
    assert dict(outcome.run.run.metadata) == {}


@pytest.mark.parametrize(
    ("value", "change", "path"),
    [
        ({"a": 1, "b": 2}, lambda d: d.update(b=3), "$.b"),
        ({"a": 1}, lambda d: d.update(z=3), "$.z"),
        ({"a": 1, "b": 2}, lambda d: d.pop("a"), "$.a"),
        ([1, 2, 3], lambda xs: xs.pop(), "$[2]"),
        ([1, 2, 3], lambda xs: xs.reverse(), "$[0]"),
        ({1, 2}, lambda xs: xs.add(3), "$[2]"),
        (Basket(["x"]), lambda basket: basket.items.append("y"), "$.items[1]"),
        ({"a": [{"b": [0]}]}, lambda d: d["a"][0]["b"].clear(), "$.a[0].b[0]"),
        # JSON does not tell 1 from 1.0 or a list from a tuple; the hash does.
        ([1], lambda xs: xs.__setitem__(0, 1.0), "$"),
    ],
)
def test_every_kind_of_value_is_told(value, change, path):
    @step
    def body(kept, given):
        del kept
        change(given)

    run = workflow("kinds")(lambda: body([1], value))
    (found,) = live_run(run, {}).mutations
    assert (found.step, found.argument, found.path) == ("body", "given", path)
    assert found.before != found.after


def test_what_can_no_longer_be_serialised_is_told_without_a_second_hash():
    @step
    def body(given, other):
        given.append(object())
        other.append(1)

    run = workflow("lost")(lambda: body([], []))
    lost, other = live_run(run, {}).mutations
    assert (lost.argument, lost.path, lost.after) == ("given", "$", None)
    assert (other.argument, other.path) == ("other", "$[0]")
    assert "then unknown" in str(lost)


def test_methods_async_steps_tools_and_generators_are_told_by_their_address():
    @step
    async def wait(given):
        given.append(1)

    @step
    def stream(given):
        for item in list(given):
            given.append(item)
            yield item

    @tool(determinism="deterministic")
    def look(given):
        given.append(2)

    @workflow("many")
    async def many():
        agent = Agent()
        agent.turn("a")
        agent.turn("b")
        await asyncio.gather(*(wait([]) for _ in range(2)))
        list(stream([0]))
        look([])

    outcome = live_run(many, {})
    told = {(one.step, one.argument, one.path) for one in outcome.mutations}
    assert told == {
        ("turn", "self", "$.turns"),
        ("turn#1", "self", "$.turns"),
        ("wait", "given", "$[0]"),
        ("wait#1", "given", "$[0]"),
        ("stream", "given", "$[1]"),
        ("look", "given", "$[0]"),
    }


def test_a_global_that_a_body_changes_is_told_by_the_step_and_two_digests():
    @step
    def remember(word):
        SEEN.append(word)
        return len(SEEN)

    run = workflow("remembering")(remember)
    SEEN.clear()
    outcome = live_run(run, {"word": "a"})
    (found,) = outcome.mutations
    record = next(s for s in outcome.run.steps if s.name == "remember")
    assert (found.step, found.argument, found.path, found.before) == ("remember", None, None, record.version)
    assert found.after not in {None, found.before}
    assert "a global, a cache or a closure" in str(found)


def test_a_loop_keeps_the_first_fifty():
    @step
    def body(given):
        given.append(1)

    def work():
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(carry(body), [[] for _ in range(80)]))

    outcome = live_run(workflow("loop")(work), {})
    assert len(outcome.mutations) == 50
    assert sum(s.mutated for s in outcome.run.steps) == 80


def test_an_undeclared_change_names_what_was_mutated():
    state = {"factor": 1}

    def scale(values):
        values.append(state["factor"])
        return values

    @step
    def grow(values):
        return len(scale(values)) * state["factor"]

    @step
    def tail(n):
        return n

    run = workflow("growing")(lambda: tail(grow([0])))
    parent = live_run(run, {}, code_version=CODE).run
    state["factor"] = 2
    with pytest.raises(Exception, match=r"step 'grow' has hash .* and it changed its argument 'values' at \$\[1\]"):
        fork_run(parent, target=run, change="output=0", at="tail", options=OPTIONS)


@pytest.mark.parametrize("told", [7, "x", {"a": 1}, [1, {"no": "step"}, {"step": 3}]])
def test_what_a_foreign_recording_claims_is_read_with_care(told):
    outcome = live_run(workflow("plain")(lambda: 1), {})
    foreign = replace(outcome.run, run=replace(outcome.run.run, metadata={"mutations": told}))
    assert mutations(foreign) == ()
    odd = [{"step": "s", "argument": 3, "path": ["$"], "before": None}]
    (one,) = mutations(replace(foreign, run=replace(foreign.run, metadata={"mutations": odd})))
    assert (one.step, one.argument, one.path, one.before, one.after) == ("s", None, None, None, None)


def test_a_key_in_the_argument_is_starred_out_of_the_finding():
    """The path is made of the snapshot, in which the credentials of the run are starred out."""
    secret = "sk-0123456789abcdef0123456789abcdef"

    @step
    def body(given):
        current().run.keep_secret([secret.encode()])
        given[secret] = 2

    outcome = live_run(workflow("secret")(lambda: body({})), {})
    assert secret not in json.dumps([str(one) + str(one.path) for one in outcome.mutations])
    assert len(outcome.mutations) == 1
