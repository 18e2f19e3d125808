"""Steps, workflows and tools as a pipeline author uses them, recorded in memory."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.errors import ChangeError, RecordingMissing, SideEffectBlocked, ToolUndeclared, UsageError
from harness.pipeline import carry, now, prompt, step, tool, uuid, workflow
from harness.pipeline import random as volatile_random
from harness.replay import content, live_run, replay_run
from harness.session import Mode, NullSink, RunPlan, branch, current, planned


def steps_of(outcome):
    return [(s.scope, s.name, s.occurrence) for s in outcome.run.steps if s.parent_id]


def test_steps_nest_and_are_numbered_in_their_scope():
    @step
    def inner(x):
        return x

    @step
    def outer(x):
        return inner(x) + inner(x)

    @workflow("w")
    def run(x):
        return outer(x) + outer(x)

    outcome = live_run(run, {"x": 1})
    assert outcome.output == 4
    assert steps_of(outcome) == [
        ("", "outer", 0),
        ("outer", "inner", 0),
        ("outer", "inner", 1),
        ("", "outer", 1),
        ("outer", "inner", 2),
        ("outer", "inner", 3),
    ]


def test_input_and_output_are_snapshot_when_the_step_starts_and_ends():
    @step
    def add(items, extra=2):
        items.append(extra)
        return items

    @workflow("w")
    def run():
        return add([1])

    outcome = live_run(run, {})
    recorded = outcome.run.steps[1]
    assert content(outcome.run, recorded.input_hash) == {"items": [1], "extra": 2}
    assert content(outcome.run, recorded.output_hash) == [1, 2]
    assert recorded.mutated


def test_an_argument_left_alone_is_not_reported():
    @step
    def add(items):
        return [*items, 1]

    outcome = live_run(workflow("w")(lambda: add([])), {})
    assert not outcome.run.steps[1].mutated


def test_ignored_parameters_do_not_change_the_key():
    @step(ignore=("at",))
    def look(q, at):
        return q

    @workflow("w")
    def run():
        look("a", 1), look("a", 2), look("b", 2)

    first, second, third = live_run(run, {}).run.steps[1:]
    assert first.key == second.key != third.key


def test_an_error_is_recorded_and_reaches_the_caller():
    @step
    def bad():
        raise ValueError("no")

    @workflow("w")
    def run():
        try:
            bad()
        except ValueError:
            return "caught"

    outcome = live_run(run, {})
    assert (outcome.status, outcome.output) == ("ok", "caught")
    assert (outcome.run.steps[1].status, outcome.run.steps[1].error) == ("error", "ValueError: no")


def test_async_steps_follow_their_tasks():
    @step
    async def work(i):
        await asyncio.sleep(0)
        return current().scope, i

    @workflow("w")
    async def run():
        with branch("x"):
            return await asyncio.gather(work(1), work(2))

    outcome = live_run(run, {})
    assert outcome.output == [["[x]/work", 1], ["[x]/work", 2]]
    assert {s.parent_id for s in outcome.run.steps[1:]} == {outcome.run.steps[0].id}


def test_a_generator_step_records_what_it_yielded_and_leaves_the_scope_between():
    scopes = []

    @step
    def count(n):
        for i in range(n):
            scopes.append(current().scope)
            got = yield i
            assert got is None

    @workflow("w")
    def run():
        out = []
        for i in count(3):
            scopes.append(current().scope)
            out.append(i)
        return out

    outcome = live_run(run, {})
    assert outcome.output == [0, 1, 2]
    assert scopes == ["count", "", "count", "", "count", ""]
    assert content(outcome.run, outcome.run.steps[1].output_hash) == [0, 1, 2]


def test_a_generator_left_early_is_interrupted():
    @step
    def count():
        yield 1
        yield 2

    @workflow("w")
    def run():
        for item in count():
            return item

    outcome = live_run(run, {})
    assert outcome.output == 1
    assert outcome.run.steps[1].status == "interrupted"


def test_an_async_generator_step_is_recorded():
    @step
    async def count():
        for i in (1, 2):
            yield i

    @workflow("w")
    async def run():
        return [i async for i in count()]

    outcome = live_run(run, {})
    assert content(outcome.run, outcome.run.steps[1].output_hash) == [1, 2]


def test_methods_are_steps():
    class Agent:
        @step
        def answer(self, q):
            return q.upper()

    outcome = live_run(workflow("w")(lambda: Agent().answer("a")), {})
    assert outcome.output == "A"
    assert outcome.run.steps[1].input_hash is None


def test_blocks_are_steps_and_runs():
    plan = RunPlan(mode=Mode.LIVE, sink=NullSink(), keep=True)
    with planned(plan) as runs, workflow("w", ticket="t") as run:
        with step("draft", ticket="t") as block:
            block.output = "reply"
        run.output = "done"
    state = runs[0]
    assert state.id == run.run_id
    assert [s.name for s in sorted(state.steps, key=lambda s: s.seq)] == ["w", "draft"]
    assert state.record.status == "ok"


def test_a_bare_thread_is_no_part_of_the_run_unless_carried():
    @step
    def work(i):
        return i

    @workflow("w")
    def run():
        seen = []
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        assert seen == [None]
        with ThreadPoolExecutor(4) as pool:
            return sorted(pool.map(carry(work), range(8)))

    outcome = live_run(run, {})
    assert outcome.output == list(range(8))
    assert len(outcome.run.steps) == 9


def test_a_workflow_inside_a_run_is_a_step():
    @workflow("inner")
    def inner(x):
        return x

    outcome = live_run(workflow("outer")(lambda x: inner(x)), {"x": 1})
    assert [s.name for s in outcome.run.steps] == ["outer", "inner"]


class TestTools:
    def test_declared_tools_are_answered_from_the_recording(self):
        calls = []

        @tool(determinism="deterministic")
        def look(q, n=1):
            calls.append(q)
            return {"q": q, "n": n}

        @workflow("w")
        def run():
            return [look("a"), look("a"), look(q="b", n=1)]

        parent = live_run(run, {}).run
        outcome = replay_run(parent, target=run)
        assert outcome.output == [{"q": "a", "n": 1}, {"q": "a", "n": 1}, {"q": "b", "n": 1}]
        assert calls == ["a", "a", "b"]
        assert outcome.counts.tools_answered == 3

    def test_other_arguments_are_missing_in_replay_and_named(self):
        argument = ["a"]

        @tool(determinism="deterministic", version="1")
        def look(q):
            return q

        @workflow("w")
        def run():
            return look(argument[0])

        parent = live_run(run, {}).run
        argument[0] = "b"
        outcome = replay_run(parent, target=run)
        assert outcome.status == "missing"
        assert "'look'" in outcome.misses[0]
        assert '{"q":"b"}' in outcome.misses[0]

    def test_another_version_is_missing_and_says_so(self):
        def make(version):
            @tool(determinism="deterministic", version=version)
            def look():
                return 1

            return workflow("w")(lambda: look())

        parent = live_run(make("1"), {}).run
        outcome = replay_run(parent, target=make("2"))
        assert "version is '2', the recording holds 1" in outcome.misses[0]

    def test_an_undeclared_tool_is_refused_by_name(self):
        @tool
        def mystery():
            return 1

        run = workflow("w")(lambda: mystery())
        plan = RunPlan(mode=Mode.REPLAY, sink=NullSink(), dry=True)
        with pytest.raises(ToolUndeclared, match="mystery"), planned(plan):
            run()

    def test_side_effects_are_dry_in_replay_and_give_the_recorded_result(self):
        sent = []

        @tool(determinism="side-effect")
        def send(to):
            sent.append(to)
            return f"id-{len(sent)}"

        @workflow("w")
        def run():
            return send("ada")

        parent = live_run(run, {}, dry=False).run
        outcome = replay_run(parent, target=run)
        assert (outcome.output, sent) == ("id-1", ["ada"])
        assert outcome.counts.tools_dry == 1
        entry = {"tool": "send", "step": "send", "arguments": {"to": "ada"}, "answered_by": "recording"}
        assert outcome.blocked == (entry,)

    def test_a_side_effect_without_recording_takes_the_stand_in_or_is_blocked(self):
        @tool(determinism="side-effect", stand_in=lambda to: {"queued": to})
        def send(to):
            raise AssertionError("executed")

        @tool(determinism="side-effect")
        def pay():
            raise AssertionError("executed")

        outcome = live_run(workflow("w")(lambda: send("ada")), {})
        assert outcome.output == {"queued": "ada"}
        blocked = live_run(workflow("w")(lambda: pay()), {})
        assert blocked.status == "missing"
        assert "SideEffectBlocked" in blocked.error
        assert "'pay'" in blocked.error

    def test_a_handler_of_the_application_cannot_hide_a_block(self):
        @tool(determinism="side-effect")
        def pay():
            raise AssertionError("executed")

        @workflow("w")
        def run():
            try:
                return pay()
            except Exception:
                return "fallback"

        outcome = live_run(run, {})
        assert outcome.status == "missing"
        assert outcome.output is None

    def test_a_recorded_error_is_raised_again(self):
        @tool(determinism="deterministic", version="1")
        def look():
            raise KeyError("gone")

        @workflow("w")
        def run():
            try:
                look()
            except KeyError as error:
                return repr(error)

        parent = live_run(run, {}).run
        outcome = replay_run(parent, target=run)
        assert outcome.status == "ok"
        assert outcome.diff.output_equal

    def test_a_method_is_told_apart_by_its_arguments_without_the_object(self):
        world, asked = {"a": 1, "b": 2}, ["a"]

        class Agent:
            @tool(determinism="deterministic", version="1")
            def search(self, q):
                return world[q]

        run = workflow("w")(lambda: Agent().search(asked[0]))
        parent = live_run(run, {}).run
        assert replay_run(parent, target=run).output == 1
        asked[0] = "b"
        assert replay_run(parent, target=run).status == "missing"

    def test_calls_with_unknown_arguments_are_never_taken_for_the_same(self):
        @tool(determinism="deterministic", version="1")
        def look(thing):
            return 1

        run = workflow("w")(lambda: look(object()))
        outcome = replay_run(live_run(run, {}).run, target=run)
        assert outcome.status == "missing"
        assert "cannot be serialised" in outcome.misses[0]

    def test_async_tools_are_answered_too(self):
        calls = []

        @tool(determinism="time-bound", ttl=60)
        async def look(q):
            calls.append(q)
            return q

        @workflow("w")
        async def run():
            return await look("a")

        parent = live_run(run, {}).run
        assert replay_run(parent, target=run).output == "a"
        assert calls == ["a"]
        assert parent.steps[1].ttl == 60

    def test_the_source_is_the_version_and_comments_do_not_count(self):
        def one(x):
            return x + 1

        def two(x):
            # a comment
            return x + 2

        from harness.pipeline._tool import source_version

        assert source_version(one) != source_version(two)
        assert source_version(one) == source_version(one)


class TestPrompts:
    def test_fields_are_filled_and_the_version_is_of_the_text(self):
        first, second = prompt("p", "Hi {who}"), prompt("p", "Hi {who}!")
        assert first.format(who="Ada") == "Hi Ada"
        assert first.version != second.version
        assert first.version == prompt("other", "Hi {who}").version

    def test_a_missing_field_is_named(self):
        with pytest.raises(UsageError, match="who"):
            prompt("p", "Hi {who}").format(name="Ada")

    @pytest.mark.parametrize("text", ["{a.b}", "{a[0]}", "{0}", "{}"])
    def test_places_are_plain_names(self, text):
        with pytest.raises(UsageError):
            prompt("p", text)

    def test_a_field_value_is_not_a_template(self):
        assert prompt("p", "{a}").format(a="{b} {a.__class__}") == "{b} {a.__class__}"


class TestVolatile:
    def test_declared_values_are_replayed(self):
        @step
        def stamp():
            return [now().isoformat(), str(uuid()), volatile_random()]

        @workflow("w")
        def run():
            return [stamp(), stamp()]

        first = live_run(run, {})
        assert live_run(run, {}).output != first.output
        assert replay_run(first.run, target=run).output == first.output

    def test_more_of_them_than_recorded_is_a_change_of_code(self):
        times = [1]

        @workflow("w")
        def run():
            return [str(uuid()) for _ in range(times[0])]

        parent = live_run(run, {}).run
        times[0] = 2
        outcome = replay_run(parent, target=run)
        assert outcome.status == "missing"
        assert "harness.uuid()" in outcome.misses[0]

    def test_outside_a_run_they_are_what_they_are(self):
        assert uuid() != uuid()
        assert now().tzinfo is not None


def test_a_replay_stop_is_no_exception_that_a_retry_loop_would_catch():
    assert not issubclass(RecordingMissing, Exception)
    assert not issubclass(SideEffectBlocked, Exception)


def test_an_input_that_the_target_does_not_take_is_explained():
    @workflow("w")
    def run(ticket):
        return ticket

    assert live_run(run, {"ticket": "a"}).output == "a"
    assert live_run(run, {"other": 1}).output == {"other": 1}
    with pytest.raises(ChangeError):
        raise ChangeError("x")
