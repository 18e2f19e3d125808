"""Kinds of surroundings, each in two versions: the digest tells one from the other, or says that it cannot."""

import importlib
import random
import sys
import threading
import time

import pytest

from harness.pipeline._environment import environment_of


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("env_app"):
            del sys.modules[name]


HEAD = """
import collections, contextlib, dataclasses, decimal, enum, functools, os, re, typing
from os import getenv as g
import pydantic, openai
from openai.types.chat import ChatCompletionMessage
"""
PAIRS = {
    "limit of a field": (
        "class A(pydantic.BaseModel):\n    i: int = pydantic.Field(1, le=LIMIT)\ndef f(n): return A(i=n)",
        "LIMIT",
        "10",
        "5",
    ),
    "description of a field": (
        "class A(pydantic.BaseModel):\n    i: int = pydantic.Field(1, description='WORDS')\n"
        "def f(n): return A.model_json_schema()",
        "WORDS",
        "old",
        "new",
    ),
    "class named in an annotation": (
        "class I(pydantic.BaseModel):\n    x: int = VALUE\nclass A(pydantic.BaseModel):\n    i: list[I] = []\n"
        "def f(n): return A(i=[{}])",
        "VALUE",
        "1",
        "2",
    ),
    "subclass of text": ("class N(str): pass\nM = N('VALUE')\ndef f(n): return M", "VALUE", "gpt-4", "gpt-5"),
    "message of a client's library": (
        "M = ChatCompletionMessage(role='assistant', content='VALUE')\ndef f(n): return M.content",
        "VALUE",
        "a",
        "b",
    ),
    "method of an own client": (
        "class C(openai.OpenAI):\n    def say(self): return 'VALUE'\nM = C(api_key='x')\ndef f(n): return M.say()",
        "VALUE",
        "a",
        "b",
    ),
    "lambdas on one line": (
        "P = (lambda s: s.upper()) if VALUE else (lambda s: s.lower())\ndef f(n): return P(n)",
        "VALUE",
        "True",
        "False",
    ),
    "factory of a default": (
        "def made(): return VALUE\nM = collections.defaultdict(made)\ndef f(n): return M[n]",
        "VALUE",
        "1",
        "2",
    ),
    "single dispatch": (
        "@functools.singledispatch\ndef h(n): return 0\n@h.register\ndef _(n: int): return VALUE\n"
        "def f(n): return h(n)",
        "VALUE",
        "1",
        "2",
    ),
    "long pattern": ("P = re.compile('" + "x" * 250 + "VALUE')\ndef f(n): return P.match(n)", "VALUE", "a", "b"),
    "look-up of an enum": (
        "T = VALUE\nclass E(enum.Enum):\n    A = 'x'\n    @classmethod\n    def _missing_(cls, v): return cls(T[v])\n"
        "def f(n): return E(n)",
        "VALUE",
        "{'a': 'x'}",
        "{'b': 'x'}",
    ),
    "look-up of a class": (
        "T = VALUE\nclass R:\n    def __class_getitem__(cls, k): return T[k]\ndef f(n): return R[n]",
        "VALUE",
        "{'a': 1}",
        "{'a': 2}",
    ),
    "validator in an annotation": (
        "def norm(s): return s.VALUE()\nclass M(pydantic.BaseModel):\n"
        "    x: typing.Annotated[str, pydantic.AfterValidator(norm)]\ndef f(n): return M(x=n)",
        "VALUE",
        "lower",
        "upper",
    ),
    "limit from a global": (
        "T = VALUE\nclass M(pydantic.BaseModel):\n    x: int = pydantic.Field(le=T)\ndef f(n): return M(x=n)",
        "VALUE",
        "1",
        "2",
    ),
    "limit of a made model": (
        "M = pydantic.create_model('M', x=(int, pydantic.Field(le=VALUE)))\ndef f(n): return M(x=n)",
        "VALUE",
        "1",
        "2",
    ),
    "alias generator": (
        "T = VALUE\ndef up(s): return s * T\nclass M(pydantic.BaseModel):\n"
        "    model_config = pydantic.ConfigDict(alias_generator=up)\n    x: int\ndef f(n): return M(x=n)",
        "VALUE",
        "1",
        "2",
    ),
    "class method of a model": (
        "T = VALUE\nclass M(pydantic.BaseModel):\n    x: int\n    @classmethod\n"
        "    def model_load(cls): return cls(x=T)\ndef f(n): return M.model_load()",
        "VALUE",
        "1",
        "2",
    ),
    "alias of a type": (
        "W = typing.Literal[VALUE]\nclass M(pydantic.BaseModel):\n    x: W\ndef f(n): return M(x=n)",
        "VALUE",
        "'a'",
        "'b'",
    ),
    "class in an alias": (
        "class I(pydantic.BaseModel):\n    x: int = VALUE\nL = list[I]\n"
        "def f(n): return pydantic.TypeAdapter(L).validate_python([{}])",
        "VALUE",
        "1",
        "2",
    ),
    "dataclass that a function made": (
        "T = VALUE\nD = dataclasses.make_dataclass('D', [('x', int, T)])\ndef f(n): return D().x",
        "VALUE",
        "1",
        "2",
    ),
    "annotation of a checked call": (
        "class I(pydantic.BaseModel):\n    x: int = VALUE\n@pydantic.validate_call\ndef g(i: I): return i.x\n"
        "def f(n): return g({})",
        "VALUE",
        "1",
        "2",
    ),
    "default of a context variable": (
        "import contextvars\nT = contextvars.ContextVar('t', default=VALUE)\ndef f(n): return T.get()",
        "VALUE",
        "1",
        "2",
    ),
    "attribute of a function": ("def g(): ...\ng.rules = VALUE\ndef f(n): return g.rules", "VALUE", "1", "2"),
    "shape of a lambda": ("P = lambda VALUE: len(a)\ndef f(n): return P(n)", "VALUE", "a", "*a"),
    "private slot": (
        "class C:\n    __slots__ = ('__x',)\n    def __init__(self, x): self.__x = x\n"
        "    def get(self): return self.__x\n"
        "T = VALUE\nM = C(T)\ndef f(n): return M.get()",
        "VALUE",
        "1",
        "2",
    ),
    "registered class": (
        "import abc\nclass A(abc.ABC): pass\nclass C: pass\nVALUE\ndef f(n): return isinstance(n, A)",
        "VALUE",
        "",
        "A.register(C)",
    ),
    "level of a logger": (
        "import logging\nL = logging.getLogger('env_app_level')\nL.setLevel(logging.VALUE)\n"
        "def f(n): return L.isEnabledFor(logging.DEBUG)",
        "VALUE",
        "INFO",
        "DEBUG",
    ),
    "rule of a library's decorator": (
        "import tenacity\nT = VALUE\ndef bad(x): return x == T\n"
        "@tenacity.retry(retry=tenacity.retry_if_result(bad))\ndef g(n): return n\ndef f(n): return g(n)",
        "VALUE",
        "1",
        "2",
    ),
    "arguments of an error": (
        "T = VALUE\nclass E(Exception): ...\nM = E(T)\ndef f(n): return str(M)",
        "VALUE",
        "1",
        "2",
    ),
    "generator of random numbers": (
        "import random\nclass R(random.Random): ...\nM = R(VALUE)\ndef f(n): return M.random()",
        "VALUE",
        "1",
        "2",
    ),
    "items of a deque": ("M = collections.deque([VALUE])\ndef f(n): return M[0]", "VALUE", "1", "2"),
    "items of a queue": (
        "import queue\nM = queue.Queue()\nM.put(VALUE)\ndef f(n): return M.get_nowait()",
        "VALUE",
        "1",
        "2",
    ),
    "state of an event": (
        "import threading\nM = threading.Event()\nVALUE\ndef f(n): return M.is_set()",
        "VALUE",
        "",
        "M.set()",
    ),
    "semaphore taken by hand": (
        "import threading\nM = threading.Semaphore(VALUE)\ndef f(n): return M.acquire(blocking=False)",
        "VALUE",
        "0",
        "1",
    ),
    "object in a cache": (
        "class S: tone = 'plain'\n@functools.cache\ndef state(): return S()\nstate().tone = VALUE\n"
        "def f(n): return state().tone",
        "VALUE",
        "1",
        "2",
    ),
    "global that is set": (
        "MODE = VALUE\ndef f(n):\n    global MODE\n    MODE = n\n",
        "VALUE",
        "1",
        "2",
    ),
    "flag of a dataclass": (
        "T = VALUE\n@dataclasses.dataclass\nclass D:\n    a: int = dataclasses.field(default=0, compare=T)\n"
        "def f(n): return D(n) == D(1)",
        "VALUE",
        "True",
        "False",
    ),
    "private method of an enum": (
        "class E(enum.Enum):\n    A = 1\n    def _p(self): return VALUE\ndef f(n): return E.A._p()",
        "VALUE",
        "1",
        "2",
    ),
}


def fresh(folder, name, body):
    sys.modules.pop(name, None)
    path = folder / f"{name}.py"
    path.write_text(HEAD + body)
    importlib.invalidate_caches()
    for cached in (folder / "__pycache__").glob(f"{name}.*"):
        cached.unlink()
    import linecache

    linecache.clearcache()
    return environment_of(importlib.import_module(name).f)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_change_of_what_is_around_is_seen(kind, tmp_path):
    body, mark, old, new = PAIRS[kind]
    before = fresh(tmp_path, "env_app_pair", body.replace(mark, old))
    after = fresh(tmp_path, "env_app_pair", body.replace(mark, new))
    again = fresh(tmp_path, "env_app_pair", body.replace(mark, old))
    assert before.digest != after.digest or before.digest is None
    assert again.digest == before.digest


def test_a_variable_that_names_a_model_counts_and_a_key_does_not(tmp_path, monkeypatch):
    body = "def f(n): return os.environ['OPENAI_MODEL'] + os.environ.get('OPENAI_API_KEY', '')"
    monkeypatch.setenv("OPENAI_MODEL", "a")
    before = fresh(tmp_path, "env_app_model", body)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert fresh(tmp_path, "env_app_model", body).digest == before.digest is not None
    monkeypatch.setenv("OPENAI_MODEL", "b")
    assert fresh(tmp_path, "env_app_model", body).digest != before.digest


def test_the_package_of_a_module_that_is_imported_inside_counts(tmp_path):
    (tmp_path / "env_app_top").mkdir()
    (tmp_path / "env_app_top" / "__init__.py").write_text("RATE = 1\n")
    (tmp_path / "env_app_top" / "sub.py").write_text("")
    importlib.import_module("env_app_top.sub")
    body = "def f(n):\n    import env_app_top.sub\n    return env_app_top.RATE"
    before = fresh(tmp_path, "env_app_inside", body)
    sys.modules["env_app_top"].RATE = 2
    assert fresh(tmp_path, "env_app_inside", body).digest != before.digest is not None


def test_what_a_body_would_import_is_not_imported(tmp_path):
    (tmp_path / "env_app_late").mkdir()
    (tmp_path / "env_app_late" / "__init__.py").write_text("raise SystemExit('its code runs')\n")
    (tmp_path / "env_app_late" / "deep.py").write_text("")
    found = fresh(tmp_path, "env_app_lazy", "def f(n):\n    import env_app_late.deep\n    return n")
    assert (found.digest, "not loaded yet" in found.untold) == (None, True)
    assert "env_app_late" not in sys.modules


def test_data_of_another_package_counts(tmp_path):
    (tmp_path / "env_app_data").mkdir()
    (tmp_path / "env_app_data" / "__init__.py").write_text("")
    body = "from importlib.resources import files\ndef f(n): return files('env_app_data').joinpath('a.txt').read_text()"
    (tmp_path / "env_app_data" / "a.txt").write_text("old")
    before = fresh(tmp_path, "env_app_reader", body)
    assert before.digest is not None
    (tmp_path / "env_app_data" / "a.txt").write_text("newer")
    assert fresh(tmp_path, "env_app_reader", body).digest != before.digest


def test_a_search_base_is_an_input_and_a_providers_address_is_not(tmp_path, monkeypatch):
    body = "def f(n): return os.environ.get('KNOWLEDGE_BASE_URL', '') + os.environ.get('OPENAI_BASE_URL', '')"
    before = fresh(tmp_path, "env_app_base", body)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere")
    assert fresh(tmp_path, "env_app_base", body).digest == before.digest
    monkeypatch.setenv("KNOWLEDGE_BASE_URL", "http://elsewhere")
    assert fresh(tmp_path, "env_app_base", body).digest != before.digest


def test_the_state_of_the_random_module_counts_where_it_is_drawn_from(tmp_path):
    body = "import random\ndef f(n): return random.choice(n)"
    random.seed(1)
    before = fresh(tmp_path, "env_app_random", body)
    random.seed(1)
    assert fresh(tmp_path, "env_app_random", body).digest == before.digest is not None
    random.seed(2)
    assert fresh(tmp_path, "env_app_random", body).digest != before.digest


def test_a_lock_that_is_only_entered_is_no_state(tmp_path):
    body = "import threading\nM = threading.Lock()\ndef f(n):\n    with M:\n        return n"
    before = fresh(tmp_path, "env_app_lock", body)
    with sys.modules["env_app_lock"].M:
        assert environment_of(sys.modules["env_app_lock"].f).digest == before.digest is not None


def test_data_in_a_cache_counts_once_it_was_changed(tmp_path):
    body = "@functools.cache\ndef table(): return {'x': 1}\ndef f(n): return table()['x']"
    cold = fresh(tmp_path, "env_app_table", body)
    app = sys.modules["env_app_table"]
    app.table()
    assert environment_of(app.f).digest == cold.digest is not None
    app.table()["x"] = 2
    assert environment_of(app.f).digest != cold.digest


def test_the_results_of_a_cache_of_limited_size_are_seen(tmp_path):
    body = (
        "class S: tone = 'plain'\n@functools.lru_cache(maxsize=2)\ndef state(n): return S()\n"
        "state(0)\nstate(1)\nstate(2)\ndef f(n): return state(n).tone"
    )
    before = fresh(tmp_path, "env_app_limited", body)
    app = sys.modules["env_app_limited"]
    assert environment_of(app.f).digest == before.digest is not None
    app.state(2).tone = "formal"
    assert environment_of(app.f).digest != before.digest


def test_a_key_of_an_argument_brings_the_code_of_its_class(tmp_path):
    body = "@dataclasses.dataclass(frozen=True)\nclass K:\n    a: int = 1\n    def weight(self): return 1\n"
    body += "def f(n): return n"
    fresh(tmp_path, "env_app_key", body)
    app = sys.modules["env_app_key"]
    before = environment_of(app.f, [{app.K(): 1}]).digest
    app.K.weight = lambda self: 2
    assert environment_of(app.f, [{app.K(): 1}]).digest != before


def test_a_patch_of_a_librarys_function_counts(tmp_path, monkeypatch):
    body = "import textwrap\ndef other(s): return s\ndef f(n): return textwrap.dedent(n)"
    before = fresh(tmp_path, "env_app_patched", body)
    monkeypatch.setattr("textwrap.dedent", sys.modules["env_app_patched"].other)
    assert environment_of(sys.modules["env_app_patched"].f).digest != before.digest is not None


def test_nested_sets_cost_what_their_size_is(tmp_path):
    body = (
        "class Node:\n    def __init__(self, *c): self.c = set(c)\na = b = Node()\n"
        "for _ in range(200): a, b = Node(a, b), Node(a, b)\ndef f(n): return len(a.c)"
    )
    done = []
    taken = threading.Thread(target=lambda: done.append(fresh(tmp_path, "env_app_nested", body)), daemon=True)
    started = time.monotonic()
    taken.start()
    # Twice as many for each level would never end.
    taken.join(30)
    assert done, f"no digest after {time.monotonic() - started:.0f} s"
