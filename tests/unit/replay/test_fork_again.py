"""A fork is itself a recording: replayed with its change in the code, and forked once more."""

import pytest

from harness.pipeline import step, tool, uuid, workflow
from harness.replay import ReplayOptions, content, fork_run, live_run, replay_run
from harness.testing import MemorySink

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
SKIP = -1


class Pipeline:
    """Three visits of one step that ask the same; a visit given ``SKIP`` asks nothing, as does its like in code."""

    __goldfork_opaque__ = True

    def __init__(self, ask, calls):
        self.calls = calls
        self.first = 0
        self.stamped = False

        @tool(determinism="deterministic", version="1")
        def look(key):
            self.calls.append("look")
            return f"{key}{len(self.calls)}"

        @step
        def inner(text):
            return f"{text}:{uuid()}"

        @step
        def stamp(text):
            return ask(f"stamp {text} {uuid()}")

        @step
        def visit(i):
            if i == SKIP:
                return "none"
            self.calls.append(f"visit {i}")
            if self.stamped:
                return [i, stamp(str(uuid())), ask(f"late {uuid()}")]
            return [i, ask("same"), look("k"), inner("x"), inner("x"), str(uuid())]

        @step
        def tail(values):
            return values

        @workflow("again")
        def run():
            return tail([visit(self.first), visit(1), visit(2)])

        self.run = run


@pytest.fixture
def pipeline(shop):
    return Pipeline(shop.ask, type(shop.done)())


@pytest.fixture
def parent(pipeline, shop):
    sink = MemorySink()
    live_run(pipeline.run, {}, sink=sink, code_version=CODE)
    pipeline.calls.clear()
    shop.done.clear()
    return sink.recording()


def fork(pipeline, parent, change="input:i=-1", at="visit#0"):
    sink = MemorySink()
    outcome = fork_run(parent, target=pipeline.run, change=change, at=at, sink=sink, options=OPTIONS)
    return outcome, sink.recording()


def numbers(items):
    return sorted((item.scope, item.occurrence) for item in items)


def test_a_skipped_visit_hands_over_its_own_values_only(pipeline, parent):
    outcome, recording = fork(pipeline, parent)
    assert (outcome.status, pipeline.calls) == ("ok", [])
    # Two visits, each with one value of its own and two of the steps below.
    assert len(recording.volatile) == 6
    steps = {s.id: s for s in recording.steps}
    for value in recording.volatile:
        assert value.scope == "/".join(filter(None, (steps[value.step_id].scope, steps[value.step_id].name)))
    before = content(parent, parent.run.output_hash)
    assert outcome.output == ["none", *before[1:]]
    texts = {v.value for v in recording.volatile}
    assert all(text.rpartition(":")[2] in texts for visit in before[1:] for text in visit[3:])


def test_what_is_taken_over_is_numbered_by_the_forks_own_count(pipeline, parent):
    _, recording = fork(pipeline, parent)
    assert numbers(recording.messages) == [("visit", 0), ("visit", 1)]
    assert numbers(s for s in recording.steps if s.kind == "tool") == [("visit", 0), ("visit", 1)]
    assert numbers(s for s in recording.steps if s.name == "inner") == [("visit", i) for i in range(4)]
    assert numbers(v for v in recording.volatile if v.scope == "visit") == [("visit", 0), ("visit", 1)]
    assert numbers(v for v in recording.volatile if v.scope == "visit/inner") == [("visit/inner", i) for i in range(4)]


def test_a_fork_replays_with_its_change_in_the_code(pipeline, parent, shop):
    outcome, recording = fork(pipeline, parent)
    pipeline.first = SKIP
    replayed = replay_run(recording, target=pipeline.run)
    assert (replayed.status, replayed.misses) == ("ok", ())
    assert replayed.output == outcome.output
    assert replayed.diff.first_divergence is None
    assert not shop.done


def test_a_fork_is_forked_again(pipeline, parent, shop):
    first, recording = fork(pipeline, parent)
    pipeline.first = SKIP
    second = fork_run(recording, target=pipeline.run, change="output=0", at="visit#1", mode="replay", options=OPTIONS)
    assert second.output == ["none", 0, first.output[2]]
    # Both other visits, and the two steps below the last.
    assert second.counts.steps_reused == 4
    third = fork_run(second.run, target=pipeline.run, change="output=1", at="tail", mode="replay", options=OPTIONS)
    assert third.output == 1
    assert not shop.done


def test_requests_that_hold_declared_values_are_found_at_their_new_number(pipeline, shop):
    pipeline.stamped = True
    sink = MemorySink()
    live_run(pipeline.run, {}, sink=sink, code_version=CODE)
    shop.done.clear()
    outcome, recording = fork(pipeline, sink.recording())
    assert outcome.counts.steps_reused == 4
    pipeline.first = SKIP
    replayed = replay_run(recording, target=pipeline.run)
    assert (replayed.misses, replayed.output) == ((), outcome.output)
    assert not shop.done
    assert {m.exact_key for m in replayed.run.messages} == {m.exact_key for m in recording.messages}
