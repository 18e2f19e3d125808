"""What a step hangs on besides its arguments: any change of it is seen, and nothing else is."""

import importlib
import os
import random
import subprocess
import sys
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from harness.pipeline._environment import environment_of

MAIN = """
import dataclasses
import enum
import functools
import os
import re

import harness
from {name}_rules import LIMIT, rule
from {name}_rules import Tariff
import {name}_rules as rules

RATE = {rate}
WORDS = ["a", "b", {{"deep": [1, 2]}}]
TABLE = {{"x": 1}}
MARKS = {{1, 2, 3}}
PATTERN = re.compile("a+")
GREETING = harness.prompt("greeting", "Hello {{name}}")
UNUSED = 1


class Mode(enum.Enum):
    FAST = "fast"


@dataclasses.dataclass
class Config:
    size: int = 3
    tags: tuple = ()


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
PARTIAL = functools.partial(helper, 3)


@functools.cache
def cached(n):
    return TABLE["x"] + n


@harness.tool(determinism="deterministic")
def look_up(q):
    return q + str(RATE)


@harness.step
def leaf(n):
    return n + len(WORDS)


@harness.step
def work(n, depth=4, *, flag=False):
    total = helper(n) + MADE(n) + PARTIAL() + cached(n) + SCALER.run(n) + CONFIG.size + leaf(n)
    total += rule(n) + rules.other(n) + LIMIT + Tariff().price + len(MARKS)
    from {name}_rules import late

    total += late(n) + (lambda m: m + RATE)(n)
    if os.environ.get("APP_FLAVOUR") == "sweet" and PATTERN.match("aa") and Mode.FAST.value:
        total += 1
    return GREETING.format(name=look_up(str(total)))
"""
RULES = """
LIMIT = 9
HIDDEN = 1


class Tariff:
    price = 3


def rule(n):
    return n * HIDDEN


def other(n):
    return n - HIDDEN


def late(n):
    return n
"""


def load(folder: Any, name: str, rate: float = 2) -> ModuleType:
    (folder / f"{name}.py").write_text(MAIN.format(name=name, rate=rate))
    (folder / f"{name}_rules.py").write_text(RULES)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def replaced(module: ModuleType, name: str, source: str) -> None:
    """Another function under the same name, as an edit and a reload would leave it."""
    space: dict[str, Any] = dict(vars(module))
    exec(source, space)
    function = space[name]
    vars(module)[name] = types.FunctionType(
        function.__code__, vars(module), function.__name__, function.__defaults__, function.__closure__
    )
    vars(module)[name].__module__ = module.__name__


Mutation = Callable[[ModuleType, ModuleType, random.Random], object]


def inner(module: ModuleType, name: str) -> Any:
    function = getattr(module, name)
    return getattr(function, "__wrapped__", function)


MUTATIONS: dict[str, Mutation] = {
    "global number": lambda m, r, d: setattr(m, "RATE", d.uniform(3, 99)),
    "number becomes a float": lambda m, r, d: setattr(m, "RATE", float(m.RATE)),
    "list item": lambda m, r, d: m.WORDS.append(d.random()),
    "deep list item": lambda m, r, d: m.WORDS[2]["deep"].insert(d.randrange(3), d.random()),
    "dict value": lambda m, r, d: m.TABLE.update(x=d.randint(2, 99)),
    "dict key": lambda m, r, d: m.TABLE.update({f"k{d.random()}": 1}),
    "set member": lambda m, r, d: m.MARKS.add(d.randint(4, 99)),
    "field of an object": lambda m, r, d: setattr(m.CONFIG, "size", d.randint(4, 99)),
    "new field of an object": lambda m, r, d: setattr(m.SCALER, f"f{d.randint(0, 9)}", 1),
    "attribute of a base class": lambda m, r, d: setattr(m.Base, "factor", d.randint(3, 99)),
    "method": lambda m, r, d: setattr(m.Scaler, "run", eval(f"lambda self, n: n + {d.randint(2, 99)}")),
    "method of a base class": lambda m, r, d: setattr(m.Base, "scaled", eval(f"lambda self, n: {d.randint(2, 99)}")),
    "pattern": lambda m, r, d: setattr(m, "PATTERN", m.re.compile(f"b{{{d.randint(1, 9)}}}")),
    "prompt": lambda m, r, d: setattr(m, "GREETING", m.harness.prompt("greeting", f"Hi {{name}} {d.random()}")),
    "enum": lambda m, r, d: setattr(m, "Mode", m.enum.Enum("Mode", {"FAST": f"f{d.random()}"})),
    "helper": lambda m, r, d: replaced(m, "helper", f"def helper(n):\n    return {d.randint(0, 99)}"),
    "helper of a helper": lambda m, r, d: replaced(m, "inner_helper", f"def inner_helper(n): return {d.randint(0, 9)}"),
    "closure": lambda m, r, d: setattr(m, "MADE", m.maker(d.randint(11, 99))),
    "closure cell": lambda m, r, d: setattr(m.MADE.__closure__[0], "cell_contents", d.randint(11, 99)),
    "default of a helper": lambda m, r, d: setattr(m.MADE, "__defaults__", (d.randint(6, 99),)),
    "keyword default of a helper": lambda m, r, d: m.MADE.__kwdefaults__.update(last=d.randint(8, 99)),
    "default of the step": lambda m, r, d: setattr(inner(m, "work"), "__defaults__", (d.randint(5, 99),)),
    "keyword default of the step": lambda m, r, d: inner(m, "work").__kwdefaults__.update(flag=d.random()),
    "partial": lambda m, r, d: setattr(m, "PARTIAL", m.functools.partial(m.helper, d.randint(4, 99))),
    "code of a step inside": lambda m, r, d: setattr(
        inner(m, "leaf"), "__code__", eval(f"lambda n: n + {d.randint(2, 99)}").__code__
    ),
    "tool": lambda m, r, d: setattr(
        m, "look_up", m.harness.tool(determinism="deterministic", name="look_up")(eval(f"lambda q: '{d.random()}'"))
    ),
    "version of a tool": lambda m, r, d: setattr(
        m, "look_up", m.harness.tool(determinism="deterministic", version=str(d.random()))(inner(m, "look_up"))
    ),
    "environment variable": lambda m, r, d: os.environ.update(APP_FLAVOUR=f"f{d.random()}"),
    "imported function": lambda m, r, d: replaced(m, "rule", f"def rule(n): return {d.randint(0, 99)}"),
    "global of an imported function": lambda m, r, d: setattr(r, "HIDDEN", d.randint(2, 99)),
    "function of an imported module": lambda m, r, d: replaced(r, "other", f"def other(n): return {d.randint(0, 9)}"),
    "imported constant": lambda m, r, d: setattr(m, "LIMIT", d.randint(10, 99)),
    "imported class": lambda m, r, d: setattr(r.Tariff, "price", d.randint(4, 99)),
    "function imported when it is called": lambda m, r, d: replaced(
        r, "late", f"def late(n): return {d.randint(1, 9)}"
    ),
}


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("APP_FLAVOUR", raising=False)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("env_app"):
            del sys.modules[name]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", MUTATIONS)
def test_every_mutation_is_seen(kind, seed, tmp_path):
    app = load(tmp_path, f"env_app_{seed}_{list(MUTATIONS).index(kind)}")
    before = environment_of(app.work)
    assert before.digest is not None, before.untold
    MUTATIONS[kind](app, sys.modules[f"{app.__name__}_rules"], random.Random(seed))
    after = environment_of(app.work)
    assert after.digest != before.digest


def test_there_are_at_least_200_mutations():
    assert 6 * len(MUTATIONS) >= 200


def test_nothing_else_is_seen(tmp_path):
    app = load(tmp_path, "env_app_still")
    before = environment_of(app.work).digest
    app.UNUSED = 2
    app.cached(3)
    os.environ["APP_OTHER"] = "1"
    os.environ["OPENAI_API_KEY"] = "sk-another"
    try:
        assert environment_of(app.work).digest == before
    finally:
        del os.environ["APP_OTHER"], os.environ["OPENAI_API_KEY"]


def test_two_processes_agree(tmp_path):
    load(tmp_path, "env_app_twice")
    code = "import env_app_twice as app; from harness.pipeline._environment import environment_of\n"
    code += "print(environment_of(app.work).digest)"
    found = set()
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout.strip())
    assert len(found) == 1
    assert found != {"None"}


def test_a_text_that_is_newer_than_the_process_does_not_stand_for_its_code(tmp_path):
    app = load(tmp_path, "env_app_deployed")
    path = tmp_path / "env_app_deployed_rules.py"
    path.write_text(path.read_text().replace("n * HIDDEN", "n * HIDDEN * 2"))
    # As a deployment does that keeps the times of its files.
    os.utime(path, (1_700_000_000, 1_700_000_000))
    code = "import env_app_deployed as app; from harness.pipeline._environment import environment_of\n"
    code += "print(environment_of(app.rule).digest)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert environment_of(app.rule).digest != done.stdout.strip()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return eval(n)", "eval"),
        ("return globals()[n]", "globals"),
        ("return open(n).read()", "open"),
        ("import pathlib\n    return pathlib.Path(n).read_text()", "reads files"),
        ("return next(COUNTER)", "count"),
        ("import os\n    return os.environ[n]", "environment variables"),
    ],
)
def test_what_cannot_be_told_is_never_proven(body, why, tmp_path):
    (tmp_path / "env_app_untold.py").write_text(
        f"import itertools\nCOUNTER = itertools.count()\ndef f(n):\n    {body}\n"
    )
    importlib.invalidate_caches()
    app = importlib.import_module("env_app_untold")
    found = environment_of(app.f)
    assert found.digest is None
    assert why in found.untold


def test_a_cycle_ends(tmp_path):
    (tmp_path / "env_app_cycle.py").write_text(
        "LOOP = []\nLOOP.append(LOOP)\ndef f(n):\n    return g(n) + len(LOOP)\n"
        "def g(n):\n    return f(n - 1) if n else 0\n"
    )
    importlib.invalidate_caches()
    app = importlib.import_module("env_app_cycle")
    assert environment_of(app.f).digest == environment_of(app.f).digest is not None


def test_an_argument_brings_the_code_of_its_class(tmp_path):
    app = load(tmp_path, "env_app_argument")
    before = environment_of(app.leaf, [app.SCALER]).digest
    app.Base.scaled = lambda self, n: 0
    assert environment_of(app.leaf, [app.SCALER]).digest != before


def test_the_code_of_what_an_argument_holds_counts(tmp_path):
    app = load(tmp_path, "env_app_held")
    config = app.Config()
    config.held = [app.SCALER]
    before = environment_of(app.leaf, [config]).digest
    app.Base.scaled = lambda self, n: 0
    assert environment_of(app.leaf, [config]).digest != before


@pytest.mark.parametrize(
    "body",
    [
        "def f(k): return os.environ['MODEL_' + k]",
        "def f(k): return os.environ['HOME'] + os.environ[k]",
        "def f(k): return g('TEMPX')",
        "def f(k):\n    import importlib\n    return importlib.import_module(k).LIMIT",
        "import env_app_names\ndef f(k): return getattr(env_app_names, k + 'IT')",
        "import pathlib\ndef f(k): return pathlib.Path(k).open().read()",
        "import sys\ndef f(k): return sys.modules[k].LIMIT",
        "import env_app_names\ndef g(m, k): return vars(m)[k]\ndef f(k): return g(env_app_names, k)",
        "import env_app_names\ndef g(): return env_app_names\ndef f(k): return g().LIMIT",
        "import env_app_names, operator\ndef f(k): return operator.attrgetter(k)(env_app_names)",
        "def f(k):\n    import env_app_names as m\n    return [m][0].LIMIT",
        "import pkgutil\ndef f(k): return pkgutil.resolve_name(k)",
        "class P: ...\ndef f(k): return [c() for c in P.__subclasses__()]",
        "import configparser\ndef f(k):\n    c = configparser.ConfigParser()\n    c.read(k)\n    return c",
        "import pathlib\ndef f(k): return sorted(pathlib.Path(k).iterdir())",
        "import os\ndef f(k): return os.path.exists(k)",
        "import os\ndef f(k): return os.getcwd()",
        "import io\ndef f(k): return io.FileIO(k).readall()",
        "import sqlite3\ndef f(k): return sqlite3.connect(k)",
        "import jinja2\ndef f(k): return jinja2.FileSystemLoader(k)",
        "import pathlib\nclass C: files = ['a']\n"
        "def f(k): return [pathlib.Path(k).joinpath(p).read_text() for p in C.files]",
        "import asyncio\nM = asyncio.Condition()\nasync def f(k):\n    async with M:\n        M.notify_all()",
        "import concurrent.futures\nM = concurrent.futures.Future()\ndef f(k): return M.result()",
        "class D(collections.deque): pass\nM = D([1])\ndef f(k): return M[0]",
    ],
)
def test_names_that_are_computed_are_never_proven(body, tmp_path):
    (tmp_path / "env_app_names.py").write_text("LIMIT = 1\n")
    (tmp_path / "env_app_computed.py").write_text(f"import collections, os\nfrom os import getenv as g\n{body}\n")
    importlib.invalidate_caches()
    assert environment_of(importlib.import_module("env_app_computed").f).digest is None
