"""A fork of mutated code gives what a full run of it gives, and still skips what the mutation cannot reach."""

import importlib
import os
import random
import sys
import types

import pytest

from harness.gateway import record_local
from harness.replay import ReplayOptions, fork_run, live_run
from harness.testing import MemorySink

CODE = "c" * 64
SEEDS = 7

MAIN = '''
import dataclasses
import functools
import os

import harness
from harness.pipeline import step, tool, workflow
from {name}_rules import rule
import {name}_rules as rules

model = None
SETTINGS = None
RATE = 2
WORDS = ["a", "b", {{"deep": [1, 2]}}]
TABLE = {{"x": 1}}
MARKS = {{1, 2, 3}}
GREETING = harness.prompt("greeting", "Hello {{who}}")


@dataclasses.dataclass
class Config:
    size: int = 3


class Base:
    factor = 2

    def scaled(self, n):
        return n * self.factor


class Scaler(Base):
    def run(self, n):
        return self.scaled(n) + 1


CONFIG = Config()
SCALER = Scaler()


def helper(n):
    return inner_helper(n) + RATE


def inner_helper(n):
    return n + 1


def maker(base):
    def made(n, extra=5, *, last=7):
        return n + base + extra + last

    return made


MADE = maker(10)
PARTIAL = functools.partial(pow, 2, 3)


def add(a, b=1):
    return a + b


@tool(determinism="deterministic")
def look_up(key):
    return TABLE.get(key, "nothing")


@step
def price(n):
    """Globals, helpers, closures."""
    return [helper(n), MADE(n), len(WORDS), [*WORDS[2]["deep"]], sum(MARKS), PARTIAL()]


@step
def scale(n, by=4, *, twice=False):
    """Objects, classes, defaults."""
    return [SCALER.run(n), CONFIG.size, n * by, twice]


@step
def advise(n):
    """Another module, and a model call made of what it gives."""
    return model.ask(f"advise {{rule(n)}} {{rules.other(n)}}")


@step
def greet(who):
    """A prompt, an environment variable, a model call."""
    return model.ask(GREETING.format(who=who) + os.environ.get("APP_TONE", "plain"))


@step
def inner(n):
    return add(n)


@step
def outer(n):
    """A step and a tool inside."""
    return [inner(n), look_up("x"), look_up("y")]


@step
def still(n):
    """Nothing that is mutated."""
    return model.ask(f"still {{n}}")


@step
def marker(n):
    return SETTINGS.marker


@step
def join(parts, mark):
    return [mark, parts]


@workflow("{name}")
def run(n):
    first = [still(n), price(n), scale(n), advise(n), greet("Ada"), outer(n)]
    return [join(first, marker(n)), still(n + 1)]
'''
RULES = """
HIDDEN = 1


def rule(n):
    return n * HIDDEN


def other(n):
    return n - HIDDEN
"""


class Model:
    """Gives equal requests equal answers, whoever asks, and notes what it is asked."""

    __goldfork_opaque__ = True

    def __init__(self):
        self.asked = []

    def ask(self, text):
        def compute():
            self.asked.append(text)
            answer = {"role": "assistant", "content": f"<{text}>"}
            choice = {"index": 0, "message": answer, "finish_reason": "stop"}
            return {"object": "chat.completion", "model": "m-1", "choices": [choice]}

        request = {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": text}]}
        return record_local("/chat/completions", request, compute)["choices"][0]["message"]["content"]


class Settings:
    __goldfork_opaque__ = True
    marker = "one"


def replaced(module, name, source):
    """Another function under the same name, as an edit and a reload would leave it."""
    space = dict(vars(module))
    exec(source, space)
    made = space[name]
    function = types.FunctionType(made.__code__, vars(module), name, made.__defaults__, made.__closure__)
    function.__kwdefaults__, function.__module__ = made.__kwdefaults__, module.__name__
    setattr(module, name, function)


def body(module, name, source):
    """Another body of a step, under its decorator."""
    space = dict(vars(module))
    exec(source, space)
    getattr(module, name).__wrapped__.__code__ = space[name].__code__


def tool_again(module, source, **options):
    space = dict(vars(module))
    exec(source, space)
    module.look_up = module.tool(determinism="deterministic", name="look_up", **options)(space["look_up"])


def wrapped(module, name):
    return getattr(module, name).__wrapped__


MUTATIONS = {
    "global number": ("price", lambda m, r, d: setattr(m, "RATE", d.randint(3, 99))),
    "number of another type": ("price", lambda m, r, d: setattr(m, "RATE", 2.0 + d.randint(0, 1))),
    "list item": ("price", lambda m, r, d: m.WORDS.append(d.random())),
    "deep list item": ("price", lambda m, r, d: m.WORDS[2]["deep"].insert(d.randrange(3), d.random())),
    "set member": ("price", lambda m, r, d: m.MARKS.add(d.randint(4, 99))),
    "helper": ("price", lambda m, r, d: replaced(m, "helper", f"def helper(n):\n    return {d.randint(9, 99)}")),
    "helper of a helper": (
        "price",
        lambda m, r, d: replaced(m, "inner_helper", f"def inner_helper(n): return n + {d.randint(2, 99)}"),
    ),
    "closure": ("price", lambda m, r, d: setattr(m, "MADE", m.maker(d.randint(11, 99)))),
    "closure cell": ("price", lambda m, r, d: setattr(m.MADE.__closure__[0], "cell_contents", d.randint(11, 99))),
    "default of a helper": ("price", lambda m, r, d: setattr(m.MADE, "__defaults__", (d.randint(6, 99),))),
    "keyword default of a helper": ("price", lambda m, r, d: m.MADE.__kwdefaults__.update(last=d.randint(8, 99))),
    "partial": ("price", lambda m, r, d: setattr(m, "PARTIAL", m.functools.partial(pow, 2, d.randint(4, 20)))),
    "code of a step": ("price", lambda m, r, d: body(m, "price", f"def price(n): return [{d.random()}]")),
    "field of an object": ("scale", lambda m, r, d: setattr(m.CONFIG, "size", d.randint(4, 99))),
    "attribute of a base class": ("scale", lambda m, r, d: setattr(m.Base, "factor", d.randint(3, 99))),
    "attribute of a class": ("scale", lambda m, r, d: setattr(m.Scaler, "factor", d.randint(3, 99))),
    "attribute that hides a class's": ("scale", lambda m, r, d: setattr(m.SCALER, "factor", d.randint(3, 99))),
    "method": ("scale", lambda m, r, d: setattr(m.Scaler, "run", eval(f"lambda self, n: n + {d.randint(9, 99)}"))),
    "method of a base class": (
        "scale",
        lambda m, r, d: setattr(m.Base, "scaled", eval(f"lambda self, n: {d.randint(9, 99)}")),
    ),
    "object": ("scale", lambda m, r, d: setattr(m, "CONFIG", m.Config(d.randint(4, 99)))),
    "default of a step": ("scale", lambda m, r, d: setattr(wrapped(m, "scale"), "__defaults__", (d.randint(5, 99),))),
    "keyword default of a step": ("scale", lambda m, r, d: wrapped(m, "scale").__kwdefaults__.update(twice=d.random())),
    "imported function": ("advise", lambda m, r, d: replaced(m, "rule", f"def rule(n): return {d.randint(9, 99)}")),
    "global of an imported function": ("advise", lambda m, r, d: setattr(r, "HIDDEN", d.randint(2, 99))),
    "function of an imported module": (
        "advise",
        lambda m, r, d: replaced(r, "other", f"def other(n): return {d.randint(9, 99)}"),
    ),
    "prompt": (
        "greet",
        lambda m, r, d: setattr(m, "GREETING", m.harness.prompt("greeting", f"Hi {{who}} {d.random()}")),
    ),
    "environment variable": ("greet", lambda m, r, d: os.environ.update(APP_TONE=f"tone {d.random()}")),
    "tool": ("outer", lambda m, r, d: tool_again(m, f"def look_up(key): return {d.random()}")),
    "version of a tool": (
        "outer",
        lambda m, r, d: tool_again(m, "def look_up(key): return TABLE.get(key)", version=str(d.random())),
    ),
    "helper of a step inside": (
        "outer",
        lambda m, r, d: replaced(m, "add", f"def add(a, b=1): return a - {d.randint(1, 99)}"),
    ),
    "default of a helper inside": ("outer", lambda m, r, d: setattr(m.add, "__defaults__", (d.randint(2, 99),))),
    "code of a step inside": ("outer", lambda m, r, d: body(m, "inner", f"def inner(n): return {d.randint(9, 99)}")),
}
"""What is mutated, and the only one of the steps below that it reaches."""

STEPS = ("price", "scale", "advise", "greet", "outer", "still")


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("APP_TONE", raising=False)
    before = set(sys.modules)
    yield
    os.environ.pop("APP_TONE", None)
    for name in set(sys.modules) - before:
        if name.startswith("sound_app"):
            del sys.modules[name]


def load(folder, name):
    (folder / f"{name}.py").write_text(MAIN.format(name=name))
    (folder / f"{name}_rules.py").write_text(RULES)
    importlib.invalidate_caches()
    app = importlib.import_module(name)
    app.model, app.SETTINGS = Model(), Settings()
    return app, sys.modules[f"{name}_rules"]


def recorded(app):
    sink = MemorySink()
    made = live_run(app.run, {"n": 3}, code_version=CODE, sink=sink, dry=False)
    assert made.status == "ok", made.error
    app.model.asked.clear()
    return made


def forked(app, parent):
    """With another marker, as the one change; what else changed is what the test mutated."""
    outcome = fork_run(
        parent,
        target=app.run,
        change='output="two"',
        at="marker",
        options=ReplayOptions(code_version=CODE, allow_undeclared=True),
    )
    assert (outcome.status, outcome.misses) == ("ok", ())
    return outcome


def full(app):
    """The same code and the same marker, run afresh from the first line, with no recording about."""
    app.SETTINGS.marker = "two"
    return live_run(app.run, {"n": 3}, code_version=CODE, dry=False)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", MUTATIONS)
def test_a_fork_of_mutated_code_gives_what_a_full_run_gives(kind, seed, tmp_path):
    app, rules = load(tmp_path, f"sound_app_{seed}_{list(MUTATIONS).index(kind)}")
    made = recorded(app)
    reached, mutate = MUTATIONS[kind]
    mutate(app, rules, random.Random(f"{kind} {seed}"))
    outcome = forked(app, made.run)
    states = {d.address: d.state for d in outcome.diff.steps if d.kind != "tool" and not d.scope}
    # Neither more nor less than the mutation reaches has run, besides what the declared change does.
    assert {name: states[name] for name in STEPS} == {name: "run" if name == reached else "reused" for name in STEPS}
    assert states["join"] == "run"
    asked = list(app.model.asked)
    fresh = full(app)
    assert outcome.output == fresh.output
    # In its type too: 2 and 2.0 are equal here, and not in what is sent.
    assert outcome.run.run.output_hash == fresh.run.run.output_hash
    assert outcome.output[0][0] == "two"
    assert len(asked) <= (1 if reached in {"advise", "greet"} else 0)


def test_there_are_at_least_200_mutations():
    assert SEEDS * len(MUTATIONS) >= 200


def test_the_mutations_matter(tmp_path):
    changed = 0
    for number, (_, mutate) in enumerate(MUTATIONS.values()):
        app, rules = load(tmp_path, f"sound_app_matter_{number}")
        before = recorded(app).run.run.output_hash
        mutate(app, rules, random.Random(number))
        changed += live_run(app.run, {"n": 3}, dry=False).run.run.output_hash != before
        os.environ.pop("APP_TONE", None)
    # A recording taken for the whole of it would be wrong in all but a few of them.
    assert changed >= len(MUTATIONS) - 2


def test_without_a_mutation_all_but_the_change_is_reused(tmp_path):
    app, _ = load(tmp_path, "sound_app_none")
    made = recorded(app)
    outcome = forked(app, made.run)
    states = {d.address: d.state for d in outcome.diff.steps if not d.scope}
    assert {states[name] for name in (*STEPS, "still#1")} == {"reused"}
    assert (outcome.undeclared, app.model.asked) == ((), [])
    assert outcome.output == full(app).output


@pytest.mark.parametrize("seed", range(20))
def test_several_mutations_at_once(seed, tmp_path):
    draw = random.Random(seed)
    app, rules = load(tmp_path, f"sound_app_many_{seed}")
    made = recorded(app)
    chosen = draw.sample(list(MUTATIONS), draw.randint(2, 5))
    for kind in chosen:
        MUTATIONS[kind][1](app, rules, draw)
    outcome = forked(app, made.run)
    states = {d.address: d.state for d in outcome.diff.steps if d.kind != "tool" and not d.scope}
    reached = {MUTATIONS[kind][0] for kind in chosen}
    assert {name for name in STEPS if states[name] == "run"} == reached
    assert outcome.run.run.output_hash == full(app).run.run.output_hash
