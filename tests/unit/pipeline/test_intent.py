"""A side effect in production: that it is about to happen is on the disk before it does."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import pytest

from harness.errors import StoreError
from harness.pipeline import tool, workflow
from harness.replay import live_run, replay_run
from harness.session import Mode, RunPlan, planned
from harness.store import open_store
from harness.testing import MemorySink

APP = """
import asyncio, pathlib, sys, time
import harness

@harness.tool(determinism="side-effect")
def pay(amount):
    pathlib.Path("paid").write_text(str(amount))
    time.sleep(600)

@harness.tool(determinism="side-effect")
async def pay_later(amount):
    pathlib.Path("paid").write_text(str(amount))
    await asyncio.sleep(600)

@harness.step
def settle(amount):
    return asyncio.run(pay_later(amount)) if sys.argv[1] == "async" else pay(amount)

@harness.workflow("billing")
def run(amount):
    return settle(amount)

run(12)
"""


@pytest.mark.parametrize("how", ["sync", "async"])
def test_after_kill_9_the_store_shows_an_effect_that_may_have_happened(tmp_path, how):
    (tmp_path / "billing.py").write_text(APP)
    url = f"sqlite:///{tmp_path / 'g.db'}"
    environment = {**os.environ, "GOLDFORK_DATABASE_URL": url, "GOLDFORK_MODE": "live"}
    process = subprocess.Popen([sys.executable, "billing.py", how], cwd=tmp_path, env=environment)
    while not (tmp_path / "paid").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with open_store(url) as store:
        (row,) = store.runs()
        assert row.status == "abandoned"
        recording = store.recording(row.id)
        assert recording.run.status == "interrupted"
        (effect,) = [step for step in recording.steps if step.kind == "tool"]
        assert (effect.status, effect.state, effect.determinism) == ("interrupted", "called", "side-effect")
        assert effect.address in {"settle/pay", "settle/pay_later"}
        assert recording.read(effect.input_hash) == b'{"amount":12}'
        assert effect.output_hash is None
        # A replay answers nothing from it: it may have happened or not.
        assert replay_run(recording, target=billing("pay" if how == "sync" else "pay_later")).status == "missing"


def billing(name):
    @tool(name=name, determinism="side-effect")
    def pay(amount):
        raise AssertionError("executed")

    @workflow("billing")
    def run(amount):
        return pay(amount)

    return run


class SlowSink(MemorySink):
    """Commits a record of a running tool only when it is let."""

    def __init__(self):
        super().__init__()
        self.held = []
        self.asked = threading.Event()

    def write(self, *records, blobs=None):
        done = super().write(*records, blobs=blobs)
        if any(getattr(one, "kind", "") == "tool" and one.status == "running" for one in records):
            done = Future()
            self.held.append(done)
            self.asked.set()
        return done


def effect(log, **options):
    @tool(determinism="side-effect", **options)
    def send(text):
        log.append(text)
        return "sent"

    return workflow("mail")(lambda text: send(text))


def test_the_body_starts_after_the_commit():
    log, sink = [], SlowSink()
    run = effect(log)
    thread = threading.Thread(target=lambda: live_run(run, {"text": "hi"}, sink=sink, dry=False))
    thread.start()
    assert sink.asked.wait(10)
    time.sleep(0.05)
    assert log == []
    sink.held[0].set_result(None)
    thread.join(10)
    assert log == ["hi"]


def test_an_async_caller_waits_without_blocking_the_loop():
    sink, order = SlowSink(), []

    @tool(determinism="side-effect")
    async def send(text):
        order.append("sent")
        return text

    @workflow("mail")
    async def run(text):
        async def commit():
            while not sink.held:
                await asyncio.sleep(0)
            order.append("committed")
            sink.held[0].set_result(None)

        # Were the loop blocked, nobody would ever commit.
        return (await asyncio.gather(send(text), commit()))[0]

    assert live_run(run, {"text": "hi"}, sink=sink, dry=False).output == "hi"
    assert order == ["committed", "sent"]


def test_a_cancelled_wait_sends_nothing():
    sink, log = SlowSink(), []

    @tool(determinism="side-effect")
    async def send(text):
        log.append(text)

    @workflow("mail")
    async def run(text):
        task = asyncio.create_task(send(text))
        while not sink.held:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        sink.held[0].set_result(None)
        return task.cancelled()

    outcome = live_run(run, {"text": "hi"}, sink=sink, dry=False)
    assert (outcome.output, log) == (True, [])
    (step,) = [one for one in outcome.run.steps if one.kind == "tool"]
    assert step.status == "interrupted"


def test_an_intent_that_cannot_be_stored_stops_the_effect_where_errors_are_raised():
    log = []
    run = effect(log)
    sink = MemorySink()
    plan = RunPlan(mode=Mode.LIVE, sink=sink, on_store_error="raise")

    class Full(MemorySink):
        def write(self, *records, blobs=None):
            if any(getattr(one, "kind", "") == "tool" for one in records):
                failed = Future()
                failed.set_exception(OSError("disk is full"))
                return failed
            return super().write(*records, blobs=blobs)

    refused = pytest.raises(StoreError, match="'send' is not executed: .*disk is full")
    with planned(RunPlan(mode=Mode.LIVE, sink=Full(), on_store_error="raise")), refused:
        run("hi")
    assert log == []
    warned = pytest.warns(RuntimeWarning, match="disk is full")
    with planned(RunPlan(mode=Mode.LIVE, sink=Full(), on_store_error="warn")), warned:
        assert run("hi") == "sent"
    with planned(plan):
        assert run("hi") == "sent"
    assert log == ["hi", "hi"]


@pytest.mark.parametrize("determinism", ["deterministic", "time-bound", None])
def test_only_side_effects_wait(determinism):
    sink = SlowSink()

    @tool(determinism=determinism)
    def look(text):
        return text

    assert live_run(workflow("mail")(lambda text: look(text)), {"text": "hi"}, sink=sink, dry=False).output == "hi"
    assert not sink.held[0].done()
