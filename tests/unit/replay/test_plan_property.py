"""Random pipelines and every kind of change: what a plan calls certain holds in the fork itself.

A plan is made of the recording alone. Whatever it says is reused, answered or kept dry for certain has to be so in the
fork; what it says has to run may only be missing where the change leads past it; and no call is made in a step whose
calls the plan says are answered.
"""

import hashlib
import json
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from openai import OpenAI

from harness.errors import ChangeError
from harness.gateway import wrap
from harness.pipeline import prompt, step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, null_replay, plan_fork, refresh_change
from harness.session import Change
from harness.testing import ScriptedServer

CODE = "c" * 64
ALLOWED = {
    "reused": {"reused"},
    "run": {"run", None},
    "run or reused": {"run", "reused", None},
    "answered": {"answered"},
    "answered or called": {"answered", "called", None},
    "called": {"called", None},
    "dry": {"dry", None},
    "not run": {None},
}
SCHEMA = {"type": "object", "properties": {}}
KINDS = (
    "input", "output", "prompt", "model", "param", "tool", "tool-version", "tool-schema", "request", "code", "refresh",
    "message", "expired",
)  # fmt: skip


def digest(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") % 1000


def reply(seen):
    """A function of the request, all of it."""
    return str(digest(json.dumps(seen.json, sort_keys=True)))


class Later:
    """A clock that has gone on since the recording."""

    def __init__(self, days):
        self._time = datetime.now(UTC) + timedelta(days=days)

    def now(self):
        return self._time

    def monotonic(self):
        return 0.0


class Desk:
    """What the steps use; no part of what they hang on."""

    __goldfork_opaque__ = True

    def __init__(self, url):
        self.client = wrap(OpenAI(base_url=url, api_key="sk-0123456789abcdef01234567", max_retries=0))

    def ask(self, text, *, function):
        more = {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]} if function else {}
        messages = [{"role": "user", "content": text}]
        made = self.client.chat.completions.create(model="m", temperature=0.5, messages=messages, **more)
        return int(made.choices[0].message.content)


def program(rng, *, depth=0, prefix="s"):
    made = []
    for place in range(rng.randint(2, 4)):
        name = f"{prefix}{place}"
        kind = rng.choice(["call", "ask", "told", "look", "send", "if", "loop"] + ["in"] * (depth < 1))
        inner = program(rng, depth=depth + 1, prefix=f"{name}_") if kind == "in" else None
        made.append((kind, name, rng.randrange(place + 1), inner))
    return tuple(made)


def pipeline(statements, desk):  # noqa: C901 - a branch for each kind of statement
    opening = prompt("opening", "Say {value}")

    @tool(determinism="time-bound", ttl=60, version="1")
    def rate(value):
        return digest("rate", value)

    @tool(determinism="side-effect", stand_in=0, version="1")
    def send(value):
        return value

    def leaf(kind, name, value):
        @step(name=name)
        def body(value):
            if kind == "ask":
                return desk.ask(f"{name} {value}", function=True) + desk.ask(f"again {value}", function=False)
            if kind == "told":
                return desk.ask(opening.format(value=value), function=False)
            if kind == "look":
                return digest(rate(value % 7))
            if kind == "send":
                send(value)
            return digest(name, value)

        return body(value)

    def nested(name, inner, value):
        @step(name=name)
        def body(value):
            return digest("in", execute(inner, value))

        return body(value)

    def execute(todo, start):
        values = [start]
        for kind, name, which, inner in todo:
            value = values[which]
            if kind == "if":
                values.append(leaf("look" if value % 2 else "ask", f"{name}a" if value % 2 else f"{name}b", value))
            elif kind == "loop":
                for _ in range(value % 3 + 1):
                    value = leaf("told", name, value)
                values.append(value)
            elif kind == "in":
                values.append(nested(name, inner, value))
            else:
                values.append(leaf(kind, name, value))
        return values[-1]

    @workflow("random")
    def run(start):
        return execute(statements, start)

    return run


def change_of(kind, rng, parent):
    """A change of the kind with a place in the recording, and the options it is forked with; ``None`` without one."""
    steps = [one for one in parent.steps if one.kind != "tool" and one.parent_id]
    at = exact(rng.choice(steps))
    within = rng.choice([at, "random"])
    plain = ReplayOptions(code_version=CODE)
    made = {
        "input": lambda: Change(kind="input", at=at, name="value", value=5000),
        "output": lambda: Change(kind="output", at=at, value=5000),
        "prompt": lambda: Change(kind="prompt", at=within, name="opening", value="Tell {value}"),
        "model": lambda: Change(kind="model", at=within, value="m-2"),
        "param": lambda: Change(kind="param", at=within, name="temperature", value=0.25),
        "tool": lambda: Change(kind="tool", at=within, name="rate", value=17),
        "tool-version": lambda: Change(kind="tool-version", at=within, name="rate", value="2"),
        "tool-schema": lambda: Change(kind="tool-schema", at=within, name="f", value={**SCHEMA, "title": "F"}),
        "request": lambda: Change(kind="request", at=within, name="/messages/0/content", value="other"),
        "code": lambda: Change(kind="code", at=at, value=None),
        "refresh": lambda: refresh_change(["rate"], within),
        "message": lambda: Change(kind="model", at=f"{at}~{rng.randrange(2)}", value="m-2"),
        "expired": lambda: Change(kind="output", at=at, value=5000),
    }[kind]()
    if kind == "code":
        return made, ReplayOptions(code_version="d" * 64)
    return made, ReplayOptions(code_version=CODE, expired="refresh", clock=Later(1)) if kind == "expired" else plain


def exact(one):
    return one.address if "#" in one.address else f"{one.address}#0"


def place(one):
    return one.scope, one.name, one.occurrence, one.kind == "tool"


def check(plan, outcome, context):
    did = {place(one): one.state for one in outcome.run.steps}
    calls = defaultdict(int)
    ids = {one.id: place(one) for one in outcome.run.steps}
    for message in outcome.run.messages:
        calls[ids[message.step_id]] += message.cache_state == "live"
    for one in plan.steps:
        where = one.scope, one.name, one.occurrence, one.kind == "tool"
        state = did.get(where)
        if one.word == "not run" and state == "answered" and plan.change.addresses(one.scope, one.name, one.occurrence):
            continue  # the fork step, whose output was given
        assert state in ALLOWED[one.word], (*context, one.address, one.word, one.reason, state)
        if not one.certain + one.possible:
            assert calls[where] == 0, (*context, one.address, one.word)
    live = sum(calls.values())
    if plan.at_most.calls == 0:
        assert live == 0 or any(place not in {(p.scope, p.name, p.occurrence, p.kind == "tool") for p in plan.steps}
                                for place in calls if calls[place]), context  # fmt: skip
    if plan.certain.calls and not outcome.misses:
        assert live >= 1, context


def forked(parent, run, change, options):
    """The fork; ``None`` where the change altered nothing."""
    try:
        return fork_run(parent, target=run, change=change, options=options)
    except ChangeError as reason:
        if "altered nothing" in str(reason):
            return None
        raise


def forks(seeds, server):
    done = Counter()
    for seed in seeds:
        statements = program(random.Random(seed))
        run = pipeline(statements, Desk(server.url))
        parent = live_run(run, {"start": seed}, code_version=CODE).run
        for kind in KINDS:
            change, options = change_of(kind, random.Random(f"{seed} {kind}"), parent)
            try:
                plan = plan_fork(parent, change, target=run, options=options)
            except ChangeError:
                with pytest.raises(ChangeError):
                    fork_run(parent, target=run, change=change, options=options)
                continue
            null = null_replay(parent, change=change, target=run, options=options)
            assert null.undeclared == (), (seed, kind)
            outcome = forked(parent, run, change, options)
            if outcome is None:
                assert plan.certain.calls == 0, (seed, kind)
                continue
            assert outcome.error is None, (seed, kind, outcome.error)
            check(plan, outcome, (seed, kind, change.at))
            done[kind] += 1
    return done


def test_what_a_plan_calls_certain_holds_in_the_fork():
    with ScriptedServer(rule=reply) as server:
        done = forks(range(12), server)
    assert set(done) == set(KINDS)
    assert min(done.values()) >= 2, done


@pytest.mark.slow
def test_what_a_plan_calls_certain_holds_in_many_forks():
    with ScriptedServer(rule=reply) as server:
        done = forks(range(100, 150), server)
    assert min(done.values()) >= 10, done
