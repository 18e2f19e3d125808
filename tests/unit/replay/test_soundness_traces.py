"""No code is edited here: what steps leave to each other, by any way, is in a fork what it is in a full run."""

import importlib
import random
import sys
import threading

import pytest

from harness.replay import ReplayOptions, fork_run, live_run

CODE = "c" * 64
SEEDS = 3

HEAD = """
import asyncio, collections, contextvars, dataclasses, functools, queue, random, threading
from harness.pipeline import step, workflow

MARK = ["one"]


@step
def marker(n):
    return MARK[0]


@step
def report(x, m):
    return [x, m]
"""
FLOW = """

@workflow("{name}")
def run(n):
    m = marker(n)
    {body}
"""
CONF = "MODE = 'plain'\n\n\ndef put(mode):\n    global MODE\n    MODE = mode\n\n\ndef get():\n    return MODE\n"
# Two steps by convention: ``setup`` leaves something, ``read`` uses it; VALUE is drawn by the seed.
TWO = "setup(n)\n    return read(m)"
TRACES = {
    "global that is set": (
        "MODE = 0\n@step\ndef setup(n):\n    global MODE\n    MODE = VALUE\n    return 1\n"
        "@step\ndef read(m): return [MODE, m]\n",
        "global MODE\n    MODE = 0\n    " + TWO,
    ),
    "attribute of a module": (
        "import CONF\n@step\ndef setup(n):\n    CONF.MODE = VALUE\n    return 1\n"
        "@step\ndef read(m): return [CONF.MODE, m]\n",
        "CONF.MODE = 0\n    " + TWO,
    ),
    "setter of a module": (
        "import CONF\n@step\ndef setup(n):\n    CONF.put(VALUE)\n    return 1\n"
        "@step\ndef read(m): return [CONF.get(), m]\n",
        "CONF.put(0)\n    " + TWO,
    ),
    "module that a helper returns": (
        "import CONF\ndef conf(): return CONF\n@step\ndef setup(n):\n    conf().MODE = VALUE\n    return 1\n"
        "@step\ndef read(m): return [conf().MODE, m]\n",
        "CONF.MODE = 0\n    " + TWO,
    ),
    "object in a cache": (
        "class State:\n    tone = 0\n@functools.cache\ndef state(): return State()\n@step\ndef setup(n):\n"
        "    state().tone = VALUE\n    return 1\n@step\ndef read(m): return [state().tone, m]\n",
        "state.cache_clear()\n    " + TWO,
    ),
    "data in a cache": (
        "@functools.cache\ndef table(): return {}\n@step\ndef setup(n):\n    table()['x'] = VALUE\n    return 1\n"
        "@step\ndef read(m): return [dict(table()), m]\n",
        "table.cache_clear()\n    " + TWO,
    ),
    "attribute of a function": (
        "def counter(): return counter.n\ncounter.n = 0\n@step\ndef setup(n):\n    counter.n += VALUE\n    return 1\n"
        "@step\ndef read(m): return [counter(), m]\n",
        "counter.n = 0\n    " + TWO,
    ),
    "attribute of a class": (
        "class S:\n    n = 0\n    def go(self): type(self).n += VALUE\nX = S()\n@step\ndef setup(n):\n    X.go()\n"
        "    return 1\n@step\ndef read(m): return [X.n, m]\n",
        "S.n = 0\n    " + TWO,
    ),
    "event": (
        "STOP = threading.Event()\n@step\ndef setup(n):\n    STOP.set()\n    return VALUE\n"
        "@step\ndef read(m): return [STOP.is_set(), m]\n",
        "STOP.clear()\n    " + TWO,
    ),
    "queue": (
        "Q = queue.Queue()\n@step\ndef setup(n):\n    Q.put(VALUE)\n    return 1\n"
        "@step\ndef read(m): return [Q.get_nowait() if not Q.empty() else None, m]\n",
        "Q.queue.clear()\n    " + TWO,
    ),
    "semaphore": (
        "S = threading.Semaphore(0)\n@step\ndef setup(n):\n    S.release()\n    return VALUE\n"
        "@step\ndef read(m): return [S.acquire(blocking=False), m]\n",
        "while S.acquire(blocking=False): pass\n    " + TWO,
    ),
    "lock that is kept": (
        "L = threading.Lock()\n@step\ndef setup(n):\n    L.acquire()\n    return VALUE\n"
        "@step\ndef read(m): return [L.locked(), m]\n",
        "if L.locked(): L.release()\n    " + TWO,
    ),
    "value of a context variable": (
        "V = contextvars.ContextVar('v', default={})\n@step\ndef setup(n):\n    V.get()['x'] = VALUE\n    return 1\n"
        "@step\ndef read(m): return [dict(V.get()), m]\n",
        "V.get().clear()\n    " + TWO,
    ),
    "seed of the random module": (
        "@step\ndef setup(n):\n    random.seed(VALUE)\n    return 1\n@step\ndef read(m): return [random.random(), m]\n",
        TWO,
    ),
    "own generator of random numbers": (
        "class Rng(random.Random): pass\nRNG = Rng(1)\n@step\ndef setup(n): return RNG.random()\n"
        "@step\ndef read(m): return [RNG.random(), m]\n",
        "RNG.seed(VALUE)\n    " + TWO,
    ),
    "working directory": (
        "import os\n@step\ndef setup(n):\n    os.chdir('/tmp')\n    return VALUE\n"
        "@step\ndef read(m): return [os.getcwd(), m]\n",
        "os.chdir('/')\n    " + TWO,
    ),
    "element of an argument": (
        "@step\ndef pick(items): return items[0]\n",
        "items = [{'id': VALUE}, {}]\n    pick(items)['chosen'] = True\n    return report(items, m)",
    ),
    "argument handed back": (
        "@step\ndef check(doc): return doc\n",
        "doc = {'a': VALUE}\n    check(doc)['b'] = 2\n    return report(doc, m)",
    ),
    "field of the object itself": (
        "@dataclasses.dataclass\nclass Agent:\n    memory: list\n"
        "    @step\n    def recall(self, n): return self.memory\n",
        "agent = Agent([])\n    agent.recall(n).append(VALUE)\n    return report(agent.memory, m)",
    ),
    "global handed out": (
        "HISTORY = []\n@step\ndef history(n): return HISTORY\n@step\ndef read(m): return [list(HISTORY), m]\n",
        "HISTORY.clear()\n    history(n).append(VALUE)\n    return read(m)",
    ),
    "object of a register": (
        "@dataclasses.dataclass\nclass Doc:\n    text: str\nDOCS = {}\n@step\ndef open_doc(n): return DOCS[n]\n"
        "@step\ndef read(m): return [[d.text for d in DOCS.values()], m]\n",
        "DOCS[n] = Doc('x')\n    open_doc(n).text = VALUE\n    return read(m)",
    ),
    "one object in two places": (
        "@step\ndef make(n):\n    s = {'k': 0}\n    return {'a': s, 'b': (s,)}\n",
        "x = make(n)\n    x['a']['k'] = VALUE\n    return report(x, m)",
    ),
    "closure that keeps what it gave": (
        "def maker():\n    kept = []\n    @step\n    def give(n): return kept\n    def shown(): return list(kept)\n"
        "    return give, shown\ngive, shown = maker()\n@step\ndef read(m): return [shown(), m]\n",
        "give(n).append(VALUE)\n    out = read(m)\n    give(n).clear()\n    return out",
    ),
    "generator with one growing object": (
        "@step\ndef stream(n):\n    s = {'text': VALUE}\n"
        "    for w in range(3):\n        s['text'] += w\n        yield s\n",
        "return [[dict(s) for s in stream(n)], m]",
    ),
    "consumer that changes what was yielded": (
        "@step\ndef rows(n):\n    for i in range(2): yield {'i': i + VALUE}\n",
        "out = []\n    for r in rows(n):\n        out.append('done' in r)\n        r['done'] = True\n"
        "    return report(out, m)",
    ),
}


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before, state = set(sys.modules), random.getstate()
    yield
    random.setstate(state)
    for name in set(sys.modules) - before:
        if name.startswith("trace_app"):
            del sys.modules[name]


def load(folder, name, kind, seed):
    head, body = TRACES[kind]
    text = (HEAD + head + FLOW.format(name=name, body=body)).replace("CONF", f"{name}_conf")
    (folder / f"{name}_conf.py").write_text(CONF)
    (folder / f"{name}.py").write_text(text.replace("VALUE", str(random.Random(f"{kind} {seed}").randint(2, 99))))
    importlib.invalidate_caches()
    return again(name)


def again(name):
    """The modules as a new process has them."""
    for each in (f"{name}_conf", name):
        sys.modules.pop(each, None)
    return importlib.import_module(name)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", TRACES)
def test_what_a_step_leaves_is_there_in_a_fork(kind, seed, tmp_path):
    name = f"trace_app_{list(TRACES).index(kind)}_{seed}"
    app = load(tmp_path, name, kind, seed)
    parent = live_run(app.run, {"n": 3}, code_version=CODE, dry=False)
    assert parent.status == "ok", parent.error
    forked = fork_run(
        parent.run,
        target=again(name).run,
        change='output="two"',
        at="marker",
        options=ReplayOptions(code_version=CODE),
    )
    full = again(name)
    full.MARK[0] = "two"
    fresh = live_run(full.run, {"n": 3}, code_version=CODE, dry=False)
    assert (forked.status, fresh.status) == ("ok", "ok"), (forked.error, fresh.error)
    assert forked.output == fresh.output
    assert forked.output[-1] == "two"


EVENT = """
READY = None


@step
async def produce(n):
    READY.set()
    return 1


@step
async def consume(m):
    await READY.wait()
    return m


@workflow("{name}")
async def run(n):
    global READY
    READY = asyncio.Event()
    m = marker(n)
    return list(await asyncio.gather(produce(n), consume(m)))
"""


def test_a_step_that_waits_for_another_is_woken_in_a_fork(tmp_path):
    (tmp_path / "trace_app_event.py").write_text(HEAD + EVENT.format(name="trace_app_event"))
    importlib.invalidate_caches()
    parent = live_run(again("trace_app_event").run, {"n": 3}, code_version=CODE, dry=False)
    done = []

    def fork():
        app = again("trace_app_event")
        done.append(
            fork_run(
                parent.run,
                target=app.run,
                change='output="two"',
                at="marker",
                options=ReplayOptions(code_version=CODE),
            )
        )

    thread = threading.Thread(target=fork, daemon=True)
    thread.start()
    thread.join(60)
    assert [each.output for each in done] == [[1, "two"]]


FINE = """
LIMIT = threading.Semaphore(2)


@step
def fresh(items):
    with LIMIT:
        return [dict(item) for item in items]


@step
def same(text, items):
    return (text, len(items), "x" * 3)


@workflow("{name}")
def run(n):
    items = [{{"a": n}}, {{"a": n}}]
    return [fresh(items), same("a", items), list(rows(n)), marker(n)]


@step
def rows(n):
    for i in range(3):
        yield {{"i": i}}
"""


def test_an_output_of_its_own_is_still_skipped(tmp_path):
    (tmp_path / "trace_app_fine.py").write_text(HEAD + FINE.format(name="trace_app_fine"))
    importlib.invalidate_caches()
    app = again("trace_app_fine")
    parent = live_run(app.run, {"n": 3}, code_version=CODE, dry=False)
    forked = fork_run(
        parent.run, target=app.run, change='output="two"', at="marker", options=ReplayOptions(code_version=CODE)
    )
    states = {d.address: d.state for d in forked.diff.steps}
    assert {states[name] for name in ("fresh", "same", "rows")} == {"reused"}
