"""Generator functions as steps and workflows: faithful to their consumer, recorded, run again when they must be."""

import asyncio
import contextlib

import pytest

from harness.errors import UsageError
from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, content, fork_run, live_run, replay_run
from harness.session import Mode, NullSink, RunPlan, current, planned, recording_of

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
LIVE = RunPlan(mode=Mode.LIVE, sink=NullSink(), keep=True)


@step
def last(value):
    return value


def test_what_a_generator_returns_reaches_yield_from_and_the_recording():
    @step
    def count():
        yield 1
        yield 2
        return "sum 3"

    def consume():
        return (yield from count())

    @workflow("w")
    def run():
        body = consume()
        items = []
        while True:
            try:
                items.append(next(body))
            except StopIteration as stop:
                return [items, stop.value]

    outcome = live_run(run, {})
    recorded = outcome.run.steps[1]
    assert outcome.output == [[1, 2], "sum 3"]
    assert content(outcome.run, recorded.output_hash) == {"items": [1, 2], "returned": "sum 3"}
    assert recorded.mutated


def test_a_return_value_that_cannot_be_recorded_leaves_the_items():
    @step
    def count():
        yield 1
        return object()

    outcome = live_run(workflow("w")(lambda: list(count())), {})
    assert content(outcome.run, outcome.run.steps[1].output_hash) == [1]
    assert outcome.run.steps[1].mutated


def talkative():
    @step
    def talk():
        heard = []
        while len(heard) < 2:
            try:
                heard.append((yield len(heard)))
            except KeyError as error:
                heard.append(repr(error))
        yield heard

    return talk


def test_what_is_sent_or_thrown_in_reaches_the_body_which_is_not_skipped_later():
    talk, bodies = talkative(), []

    @workflow("w")
    def run():
        bodies.append("w")
        body = talk()
        return last([next(body), body.send("hello"), body.throw(KeyError("x")), list(body)])

    parent = live_run(run, {}, code_version=CODE).run
    assert content(parent, parent.run.output_hash) == [0, 1, ["hello", "KeyError('x')"], []]
    outcome = fork_run(parent, target=run, change="output=0", at="last", mode="replay", options=OPTIONS)
    assert (outcome.output, outcome.counts.steps_reused) == (0, 0)


class Witness(list):
    """Notes which bodies run, without counting as something that a step leaves behind."""

    __goldfork_opaque__ = True


def test_a_generator_that_only_yields_is_skipped_by_a_fork():
    bodies = Witness()

    @step
    def count(n):
        bodies.append(n)
        yield from range(n)

    @workflow("w")
    def run():
        return last(list(count(3)))

    parent = live_run(run, {}, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="input:value=5", at="last", mode="replay", options=OPTIONS)
    assert (outcome.output, bodies) == (5, [3])
    dictated = fork_run(parent, target=run, change="output=[7,8]", at="count", mode="replay", options=OPTIONS)
    assert dictated.output == [7, 8]
    refused = fork_run(parent, target=run, change="output=7", at="count", mode="replay", options=OPTIONS)
    assert refused.error.startswith("ChangeError: step 'count' is a generator")


def test_a_generators_clean_up_runs_in_its_step():
    scopes = []

    @step
    def count():
        try:
            yield 1
        finally:
            scopes.append(current().scope)

    @workflow("w")
    def run():
        with contextlib.closing(count()) as body:
            return next(body)

    outcome = live_run(run, {})
    assert scopes == ["count"]
    assert outcome.run.steps[1].status == "interrupted"


def test_an_async_generator_hears_its_consumer_too():
    @step
    async def talk():
        heard = yield 0
        try:
            yield heard
        except KeyError:
            yield "caught"

    @workflow("w")
    async def run():
        body = talk()
        heard = [await anext(body), await body.asend("hello"), await body.athrow(KeyError("x"))]
        return heard + [item async for item in body]

    outcome = live_run(run, {})
    assert outcome.output == [0, "hello", "caught"]
    assert outcome.run.steps[1].mutated
    assert content(outcome.run, outcome.run.steps[1].output_hash) == [0, "hello", "caught"]


def test_an_async_generator_left_early_cleans_up_in_its_step():
    scopes = []

    @step
    async def count():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            scopes.append(current().scope)

    @workflow("w")
    async def run():
        async with contextlib.aclosing(count()) as body:
            return await anext(body)

    outcome = live_run(run, {})
    assert (outcome.output, scopes) == (1, ["count"])
    assert outcome.run.steps[1].status == "interrupted"


class TestWorkflows:
    def test_a_generators_run_is_open_while_it_yields(self):
        @workflow("w")
        def run(n):
            for i in range(n):
                yield last(i)

        scopes = []
        with planned(LIVE) as runs:
            body = run(2)
            assert not runs
            for _ in body:
                scopes.append(current())
                assert runs[0].record.status == "running"
        recording = recording_of(runs[0])
        assert scopes == [None, None]
        assert recording.run.status == "ok"
        assert [s.name for s in recording.steps] == ["w", "last", "last"]
        assert content(recording, recording.run.output_hash) == [0, 1]

    def test_it_is_run_to_its_end_by_replay(self):
        @workflow("w")
        def run(n):
            for i in range(n):
                yield last(i)

        @workflow("w")
        async def async_run(n):
            for i in range(n):
                await asyncio.sleep(0)
                yield last(i)

        for target in (run, async_run):
            outcome = live_run(target, {"n": 3})
            assert outcome.output == [0, 1, 2]
            again = replay_run(outcome.run, target=target)
            assert again.diff.output_equal
            assert len(again.run.steps) == 4

    def test_one_that_is_left_is_interrupted_and_no_recording(self):
        @workflow("w")
        def run():
            yield 1
            yield 2

        with planned(LIVE) as runs, contextlib.closing(run()) as body:
            next(body)
        assert runs[0].record.status == "interrupted"

    def test_what_it_raises_ends_the_run(self):
        @workflow("w")
        async def run():
            yield 1
            raise ValueError("no")

        outcome = live_run(run, {})
        assert (outcome.error, outcome.run.run.status) == ("ValueError: no", "error")

    def test_inside_a_run_it_is_a_step(self):
        @workflow("inner")
        async def inner():
            yield last(1)

        @workflow("outer")
        async def outer():
            return [item async for item in inner()]

        outcome = live_run(outer, {})
        assert outcome.output == [1]
        assert [(s.scope, s.name) for s in outcome.run.steps] == [("", "outer"), ("", "inner"), ("inner", "last")]


def test_a_generator_is_refused_as_a_tool_by_name():
    with pytest.raises(UsageError, match="pages"):

        @tool(determinism="deterministic")
        def pages():
            yield 1

    with pytest.raises(UsageError, match="async_pages"):

        @tool
        async def async_pages():
            yield 1
