"""The five traps of counterfactual replay, one after the other."""

import importlib
import itertools
import sys
from datetime import UTC, datetime

import pytest

from harness.errors import UndeclaredChange
from harness.gateway import record_local
from harness.pipeline import now, step, tool, workflow
from harness.replay import ReplayOptions, content, fork_run, live_run, replay_run

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


class Model:
    """Answers every request with its text and a number that never comes twice; it counts what it is asked."""

    __goldfork_opaque__ = True

    def __init__(self):
        self.asked = []
        self._numbers = itertools.count()

    def ask(self, text, **options):
        def compute():
            self.asked.append(text)
            answer = {"role": "assistant", "content": f"{text} ({next(self._numbers)})"}
            choice = {"index": 0, "message": answer, "finish_reason": "stop"}
            usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
            return {"object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage}

        request = {"model": "m", "messages": [{"role": "user", "content": text}], **options}
        return record_local("/chat/completions", request, compute)["choices"][0]["message"]["content"]


@pytest.fixture
def model():
    return Model()


def record(run, inputs, model):
    parent = live_run(run, inputs, dry=False, code_version=CODE).run
    model.asked.clear()
    return parent


def states(outcome):
    return {d.address: d.state for d in outcome.diff.steps}


def test_trap_1_timestamps_in_inputs(model):
    clock = itertools.count()

    @step
    def declared(ticket):
        return model.ask(f"It is {now():%Y-%m-%d %H:%M:%S.%f}. {ticket}")

    run = workflow("declared")(lambda ticket: declared(ticket))
    parent = record(run, {"ticket": "hi"}, model)
    outcome = replay_run(parent, target=run, options=OPTIONS)
    assert (outcome.status, outcome.diff.output_equal, model.asked) == ("ok", True, [])
    forked = fork_run(parent, target=run, change='input:ticket="ho"', at="declared", options=OPTIONS)
    # The fork's own request is new, and carries the recorded time.
    (asked,) = model.asked
    assert asked == content(parent, parent.run.output_hash).rpartition(" (")[0].replace("hi", "ho")
    assert forked.status == "ok"

    @step
    def undeclared(ticket):
        stamp = datetime(2026, 1, 1, 12, 0, next(clock), tzinfo=UTC).isoformat()
        return model.ask(f"It is {stamp}. {ticket}")

    bad = workflow("undeclared")(lambda ticket: undeclared(ticket))
    parent = record(bad, {"ticket": "hi"}, model)
    outcome = replay_run(parent, target=bad, options=OPTIONS)
    assert outcome.status == "missing"
    assert "harness.now()" in outcome.misses[0]
    with pytest.raises(UndeclaredChange, match=r"message 0 \(user\) at .content. .*01T12:00:00.*looks like a clock"):
        fork_run(parent, target=bad, change='input:ticket="ho"', at="undeclared", options=OPTIONS)
    assert model.asked == []


def test_trap_2_json_order(model):
    turned = []

    def dictionary():
        pairs = [("b", 1), ("a", {"y": 2, "x": [{"d": 3, "c": 4}]})]
        return dict(reversed(pairs)) if turned else dict(pairs)

    @tool(determinism="deterministic", version="1")
    def look(filters):
        model.asked.append("look")
        return sorted(filters)

    @step
    def draft(facts):
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
        options = {"response_format": form, "metadata": dictionary(), "logit_bias": {"2": 1, "1": 2}}
        if turned:
            options = dict(reversed(options.items()))
        return [model.ask("draft", **options), look(dictionary())]

    @step
    def other(x):
        return x

    @workflow("order")
    def run(x):
        return [draft(dictionary()), other(x)]

    parent = record(run, {"x": 1}, model)
    turned.append(True)
    outcome = replay_run(parent, target=run, options=OPTIONS)
    assert (outcome.status, outcome.diff.output_equal, model.asked) == ("ok", True, [])
    forked = fork_run(parent, target=run, change="output=2", at="other", options=OPTIONS)
    assert (forked.output[0], model.asked) == (outcome.output[0], [])


@pytest.mark.parametrize("temperature", [0, 0.9, 2, None])
def test_trap_3_temperature(model, temperature):
    options = {} if temperature is None else {"temperature": temperature}

    @step
    def before(ticket):
        return model.ask(f"plan {ticket}", **options)

    @step
    def draft(ticket, plan):
        return model.ask(f"draft {ticket}", **options)

    @workflow("warm")
    def run(ticket):
        return draft(ticket, before("x"))

    parent = record(run, {"ticket": "hi"}, model)
    for _ in range(3):
        outcome = replay_run(parent, target=run, options=OPTIONS)
        assert (outcome.diff.output_equal, outcome.jitter, model.asked) == (True, (), [])
    forked = fork_run(parent, target=run, change='input:ticket="ho"', at="draft", options=OPTIONS)
    assert model.asked == ["draft ho"]
    said = {0: (), None: ("draft: m was called anew with temperature none given",)}
    expected = said.get(temperature, (f"draft: m was called anew with temperature {temperature}",))
    assert forked.jitter == expected


def test_trap_4_side_effects(model):
    sent = []

    class Outbox:
        __goldfork_opaque__ = True

        @tool(determinism="side-effect", version="1", stand_in="not sent")
        async def later(self, text):
            sent.append(text)
            return "sent later"

    outbox = Outbox()

    @tool(determinism="side-effect", version="1", stand_in="not sent")
    def send(text):
        sent.append(text)
        return "sent"

    @step
    def draft(ticket):
        return model.ask(f"draft {ticket}")

    @step
    async def publish(text):
        return [send(text), send(text), await outbox.later(text)]

    @workflow("mail")
    async def run(ticket):
        first = send("start")
        return [first, await publish(draft(ticket))]

    parent = record(run, {"ticket": "hi"}, model)
    assert len(sent) == 4
    sent.clear()
    outcomes = [replay_run(parent, target=run, options=OPTIONS)]
    for change, at in (
        ("output=Hello", "draft"),
        ('input:ticket="ho"', "draft"),
        ('input:text="other"', "publish"),
        ('input:ticket="ho"', "mail"),
        ("output=[]", "publish"),
    ):
        outcomes.append(fork_run(parent, target=run, change=change, at=at, options=OPTIONS))
    assert sent == []
    assert [outcome.status for outcome in outcomes] == ["ok"] * 6
    assert [len(outcome.blocked) for outcome in outcomes] == [4, 4, 4, 4, 4, 1]
    assert all(outcome.counts.tools_called == 0 for outcome in outcomes)


CACHED = """
from harness.pipeline import step, workflow

CACHE = {}
SEEN = []
model = None


@step
def learn(ticket):
    if ticket not in CACHE:
        CACHE[ticket] = model.ask("learn " + ticket)
    return len(ticket)


@step
def recall(ticket):
    return CACHE.get(ticket, "nothing known")


@step
def tone(word):
    return word.lower()


@step
def total(items):
    return sum(items)


@workflow("cached")
def run(ticket):
    items = [1, 2]
    count = learn(ticket)
    before = total(items)
    items.append(40)
    mood = tone("CALM")
    return [count, recall(ticket), before, total(items), mood]
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch, model):
    """Loads the application as a new process would: with nothing in its module-level state."""
    (tmp_path / "trap_app.py").write_text(CACHED)
    monkeypatch.syspath_prepend(str(tmp_path))

    def load():
        sys.modules.pop("trap_app", None)
        app = importlib.import_module("trap_app")
        app.model = model
        return app

    yield load
    sys.modules.pop("trap_app", None)


def test_trap_5_mutated_state(model, fresh):
    parent = record(fresh().run, {"ticket": "late"}, model)
    answer = content(parent, parent.run.output_hash)[1]
    app = fresh()
    outcome = fork_run(parent, target=app.run, change="output=loud", at="tone", options=OPTIONS)
    # A full run with the same answers gives this: what one step left in the module is there for the next.
    assert outcome.output == [4, answer, 3, 43, "loud"]
    assert model.asked == []
    # The step that leaves something behind is never skipped; those that do not are.
    words = states(outcome)
    assert (words["learn"], words["total"], words["total#1"]) == ("run", "reused", "reused")
    # The list is recorded as it was when it was passed, not as it is now.
    inputs = [content(parent, one.input_hash) for one in parent.steps if one.name == "total"]
    assert inputs == [{"items": [1, 2]}, {"items": [1, 2, 40]}]
    # Another ticket is learnt, and recalled, in the fork.
    app = fresh()
    changed = fork_run(parent, target=app.run, change='input:ticket="lost"', at="cached", options=OPTIONS)
    assert model.asked == ["learn lost"]
    assert changed.output[1].startswith("learn lost")
    # A step that reads what another one should have left sees its own state, not the recorded one.
    app = fresh()
    app.CACHE["late"] = "stale"
    stale = fork_run(
        parent,
        target=app.run,
        change="output=loud",
        at="tone",
        options=ReplayOptions(code_version=CODE, allow_undeclared=True),
    )
    assert stale.output[1] == "stale"
    assert any("recall" in line for line in stale.undeclared)


ACCUMULATED = """
from harness.pipeline import step, workflow

LOG = []


@step
def learn(ticket):
    LOG.append(ticket)
    return len(ticket)


@step
def recall(count):
    return list(LOG)


@step
def tone(word):
    return word.lower()


@workflow("accumulated")
def run(ticket):
    return [recall(learn(ticket)), tone("CALM")]
"""


def test_trap_5_state_that_grows_from_run_to_run_is_named_and_never_passed_off_as_an_effect(tmp_path, monkeypatch):
    (tmp_path / "trap_growing.py").write_text(ACCUMULATED)
    monkeypatch.syspath_prepend(str(tmp_path))
    app = importlib.import_module("trap_growing")
    parent = live_run(app.run, {"ticket": "late"}, code_version=CODE).run
    app.LOG.clear()
    with pytest.raises(UndeclaredChange, match="step 'recall' gives something else .* what 'learn' left behind"):
        fork_run(parent, target=app.run, change="output=loud", at="tone", options=OPTIONS)
    sys.modules.pop("trap_growing")
