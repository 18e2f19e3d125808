"""Random Burr graphs against an oracle that knows neither Burr nor Goldfork."""

import hashlib
import json
import random
from collections import defaultdict
from dataclasses import dataclass

import pytest

pytest.importorskip("burr")

from burr.core import Action, ApplicationBuilder, Condition, State, action, default

from harness.integrations import burr as goldfork_burr
from harness.replay import live_run, replay_run
from harness.session import Change

KEYS = ["a", "b", "c", "d", "e"]
TAGS = {
    "deterministic": "determinism:deterministic",
    "timed": "determinism:time-bound",
    "effect": "determinism:side-effect",
}
SHAPES = ["plain", "plain", "model", "model", "append", "halves", "halves-model", "deterministic", "timed", "effect"]
STAND_IN = "not sent"


@dataclass(frozen=True)
class Node:
    name: str
    shape: str
    reads: tuple
    write: str
    skip_to: str | None = None
    """Where to go when the last digit of what was written is even."""
    back_to: str | None = None
    """Where to go again while the node's own counter is below ``rounds``."""
    rounds: int = 0

    @property
    def counter(self):
        return f"count_{self.name}"

    @property
    def is_tool(self):
        return self.shape in TAGS


def graph(seed):
    """A chain with jumps ahead and loops back."""
    rng = random.Random(seed)
    names = [f"n{number}" for number in range(rng.randint(3, 7))]
    nodes = []
    for place, name in enumerate(names):
        ahead, behind = names[place + 2 :], names[: place + 1]
        jumps = bool(ahead) and rng.random() < 0.35
        loops = not jumps and place + 1 < len(names) and rng.random() < 0.35
        nodes.append(
            Node(
                name=name,
                shape="plain" if loops else rng.choice(SHAPES),
                reads=tuple(rng.sample(KEYS, rng.randint(1, 3))),
                write=rng.choice(KEYS),
                skip_to=rng.choice(ahead) if jumps else None,
                back_to=rng.choice(behind) if loops else None,
                rounds=rng.randint(1, 3) if loops else 0,
            )
        )
    return nodes, rng


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def worked_out(node, values):
    return digest(f"{node.name} {json.dumps(values)}")


# The oracle.


@dataclass(frozen=True)
class Visit:
    name: str
    number: int
    """Which visit of this node."""
    inputs: str
    """What the node declares to read, as it was."""
    beyond: str
    """What it reads besides, by writing on top of it."""
    output: str
    state: str


def simulate(nodes, change=None, recorded=None):
    """The visits of a run, with what a fork would do at each; ``change`` is (name, number, key, value)."""
    by_name = {node.name: node for node in nodes}
    state = {key: key for key in KEYS} | {"log": []} | {node.counter: 0 for node in nodes if node.back_to}
    counts, at, visits = defaultdict(int), nodes[0].name, []
    known = Known(recorded or [], change)
    while at is not None:
        node = by_name[at]
        number = counts[at]
        counts[at] += 1
        changed = change is not None and (at, number) == change[:2]
        if changed:
            state[change[2]] = change[3]
        inputs = json.dumps([state[key] for key in node.reads])
        beyond = json.dumps(state["log"] if node.shape == "append" else state.get(node.counter))
        output = worked_out(node, [state[key] for key in node.reads])
        word, output = known.word(node, inputs, beyond, output, changed=changed)
        visits.append(Visit(at, number, inputs, beyond, output, word))
        state[node.write] = output
        if node.shape == "append":
            state["log"] = [*state["log"], output]
        if node.back_to:
            state[node.counter] += 1
        at = following(nodes, node, state)
    return visits, state


def following(nodes, node, state):
    if node.back_to and state[node.counter] <= node.rounds:
        return node.back_to
    if node.skip_to and int(digest(state[node.write]), 16) % 2 == 0:
        return node.skip_to
    place = nodes.index(node) + 1
    return nodes[place].name if place < len(nodes) else None


class Known:
    """What a recording answers."""

    def __init__(self, recorded, change):
        self.recorded, self.change = recorded, change
        self.seen = defaultdict(int)

    def word(self, node, inputs, beyond, output, *, changed):
        if not self.recorded:
            return ("called" if node.is_tool else "run"), output
        alike = [visit for visit in self.recorded if (visit.name, visit.inputs) == (node.name, inputs)]
        place = self.seen[node.name, inputs]
        self.seen[node.name, inputs] += 1
        found = alike[place] if place < len(alike) else None
        if node.is_tool:
            if node.shape == "effect":
                return "dry", (found.output if found else STAND_IN)
            return ("answered" if found else "called"), output
        addressed = found is not None and (found.name, found.number) == self.change[:2]
        if found is None or changed or addressed or found.beyond != beyond:
            return "run", output
        return "reused", output


# The same graph in Burr.


def built(nodes, world):
    builder = ApplicationBuilder().with_actions(**{node.name: made(node, world) for node in nodes})
    for node, after in zip(nodes, [*nodes[1:], None], strict=True):
        edges = []
        if node.back_to:
            edges.append((node.name, node.back_to, again(node)))
        if node.skip_to:
            edges.append((node.name, node.skip_to, even(node)))
        if after is not None:
            edges.append((node.name, after.name, default))
        if edges:
            builder = builder.with_transitions(*edges)
    counters = {node.counter: 0 for node in nodes if node.back_to}
    return builder.with_state(**{key: key for key in KEYS}, log=[], **counters).with_entrypoint("n0").build()


def again(node):
    return Condition.lmda(lambda state: state[node.counter] <= node.rounds, [node.counter])


def even(node):
    return Condition.lmda(lambda state: int(digest(state[node.write]), 16) % 2 == 0, [node.write])


class Halves(Action):
    def __init__(self, node, world):
        super().__init__()
        self.node, self.world = node, world

    @property
    def reads(self):
        return list(self.node.reads)

    @property
    def writes(self):
        return [self.node.write]

    def run(self, state, **inputs):
        return {"made": body(self.node, self.world, [state[key] for key in self.node.reads])}

    def update(self, result, state):
        return state.update(**{self.node.write: result["made"]})


def body(node, world, values):
    world.ran.append(node.name)
    if node.shape == "effect":
        world.sent.append(values)
    if "model" in node.shape:
        return world.ask(f"{node.name} {json.dumps(values)}")
    return worked_out(node, values)


def made(node, world):
    if node.shape.startswith("halves"):
        return Halves(node, world)
    extra = [*(["log"] if node.shape == "append" else []), *([node.counter] if node.back_to else [])]
    tags = [TAGS[node.shape]] if node.is_tool else []

    @action(reads=list(node.reads), writes=[node.write, *extra], tags=tags)
    def visit(state: State) -> State:
        output = body(node, world, [state[key] for key in node.reads])
        after = state.update(**{node.write: output})
        if node.shape == "append":
            after = after.append(log=output)
        return after.increment(**{node.counter: 1}) if node.back_to else after

    return visit


def words(outcome):
    return [(step.name, step.occurrence, step.state) for step in outcome.run.steps if step.parent_id]


SEEDS = [seed if seed < 25 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(100)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_graph_is_replayed_for_nothing_and_forked_where_the_oracle_says(world, seed, fork):
    nodes, rng = graph(seed)
    stand_ins = {node.name: {node.write: STAND_IN} for node in nodes if node.shape == "effect"}
    pipeline = goldfork_burr.target(lambda: built(nodes, world), name=f"graph-{seed}", stand_ins=stand_ins)
    visits, state = simulate(nodes)

    recorded = live_run(pipeline, {}, dry=False)
    assert (recorded.error, recorded.output) == (None, state)
    assert [step.name for step in recorded.run.steps[1:]] == [visit.name for visit in visits]
    calls, sent = world.server.calls, len(world.sent)

    again = replay_run(recorded.run, target=pipeline)
    assert (again.status, again.output) == ("ok", state)
    assert all(step.equal for step in again.diff.steps)
    assert (world.server.calls, len(world.sent), again.counts.provider_calls) == (calls, sent, 0)

    chosen = [visit for visit in visits if not by_name(nodes, visit).is_tool]
    if not chosen:
        return
    visit = rng.choice(chosen)
    key = rng.choice(by_name(nodes, visit).reads)
    expected, after = simulate(nodes, (visit.name, visit.number, key, "else"), visits)
    at = f"{visit.name}#{visit.number}"
    forked = fork(recorded.run, target=pipeline, change=Change(kind="input", at=at, name=key, value="else"))
    assert (forked.error, forked.output) == (None, after)
    assert [(step.name, step.state) for step in forked.run.steps[1:]] == [(one.name, one.state) for one in expected]
    assert world.ran == [one.name for one in expected if one.state in {"run", "called"}]
    assert len(world.sent) == sent


def by_name(nodes, visit):
    return next(node for node in nodes if node.name == visit.name)
