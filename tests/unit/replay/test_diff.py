"""One value for every difference: text, JSON path, tool calls, formatting, errors, what cannot be serialised."""

import contextlib
from dataclasses import replace

import pytest

from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, by_vectors, compare, fork_run, live_run, measured, replay_run, settled

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


@step
def note(x):
    return x


@tool(determinism="deterministic", version="1")
def look(key, depth=1):
    return [key, depth]


def pipeline(body, *, name="w"):
    @workflow(name)
    def run():
        return body()

    return run


def states(outcome):
    return [(d.address, d.state, d.equal) for d in outcome.diff.steps]


def two(first, second):
    """A run of one body, then a replay of the other against its recording."""
    parent = live_run(pipeline(first), {}).run
    return replay_run(parent, target=pipeline(second), mode="auto")


def places(difference):
    return [(place.path, place.kind) for place in difference.places]


def test_a_third_visit_to_a_loop_is_added():
    outcome = two(lambda: [note(k) for k in "ab"], lambda: [note(k) for k in "abc"])
    assert states(outcome) == [("note", "run", True), ("note#1", "run", True), ("note#2", "added", None)]
    assert outcome.diff.first_divergence == "note#2"


def test_dropping_one_entry_of_a_loop_leaves_the_others_hits():
    @step
    def pick():
        return ["a", "b", "c", "d"]

    @workflow("w")
    def run():
        return [note(k) for k in pick()]

    parent = live_run(run, {}, code_version=CODE).run
    change = 'output=["a", "c", "d"]'
    outcome = fork_run(parent, target=run, change=change, at="pick", mode="replay", options=OPTIONS)
    assert states(outcome)[1:] == [
        ("note", "reused", True),
        ("note#1", "removed", None),
        ("note#1", "reused", True),
        ("note#2", "reused", True),
    ]
    assert [d.settled for d in outcome.diff.steps if d.state == "reused"] == ["settled by recording"] * 3


def test_an_entry_put_in_front_is_added_and_the_others_stay_paired():
    outcome = two(lambda: [note(k) for k in "bc"], lambda: [note(k) for k in "abc"])
    assert states(outcome) == [("note", "added", None), ("note#1", "run", True), ("note#2", "run", True)]


def test_the_places_of_a_difference_are_told_by_json_path():
    before = {"reply": "Dear Ann,  hello", "tags": ["a", "b"], "count": 1, "gone": True}
    after = {"reply": "Dear Ann, hello there", "tags": ["a", "c", "d"], "count": 2}
    outcome = two(lambda: note(before), lambda: note(after))
    [step_] = outcome.diff.steps
    assert step_.difference.kind == "content"
    assert places(step_.difference) == [
        ("$.count", "value"),
        ("$.gone", "removed"),
        ("$.reply", "text"),
        ("$.tags[1]", "text"),
        ("$.tags[2]", "added"),
    ]
    assert outcome.diff.output == outcome.diff.difference.places


def test_formatting_alone_is_told_apart():
    outcome = two(lambda: note("one two\n"), lambda: note("one\n two"))
    assert outcome.diff.steps[0].difference.kind == "formatting"
    assert outcome.diff.output_equal is False


def test_a_type_that_json_does_not_show_is_said_to_be_one():
    outcome = two(lambda: note((1, 2)), lambda: note([1, 2]))
    assert outcome.diff.steps[0].difference.places == ()
    assert "does not show" in outcome.diff.steps[0].difference.note


def test_an_output_that_can_no_longer_be_serialised_is_a_divergence():
    class Opaque:
        def __reduce__(self):
            raise TypeError("no")

    @step
    def make():
        return made[0]

    made = [1]

    @workflow("w")
    def run():
        make()
        return 1

    parent = live_run(run, {}).run
    made[0] = Opaque()
    outcome = replay_run(parent, target=run)
    if outcome.run.steps[1].output_hash is not None:
        pytest.skip("this version can serialise it")
    assert states(outcome) == [("make", "run", False)]
    assert outcome.diff.steps[0].difference.kind == "serialisation"
    assert outcome.diff.first_divergence == "make"
    back = compare(parent, outcome.run)
    assert "could not be serialised in the parent" in back.steps[0].difference.note


def test_an_output_of_the_run_that_cannot_be_serialised_differs():
    parent = live_run(pipeline(lambda: note(1)), {}).run
    lost = replace(parent, run=replace(parent.run, output_hash=None))
    diff = compare(lost, parent)
    assert (diff.output_equal, diff.first_divergence, diff.difference.kind) == (False, "w", "serialisation")
    assert compare(lost, lost).output_equal is None


@pytest.mark.parametrize(
    ("after", "equal"), [("other text", False), ("same text", None)], ids=["another text", "the same text"]
)
def test_a_changed_error_text_is_a_divergence(after, equal):
    @step
    def fail(text):
        raise ValueError(texts[0])

    texts = ["same text"]

    @workflow("w")
    def run():
        with contextlib.suppress(ValueError):
            fail(1)
        return 1

    parent = live_run(run, {}).run
    texts[0] = after
    outcome = replay_run(parent, target=run)
    [told] = outcome.diff.steps
    assert told.equal is equal
    assert (told.difference is None) == (equal is None)
    if equal is False:
        assert told.difference.note == "raised ValueError: same text in the parent, raised ValueError: other text here"


def test_a_run_that_ends_with_another_error_differs():
    def first():
        raise ValueError("one")

    def second():
        raise ValueError("two")

    outcome = two(first, second)
    assert outcome.diff.first_divergence == "w"
    assert "raised ValueError: two here" in outcome.diff.difference.note


def test_tool_calls_are_told_by_name_arguments_and_order():
    def first():
        return [look("a"), look("b"), look("c", depth=1)]

    def second():
        return [look("b"), look("a"), look("c", depth=2), look("d")]

    told = {
        (call.kind, call.before, call.after, tuple(place.path for place in call.places))
        for call in two(first, second).diff.tool_calls
    }
    assert ("arguments", 2, 2, ("$.depth",)) in told
    assert ("added", None, 3, ("$",)) in told
    # One of the two that changed places stands out of order, not both.
    assert len([one for one in told if one[0] == "order"]) == 1
    assert len(told) == 3


def test_equal_tool_calls_are_not_mentioned():
    assert two(lambda: [look(k) for k in "ab"], lambda: [look(k) for k in "ab"]).diff.tool_calls == ()


def test_the_semantic_difference_is_unmeasured_without_an_embedder_and_a_cosine_with_one():
    parent = live_run(pipeline(lambda: note("a cat")), {}).run
    outcome = replay_run(parent, target=pipeline(lambda: note("a dog")))
    [told] = outcome.diff.steps
    assert told.difference.semantic.cosine is None
    assert told.difference.semantic.note == "unmeasured: no embedder was given"
    toy = by_vectors(lambda texts: [[len(t), 1.0 * ("cat" in t)] for t in texts], name="toy")
    diff = measured(outcome.diff, outcome.run, parent, meaning=toy)
    assert diff.steps[0].difference.semantic.cosine == pytest.approx(25 / (26**0.5 * 5))
    assert diff.difference.semantic.note == "by toy"


def test_each_step_is_settled_by_the_recording_re_run_or_dry(provider):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    change = "prompt:opening=Hi {who}"
    outcome = fork_run(parent, target=provider.run, change=change, at="draft", options=OPTIONS)
    words = {d.name: d.settled for d in outcome.diff.steps}
    assert words == {"look": "settled by recording", "draft": "re-run", "check": "re-run"}
    # Replayed offline from its own recording it is the same fork: what was called anew then was not settled before.
    again = fork_run(
        parent, target=provider.run, change=change, at="draft", mode="replay", arm=outcome.run, options=OPTIONS
    )
    assert again.counts.provider_calls == 0
    assert {d.name: d.settled for d in again.diff.steps} == words
    replayed = replay_run(parent, target=provider.run)
    told = settled(replayed.diff, replayed.run)
    assert {d.settled for d in told.steps} == {"settled by recording"}
