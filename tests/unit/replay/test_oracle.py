"""Random pipelines against an independent oracle: what a replay equals, and exactly what a fork runs.

A pipeline is a program over numbered values: calls, branches, loops, parallel calls, nested steps. The oracle
interprets the same program without the package, once as it was recorded and once with the change, and says by name,
scope, inputs and visit which steps may be taken over. A model's answer is a function of its request, so that the
oracle knows it too.
"""

import ast
import asyncio
import contextlib
import hashlib
import itertools
import random
import socket
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from openai import OpenAI

from harness.gateway import wrap
from harness.pipeline import carry, step, tool, workflow
from harness.replay import ReplayOptions, content, fork_run, live_run, replay_run
from harness.session import Change, branch
from harness.testing import ScriptedServer

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
PROGRAMS = 1000
AT_ONCE = 50


def digest(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") % 1000


# --- programs: tuples only, so that they are plain values -------------------------------------------------------------
# ("call", step, inputs) · ("if", input, then, else) · ("loop", input, step) · ("all", (steps…), input)
# ("in", step, program, input); the value of each statement is appended to the list of values.


def program(rng, *, depth=0, prefix="s"):
    made, size = [], rng.randint(2, 5)
    for place in range(size):
        have = place + 1
        name = f"{prefix}{place}"
        kind = rng.choice(["call", "call", "ask", "send", "if", "loop", "all"] + ["in"] * (depth < 2))
        pick = lambda: rng.randrange(have)  # noqa: B023, E731
        if kind in {"call", "ask", "send"}:
            made.append((kind, name, tuple(pick() for _ in range(rng.randint(1, 2)))))
        elif kind == "if":
            made.append(("if", pick(), f"{name}a", f"{name}b"))
        elif kind == "loop":
            made.append(("loop", pick(), name))
        elif kind == "all":
            made.append(("all", tuple(f"{name}p{n}" for n in range(rng.randint(2, 3))), pick()))
        else:
            made.append(("in", name, program(rng, depth=depth + 1, prefix=f"{name}_"), pick()))
    return tuple(made)


# --- the oracle -------------------------------------------------------------------------------------------------------


@dataclass
class Visit:
    scope: str
    name: str
    inputs: tuple
    value: int = 0
    below: list = field(default_factory=list)
    occurrence: int = 0

    @property
    def address(self):
        path = f"{self.scope}/{self.name}" if self.scope else self.name
        return f"{path}#{self.occurrence}" if self.occurrence else path

    def all(self):
        yield self
        for inner in self.below:
            yield from inner.all()


class Oracle:
    def __init__(self, dictated=None):
        self.dictated = dictated or {}
        self.names = Counter()

    def run(self, statements, start, scope=""):
        values, visits = [start], []
        for statement in statements:
            kind = statement[0]
            if kind in {"call", "ask", "send"}:
                visits.append(self.leaf(kind, statement[1], tuple(values[i] for i in statement[2]), scope))
                values.append(visits[-1].value)
            elif kind == "if":
                taken = statement[2] if values[statement[1]] % 2 else statement[3]
                visits.append(self.leaf("call", taken, (values[statement[1]],), scope))
                values.append(visits[-1].value)
            elif kind == "loop":
                value = values[statement[1]]
                for _ in range(value % 3 + 1):
                    visits.append(self.leaf("call", statement[2], (value,), scope))
                    value = visits[-1].value
                values.append(value)
            elif kind == "all":
                each = [self.leaf("call", name, (values[statement[2]],), scope) for name in statement[1]]
                visits += each
                values.append(digest("join", [visit.value for visit in each]))
            else:
                visits.append(self.nested(statement, values[statement[3]], scope))
                values.append(visits[-1].value)
        return values[-1], visits

    def visit(self, name, inputs, scope):
        made = Visit(scope, name, inputs, occurrence=self.names[scope, name])
        self.names[scope, name] += 1
        return made

    def leaf(self, kind, name, inputs, scope):
        made = self.visit(name, inputs, scope)
        made.value = digest(kind, name, inputs)
        if made.address in self.dictated:
            made.value = self.dictated[made.address]
        return made

    def nested(self, statement, value, scope):
        _, name, inner, _ = statement
        made = self.visit(name, (value,), scope)
        result, made.below = self.run(inner, value, f"{scope}/{name}" if scope else name)
        made.value = digest("in", result)
        if made.address in self.dictated:
            made.value, made.below = self.dictated[made.address], []
        return made


def expected(before, after, changed):
    """Address → ``run`` or ``reused``, of the visits of the changed program."""
    touched = {id(visit) for top in before for visit in top.all() if any(v.address == changed for v in visit.all())}
    known = defaultdict(list)
    for top in before:
        for visit in top.all():
            known[visit.scope, visit.name, visit.inputs].append(visit)
    seen, states = Counter(), {}

    def walk(visits):
        for visit in visits:
            key = visit.scope, visit.name, visit.inputs
            place = seen[key]
            seen[key] += 1
            old = known[key][place] if place < len(known[key]) else None
            if old is not None and id(old) not in touched and visit.address != changed:
                for inner in visit.below:
                    for each in inner.all():
                        seen[each.scope, each.name, each.inputs] += 1
                        states[each.address] = "reused"
                states[visit.address] = "reused"
            else:
                states[visit.address] = "run"
                walk(visit.below)

    walk(after)
    return states


# --- the same program as a real pipeline ------------------------------------------------------------------------------


class Witness:
    """Counts what has an effect, and asks the provider; not a part of what a step hangs on."""

    __goldfork_opaque__ = True

    def __init__(self, client=None):
        self.client = client
        self.sent = []


@pytest.fixture(scope="module")
def provider():
    """A model server whose answer is a function of the request."""

    def rule(seen):
        name, inputs = ast.literal_eval(seen.json["messages"][0]["content"])
        return str(digest("ask", name, inputs))

    with ScriptedServer(rule=rule) as server:
        yield server


@pytest.fixture(scope="module")
def client(provider):
    with wrap(OpenAI(base_url=provider.url, api_key="sk-0123456789abcdef", max_retries=0)) as client:
        yield client


def pipeline(statements, witness):  # noqa: C901 - a branch for each kind of statement
    @tool(determinism="side-effect", stand_in=0)
    def send(value):
        witness.sent.append(value)
        return value

    def ask(name, inputs):
        question = [{"role": "user", "content": repr((name, inputs))}]
        answer = witness.client.chat.completions.create(model="m", messages=question)
        return int(answer.choices[0].message.content)

    def leaf(kind, name, inputs):
        @step(name=name)
        def body(inputs):
            if kind == "ask":
                return ask(name, inputs)
            value = digest(kind, name, inputs)
            if kind == "send":
                send(value)
            return value

        return body(inputs)

    def nested(name, inner, value):
        @step(name=name)
        def body(value):
            return digest("in", execute(inner, value))

        return body(value)

    def execute(todo, start):
        values = [start]
        for statement in todo:
            kind = statement[0]
            if kind in {"call", "ask", "send"}:
                values.append(leaf(kind, statement[1], tuple(values[i] for i in statement[2])))
            elif kind == "if":
                taken = statement[2] if values[statement[1]] % 2 else statement[3]
                values.append(leaf("call", taken, (values[statement[1]],)))
            elif kind == "loop":
                value = values[statement[1]]
                for _ in range(value % 3 + 1):
                    value = leaf("call", statement[2], (value,))
                values.append(value)
            elif kind == "all":
                with ThreadPoolExecutor(len(statement[1])) as pool:
                    work = carry(leaf)
                    each = list(pool.map(lambda n: work("call", n, (values[statement[2]],)), statement[1]))  # noqa: B023
                values.append(digest("join", each))
            else:
                values.append(nested(statement[1], statement[2], values[statement[3]]))
        return values[-1]

    @workflow("random")
    def run(start):
        return execute(statements, start)

    return run


@contextlib.contextmanager
def no_sockets():
    """Any socket opened in here is an error, whoever opens it."""

    class Refused(socket.socket):
        def __init__(self, *args, **kwargs):
            raise AssertionError("a socket was opened")

    before, socket.socket = socket.socket, Refused
    try:
        yield
    finally:
        socket.socket = before


def states(outcome):
    return {d.address: d.state for d in outcome.diff.steps if d.kind != "tool" and d.state != "removed"}


@pytest.mark.parametrize("batch", range(PROGRAMS // AT_ONCE))
def test_replays_are_equal_and_forks_run_exactly_what_the_oracle_says(batch, provider, client):
    asked = 0
    for seed in range(batch * AT_ONCE, (batch + 1) * AT_ONCE):
        rng = random.Random(seed)
        statements = program(rng)
        witness = Witness(client)
        run = pipeline(statements, witness)
        live = live_run(run, {"start": 7}, dry=False, code_version=CODE)
        parent = live.run
        value, before = Oracle().run(statements, 7)
        assert content(parent, parent.run.output_hash) == value, seed
        recorded = [step.address for step in parent.steps if step.kind != "tool" and step.parent_id]
        assert sorted(recorded) == sorted(visit.address for top in before for visit in top.all()), seed

        calls, effects = provider.calls, len(witness.sent)
        asked += live.counts.provider_calls
        with no_sockets():
            again = replay_run(parent, target=run, options=OPTIONS)
        assert (again.diff.output_equal, again.diff.first_divergence, again.misses) == (True, None, ()), seed
        assert all(diff.equal for diff in again.diff.steps), seed
        assert (again.counts.provider_calls, again.counts.tokens_spent) == (0, 0)
        assert (provider.calls, len(witness.sent)) == (calls, effects), seed

        changed = rng.choice([visit for top in before for visit in top.all()]).address
        changed_value, after = Oracle({changed: 5000}).run(statements, 7)
        change = Change(kind="output", at=exact(changed), value=5000)
        fork = fork_run(parent, target=run, change=change, options=OPTIONS)
        assert fork.error is None, (seed, fork.error)
        assert fork.output == changed_value, seed
        wanted = expected(before, after, changed)
        known = set(recorded)
        got = states(fork)
        assert got.keys() == wanted.keys(), seed
        for address, state in wanted.items():
            word = "answered" if address == changed else state
            assert got[address] == (word if address in known else "added"), (seed, address, changed)
        assert len(witness.sent) == effects, seed
    # Otherwise the zeros above would say nothing.
    assert asked > AT_ONCE / 10


def exact(address):
    """``#0`` names the first visit alone; without a number all visits of the step are meant."""
    return address if "#" in address else f"{address}#0"


def test_the_programs_cover_every_kind():
    kinds = Counter()

    def count(statements):
        for statement in statements:
            kinds[statement[0]] += 1
            if statement[0] == "in":
                count(statement[2])

    for seed in range(PROGRAMS):
        count(program(random.Random(seed)))
    assert set(kinds) == {"call", "ask", "send", "if", "loop", "all", "in"}
    assert min(kinds.values()) > 200


def test_equal_parallel_calls_are_told_apart_by_branch():
    numbers = itertools.count(1)
    order = [2, 0, 1]
    """By branch: which one makes its call first, second and last."""

    @tool(determinism="time-bound", ttl=60, version="1")
    async def roll():
        return next(numbers)

    async def one(n):
        with branch(n):
            for _ in range(3 * order[n]):
                await asyncio.sleep(0)
            return await roll()

    @workflow("branches")
    async def run():
        return await asyncio.gather(*(one(n) for n in range(3)))

    parent = live_run(run, {}, dry=False, code_version=CODE)
    assert parent.output == [3, 1, 2]
    assert {step.scope for step in parent.run.steps if step.name == "roll"} == {"[0]", "[1]", "[2]"}
    # They come in another order now, and each gets its own.
    order[:] = [0, 1, 2]
    again = replay_run(parent.run, target=run, options=OPTIONS)
    assert (again.output, again.diff.output_equal) == ([3, 1, 2], True)
    assert [step.scope for step in again.run.steps if step.name == "roll"] == ["[0]", "[1]", "[2]"]
