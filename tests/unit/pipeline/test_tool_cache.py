"""Results that live runs share through the store: when they answer, when the tool is called anew, and that once."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta

import pytest

from harness.canonical import canonical_json, content_hash
from harness.errors import UsageError
from harness.pipeline import tool, workflow
from harness.pipeline._codec import TAG
from harness.replay import fork_run, live_run, replay_run
from harness.session import Mode, RunPlan, planned
from harness.store import open_store


class Watch:
    """A clock that is set by hand."""

    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.time

    def monotonic(self):
        return self.time.timestamp()

    def go(self, seconds):
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path / 'g.db'}", durability="normal") as opened:
        yield opened


@pytest.fixture
def watch():
    return Watch()


def app(calls, *, determinism="deterministic", ttl=None, version="1", result=None, cache=True):
    @tool(determinism=determinism, ttl=ttl, version=version, cache=cache)
    def rate(currency):
        calls.append(currency)
        return {"b": len(calls), "a": currency} if result is None else result(currency)

    @workflow("exchange")
    def run(currency):
        return rate(currency)

    return run


def tools(outcome):
    return [step for step in outcome.run.steps if step.kind == "tool"]


def test_a_second_live_run_is_answered_like_any_tool_step(store):
    calls = []
    run = app(calls)
    first = live_run(run, {"currency": "EUR"}, sink=store, dry=False)
    second = live_run(run, {"currency": "EUR"}, sink=store, dry=False)
    assert calls == ["EUR"]
    assert second.output == first.output == {"b": 1, "a": "EUR"}
    (made,), (answered,) = tools(first), tools(second)
    assert (made.state, made.reused_from) == ("called", None)
    assert (answered.state, answered.status, answered.reused_from) == ("answered", "ok", made.id)
    assert answered.output_hash == made.output_hash
    assert (second.counts.tools_answered, second.counts.tools_called) == (1, 0)
    # What answered is in the run's own recording: it replays alone.
    again = replay_run(store.recording(second.run.run.id), target=run)
    assert (again.status, again.output) == ("ok", first.output)


def test_other_arguments_another_version_and_another_tool_of_that_name_are_called(store):
    calls = []
    for run, currency in ((app(calls), "EUR"), (app(calls), "USD"), (app(calls, version="2"), "EUR")):
        live_run(run, {"currency": currency}, sink=store)
    assert calls == ["EUR", "USD", "EUR"]

    @tool(name="rate", determinism="deterministic", version="1", cache=True)
    def namesake(currency):
        return "mine"

    other = workflow("exchange")(lambda currency: namesake(currency))
    assert live_run(other, {"currency": "EUR"}, sink=store).output == "mine"


def test_a_time_bound_result_answers_until_its_ttl_has_passed(store, watch):
    calls = []
    run = app(calls, determinism="time-bound", ttl=60)
    made = [live_run(run, {"currency": "EUR"}, sink=store, clock=watch)]
    for seconds, expected in ((59, 1), (0.5, 1), (0.5, 2), (59, 2), (2, 3)):
        watch.go(seconds)
        made.append(live_run(run, {"currency": "EUR"}, sink=store, clock=watch))
        assert len(calls) == expected
    assert [tools(one)[0].state for one in made] == ["called", "answered", "answered", "called", "answered", "called"]


def test_a_deterministic_result_never_grows_old(store, watch):
    calls = []
    run = app(calls, ttl=1)
    live_run(run, {"currency": "EUR"}, sink=store, clock=watch)
    watch.go(10**8)
    live_run(run, {"currency": "EUR"}, sink=store, clock=watch)
    assert calls == ["EUR"]


def test_a_result_from_the_future_does_not_count(store, watch):
    calls = []
    run = app(calls, determinism="time-bound", ttl=60)
    live_run(run, {"currency": "EUR"}, sink=store, clock=watch)
    watch.go(-600)
    live_run(run, {"currency": "EUR"}, sink=store, clock=watch)
    assert len(calls) == 2


def test_a_given_result_has_the_order_that_the_made_one_had(store):
    calls, orders = [], []
    shared = app(calls)
    run = workflow("ordered")(lambda currency: orders.append(list(shared(currency))))
    for _ in range(2):
        live_run(run, {"currency": "EUR"}, sink=store)
    assert (calls, orders) == (["EUR"], [["b", "a"]] * 2)


def test_without_cache_every_live_run_calls(store):
    calls = []
    run = app(calls, cache=False)
    for _ in range(2):
        live_run(run, {"currency": "EUR"}, sink=store)
    assert len(calls) == 2


def test_a_fork_is_answered_by_its_recording_and_not_by_the_cache(store):
    calls = []
    run = app(calls)
    parent = live_run(run, {"currency": "EUR"}, sink=store).run
    live_run(run, {"currency": "USD"}, sink=store)
    outcome = fork_run(parent, target=run, change='input:currency="USD"', at="exchange", sink=store)
    assert calls == ["EUR", "USD", "USD"]
    assert outcome.output["a"] == "USD"


def test_an_error_is_not_shared(store):
    calls = []

    def result(currency):
        if len(calls) == 1:
            raise ValueError("no rate today")
        return 4

    run = app(calls, result=result)
    assert live_run(run, {"currency": "EUR"}, sink=store).error == "ValueError: no rate today"
    assert [live_run(run, {"currency": "EUR"}, sink=store).output for _ in range(2)] == [4, 4]
    assert len(calls) == 2


def test_a_result_that_json_cannot_give_back_is_never_shared(store):
    calls = []
    run = app(calls, result=lambda currency: object())
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="'rate': its result cannot be shared"):
            assert live_run(run, {"currency": "EUR"}, sink=store).status == "ok"
    assert len(calls) == 2
    assert store.load("tool_cache") == []


def test_a_call_that_changes_its_argument_is_never_shared(store):
    calls = []

    @tool(determinism="deterministic", cache=True)
    def fill(box):
        calls.append(1)
        box.append("full")
        return len(box)

    @workflow("filling")
    def run():
        box = []
        return [fill(box), box]

    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="changed an argument"):
            assert live_run(run, {}, sink=store).output == [1, ["full"]]
    assert len(calls) == 2


def test_methods_of_objects_that_cannot_be_told_apart_share_nothing(store):
    class Desk:
        def __init__(self, rate):
            self.rate = rate
            self.lock = threading.Lock()

        @tool(determinism="deterministic", version="1", cache=True)
        def quote(self, amount):
            return amount * self.rate

    def output(rate):
        desk = Desk(rate)
        return live_run(workflow("quotes")(lambda amount: desk.quote(amount)), {"amount": 2}, sink=store).output

    assert (output(2), output(3)) == (4, 6)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"version": "other"}, "belongs to another tool"),
        ({"tool": "other"}, "belongs to another tool"),
        ({"determinism": "time-bound"}, "belongs to another tool"),
        ({"output_hash": content_hash(b"never stored")}, "cannot be read"),
        ({"output_hash": None}, "cannot be read"),
        ({"output_hash": "text"}, "cannot be read"),
    ],
)
def test_a_corrupt_or_foreign_row_is_a_miss_with_a_warning(store, damage, says):
    calls = []
    run = app(calls)
    live_run(run, {"currency": "EUR"}, sink=store)
    (row,) = store.load("tool_cache")
    if damage.get("output_hash") == "text":
        data = canonical_json({TAG: "inexact", "v": 1})
        store.write(blobs={content_hash(data): data}).result()
        damage = {"output_hash": content_hash(data)}
    store.save("tool_cache", [{**row, **damage}])
    with pytest.warns(RuntimeWarning, match=f"'rate': .*{says}.*it is called anew"):
        outcome = live_run(run, {"currency": "EUR"}, sink=store)
    assert (outcome.status, len(calls)) == ("ok", 2)
    # The new result has taken the row's place.
    assert live_run(run, {"currency": "EUR"}, sink=store).output == outcome.output
    assert len(calls) == 2


def test_a_side_effect_cannot_be_cached():
    with pytest.raises(UsageError, match="side effect"):
        tool(determinism="side-effect", cache=True)(lambda: None)
    with pytest.raises(UsageError, match="no determinism"):
        tool(cache=True)(lambda: None)
    with pytest.raises(UsageError, match="write ttl="):
        tool(determinism="time-bound", cache=True)(lambda: None)


def test_concurrent_misses_call_once_threads(store):
    calls = []

    def result(currency):
        time.sleep(0.2)
        return [currency, len(calls)]

    run = app(calls, result=result)
    outputs = []

    def one():
        outputs.append(live_run(run, {"currency": "EUR"}, sink=store, dry=False).output)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["EUR"]
    assert outputs == [["EUR", 1]] * 8


def test_concurrent_misses_in_one_run_call_once_and_the_loop_stays_free(store):
    calls, ticks = [], []

    @tool(determinism="deterministic", version="1", cache=True)
    async def rate(currency):
        calls.append(currency)
        await asyncio.sleep(0.3)
        return [currency]

    @workflow("exchange")
    async def run(currency):
        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        found = await asyncio.gather(*(rate(currency) for _ in range(40)))
        ticking.cancel()
        return found

    outcome = live_run(run, {"currency": "EUR"}, sink=store, dry=False)
    assert calls == ["EUR"]
    assert outcome.output == [["EUR"]] * 40
    assert sorted(step.state for step in tools(outcome)) == ["answered"] * 39 + ["called"]
    assert len(ticks) > 5


def test_when_the_caller_fails_the_next_one_calls(store):
    calls = []

    @tool(determinism="deterministic", version="1", cache=True)
    async def rate(currency):
        calls.append(currency)
        await asyncio.sleep(0.1)
        if len(calls) == 1:
            raise ValueError("first")
        return len(calls)

    @workflow("exchange")
    async def run(currency):
        return [str(one) for one in await asyncio.gather(*(rate(currency) for _ in range(5)), return_exceptions=True)]

    outcome = live_run(run, {"currency": "EUR"}, sink=store, dry=False)
    assert sorted(outcome.output) == ["2", "2", "2", "2", "first"]
    assert len(calls) == 2


def test_a_tool_that_asks_for_itself_does_not_wait_for_itself(store):
    depth = []

    @tool(determinism="deterministic", version="1", cache=True)
    def deep(n):
        depth.append(n)
        return 0 if len(depth) > 1 else deep(n) + 1

    assert live_run(workflow("deep")(lambda n: deep(n)), {"n": 1}, sink=store).output == 1


def test_a_claim_of_a_killed_process_is_taken_over(store, tmp_path):
    code = """
import sys, time, pathlib
import harness
from harness.replay import live_run
from harness.store import open_store

@harness.tool(determinism="deterministic", version="1", cache=True)
def slow(x):
    pathlib.Path(sys.argv[2]).write_text("in")
    if sys.argv[3] == "hang":
        time.sleep(600)
    return x + 1

@harness.workflow("w")
def run(x):
    return slow(x)

with open_store(sys.argv[1]) as store:
    outcome = live_run(run, {"x": 1}, sink=store, dry=False)
    print(outcome.output, [s.state for s in outcome.run.steps if s.kind == "tool"])
"""
    (tmp_path / "slow_app.py").write_text(code)
    mark = tmp_path / "mark"

    def start(how):
        command = [sys.executable, "slow_app.py", f"sqlite:///{tmp_path / 'g.db'}", str(mark), how]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)

    hanging = start("hang")
    while not mark.exists():
        assert hanging.poll() is None
        time.sleep(0.02)
    waiting = start("go")
    time.sleep(1.0)
    assert waiting.poll() is None  # the claim of a living process is respected
    os.kill(hanging.pid, signal.SIGKILL)
    hanging.communicate()
    assert waiting.communicate(timeout=60)[0] == "2 ['called']\n"
    assert start("hang").communicate(timeout=60)[0] == "2 ['answered']\n"


def test_a_store_that_fails_does_not_stop_the_tool(tmp_path):
    calls = []
    run = app(calls)
    store = open_store(f"sqlite:///{tmp_path / 'g.db'}")
    store.close()
    plan = RunPlan(mode=Mode.LIVE, sink=store, on_store_error="warn")
    with warnings.catch_warnings(record=True) as caught, planned(plan):
        warnings.simplefilter("always")
        assert run("EUR") == {"b": 1, "a": "EUR"}
    assert any("'rate': the tool cache cannot be used" in str(one.message) for one in caught)
