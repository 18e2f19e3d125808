"""100 random graphs beside an oracle that knows nothing of LangGraph: what a replay and a fork do, exactly."""

import operator
import random
from collections import Counter, defaultdict
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from harness.replay import ReplayOptions, fork_run, live_run, null_replay, replay_run
from harness.session import Change

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
TOP = "LangGraph"


class Node:
    def __init__(self, name, reads, kind):
        self.name, self.reads, self.kind = name, reads, kind
        self.loops = 0


def invent(seed):
    """A list of blocks, each a list of parallel chains of nodes, a choice, or a loop."""
    rng = random.Random(seed)
    blocks, known, count = [], ["seed"], 0

    def node(extra=()):
        nonlocal count
        count += 1
        reads = sorted({*rng.sample(known, min(len(known), rng.randint(1, 3))), *extra})
        return Node(f"n{count}", reads, rng.choice(["model", "plain", "model", "effect"]))

    for _ in range(rng.randint(2, 5)):
        kind = rng.choice(["step", "parallel", "choice", "loop"])
        if kind == "step":
            chains = [[node()]]
        elif kind == "parallel":
            chains = []
            for _ in range(rng.randint(2, 3)):
                first = node()
                chains.append([first, node([first.name])] if rng.random() < 0.4 else [first])
        elif kind == "choice":
            chains = [[node()], [node()]]
        else:
            looping = node()
            looping.kind, looping.loops = rng.choice(["model", "plain"]), rng.randint(2, 4)
            looping.reads = sorted({*looping.reads, looping.name, "turn_" + looping.name})
            chains = [[looping]]
        on = rng.choice(known)
        blocks.append((kind, chains, on))
        known += [n.name for chain in chains for n in chain if kind != "choice"]
    return blocks


def nodes_of(blocks):
    return [node for _, chains, _ in blocks for chain in chains for node in chain]


def odd(value):
    return int(value, 16) % 2


def text_of(node, given):
    return node.name + "|" + "|".join(f"{k}={given.get(k, '')}" for k in node.reads)


def make_body(world, node):
    name, reads, kind, loops = node.name, tuple(node.reads), node.kind, node.loops

    def body(state):
        text = name + "|" + "|".join(f"{k}={state.get(k, '')}" for k in reads)
        if kind == "effect":
            world.sent.append(text)
            return {name: world.digest("sent" + text), "log": [name]}
        world.ran.append(name)
        value = world.ask(text) if kind == "model" else world.digest("plain" + text)
        update = {name: value, "log": [name]}
        if loops:
            update["turn_" + name] = state.get("turn_" + name, 0) + 1
        return update

    return body


def make_graph(world, blocks):
    keys: dict[str, Any] = {"seed": str}
    for node in nodes_of(blocks):
        keys[node.name] = str
        if node.loops:
            keys["turn_" + node.name] = int
    whole = TypedDict("Whole", {**keys, "log": Annotated[list, operator.add]}, total=False)
    builder = StateGraph(whole)
    for node in nodes_of(blocks):
        schema = TypedDict("Reads_" + node.name, {k: keys[k] for k in node.reads}, total=False)
        metadata = None
        if node.kind == "effect":
            metadata = {"determinism": "side-effect", "stand_in": {node.name: "00", "log": ["dry"]}}
        builder.add_node(node.name, make_body(world, node), input_schema=schema, metadata=metadata)
    wire(builder, blocks)
    return builder.compile()


def choose(on, left, right):
    return lambda state: right if odd(state[on]) else left


def again(node, after):
    return lambda state: node.name if state["turn_" + node.name] < node.loops else after


def wire(builder, blocks):
    """Blocks hang together through nodes of their own, which do nothing."""
    before = START
    for number, (kind, chains, on) in enumerate(blocks):
        gate, after = f"in{number}", f"out{number}"
        for name in (gate, after):
            schema = TypedDict("Reads_" + name, {on: str}, total=False)
            builder.add_node(name, lambda state: {}, input_schema=schema)
        builder.add_edge(before, gate)
        if kind == "choice":
            left, right = chains[0][0].name, chains[1][0].name
            builder.add_conditional_edges(gate, choose(on, left, right), [left, right])
            builder.add_edge(left, after)
            builder.add_edge(right, after)
        elif kind == "loop":
            node = chains[0][0]
            builder.add_edge(gate, node.name)
            builder.add_conditional_edges(node.name, again(node, after), [node.name, after])
        else:
            for chain in chains:
                for one, two in zip([gate, *(n.name for n in chain)], [n.name for n in chain], strict=False):
                    builder.add_edge(one, two)
            ends = [chain[-1].name for chain in chains]
            builder.add_edge(ends if len(ends) > 1 else ends[0], after)
        before = after
    builder.add_edge(before, END)


class Oracle:
    """Runs the blocks one node after the other, by hand, and says what a fork of an earlier run would do."""

    def __init__(self, world, blocks, seed_value, *, parent=None, change=None):
        self.world, self.parent, self.change = world, parent, change
        self.state = {"seed": seed_value}
        self.visits = []
        self.questions, self.calls = Counter(), 0
        self.effects = defaultdict(list)
        self.inputs = defaultdict(list)
        self.numbers = Counter()
        for kind, chains, on in blocks:
            if kind == "choice":
                chains = [chains[odd(self.state[on])]]
            for chain in chains:
                for node in chain:
                    self.visit(node)
                    while node.loops and self.state["turn_" + node.name] < node.loops:
                        self.visit(node)

    def visit(self, node):
        given = {k: self.state[k] for k in node.reads if k in self.state}
        number = self.numbers[node.name]
        self.numbers[node.name] += 1
        addressed = self.change is not None and self.change[:2] == (node.name, number)
        if addressed:
            given[self.change[2]] = self.change[3]
        text = text_of(node, given)
        if node.kind == "effect":
            self.effect(node, text)
            return
        key = tuple(sorted(given.items()))
        visit = len(self.inputs[node.name, key])
        self.inputs[node.name, key].append((number, addressed))
        state = "run"
        if self.parent is not None and not addressed:
            same = self.parent.inputs.get((node.name, key), ())
            touched = visit < len(same) and (node.name, same[visit][0]) == self.change[:2]
            state = "reused" if visit < len(same) and not touched else "run"
        if node.kind == "model":
            asked = self.questions[text]
            self.questions[text] += 1
            known = self.parent is not None and asked < self.parent.questions[text]
            self.calls += not known
        value = self.world.digest(text if node.kind == "model" else "plain" + text)
        self.state[node.name] = value
        if node.loops:
            self.state["turn_" + node.name] = given.get("turn_" + node.name, 0) + 1
        self.visits.append((node.name, number, state))

    def effect(self, node, text):
        recorded = self.parent is None or len(self.effects[text]) < len(self.parent.effects[text])
        self.effects[text].append(node.name)
        self.state[node.name] = self.world.digest("sent" + text) if recorded else "00"


def steps(outcome):
    own = [s for s in outcome.run.steps if s.kind == "agent" and s.scope == TOP and s.name.startswith("n")]
    return Counter((s.name, s.occurrence, s.state) for s in own)


SEEDS = [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 100))]


@pytest.mark.parametrize("seed", SEEDS)
def test_replay_is_equal_and_free_and_a_fork_runs_what_the_oracle_says(world, seed):
    blocks = invent(seed)

    def run(seed):
        return make_graph(world, blocks).invoke({"seed": seed})

    live = live_run(run, {"seed": "a1"}, dry=False, code_version=CODE)
    assert live.error is None
    parent = Oracle(world, blocks, "a1")
    assert {k: v for k, v in live.output.items() if k != "log"} == parent.state
    assert world.server.calls == parent.calls
    assert Counter(world.ran) == Counter(name for name, _, _ in parent.visits)
    assert len(world.sent) == sum(map(len, parent.effects.values()))

    calls, sent = world.server.calls, len(world.sent)
    world.ran.clear()
    replayed = replay_run(live.run, target=run, options=OPTIONS)
    assert replayed.status == "ok", replayed.error
    assert replayed.diff.first_divergence is None
    assert all(step.equal for step in replayed.diff.steps)
    assert replayed.output == live.output
    assert (world.server.calls, len(world.sent)) == (calls, sent)
    assert replayed.counts.tokens == (0, live.counts.tokens[0])

    rng = random.Random(seed + 1000)
    choices = [(name, number) for name, number, _ in parent.visits]
    if not choices:
        return
    name, number = rng.choice(choices)
    node = next(n for n in nodes_of(blocks) if n.name == name)
    field = rng.choice([k for k in node.reads if not k.startswith("turn_") and not (k == name and number == 0)])
    value = rng.choice(["b2", "b3"])
    oracle = Oracle(world, blocks, "a1", parent=parent, change=(name, number, field, value))
    at = f"{TOP}/{name}#{number}"
    change = Change.parse(f'input:{field}="{value}"', at=at)
    null = null_replay(live.run, change=change, target=run, options=OPTIONS)
    assert null.undeclared == ()
    assert (world.server.calls, len(world.sent)) == (calls, sent)
    world.ran.clear()
    forked = fork_run(live.run, target=run, change=change, options=ReplayOptions(code_version=CODE, null=null))
    assert forked.error is None
    assert {k: v for k, v in forked.output.items() if k != "log"} == oracle.state
    assert steps(forked) == Counter(oracle.visits)
    assert Counter(world.ran) == Counter(n for n, _, state in oracle.visits if state == "run")
    assert world.server.calls - calls == oracle.calls
    assert len(world.sent) == sent
