"""Forks of runs that call models and tools: what is taken over, and that a fork is itself a whole recording."""

from dataclasses import replace

import pytest

from harness.errors import UsageError
from harness.replay import Place, ReplayOptions, content, fork_run, live_run, replay_run
from harness.session import Change
from harness.testing import MemorySink

CODE = "c" * 64


@pytest.fixture
def parent(shop):
    sink = MemorySink()
    live_run(shop.run, {"ticket": "Ada"}, dry=False, sink=sink, code_version=CODE)
    shop.done.clear()
    return sink.recording()


def fork(shop, parent, change, at, *, code_version=CODE, mode="auto", arm=None, sink=None, **options):
    options = ReplayOptions(code_version=code_version, **options)
    return fork_run(parent, target=shop.run, change=change, at=at, mode=mode, arm=arm, sink=sink, options=options)


def addresses(recording):
    return [step.address for step in recording.steps]


def test_a_live_run_is_counted_by_what_it_did(shop, parent):
    outcome = replay_run(parent, target=shop.run)
    counts = outcome.counts
    assert shop.done == ["classify", "polish", "draft", "draft"]
    assert (counts.steps_run, counts.steps_reused) == (4, 0)
    assert (counts.tools_answered, counts.tools_dry, counts.tools_called) == (3, 2, 0)
    assert (counts.tokens_spent, counts.tokens_saved, counts.unknown_saved) == (0, 0, 0)
    assert outcome.output == content(parent, parent.run.output_hash)


def test_a_skipped_step_hands_everything_below_it_to_the_fork(shop, parent):
    outcome = fork(shop, parent, "prompt:opening=Hello {who}", "draft")
    assert shop.done == ["draft", "draft"]
    before, after = content(parent, parent.run.output_hash), outcome.output
    assert after["class"] == before["class"]
    assert [d[0] for d in after["drafts"]] == ["Hello Ada", "Hello Ada"]
    # The requests did not change, so each draft still has its own recorded answer.
    assert [d[1:] for d in after["drafts"]] == [d[1:] for d in before["drafts"]]
    run = outcome.run
    assert addresses(run) == addresses(parent)
    assert [step.seq for step in run.steps] == [step.seq for step in parent.steps]
    assert [step.state for step in run.steps if step.scope.startswith("classify")] == ["answered", "reused", "dry"]
    assert {message.cache_state for message in run.messages} == {"recorded"}
    assert outcome.counts.steps_reused == 2


def test_what_is_taken_over_belongs_to_the_fork_and_names_its_origin(shop, parent):
    run = fork(shop, parent, "prompt:opening=Hello {who}", "draft").run
    steps, origins = {step.id: step for step in run.steps}, {step.id: step for step in parent.steps}
    assert len(steps) == len(origins)
    assert not steps.keys() & origins.keys()
    assert {record.run_id for record in (*run.steps, *run.messages, *run.volatile)} == {run.run.id}
    for step in run.steps:
        if step.reused_from:
            origin = origins[step.reused_from]
            assert (step.address, step.output_hash) == (origin.address, origin.output_hash)
        if step.parent_id:
            assert steps[step.parent_id].name == (step.scope.rpartition("/")[2] or "shop")
    messages = {message.id: message for message in parent.messages}
    for message in run.messages:
        assert message.cache_state == "recorded"
        assert messages[message.replay_of].exact_key == message.exact_key
        assert steps[message.step_id].name == message.scope.rpartition("/")[2]
    assert len({message.id for message in run.messages} - messages.keys()) == 4


def test_a_fork_is_a_whole_recording_and_replays_alone(shop, parent):
    sink = MemorySink()
    forked = fork(shop, parent, "prompt:opening=Hello {who}", "draft", sink=sink)
    shop.done.clear()
    again = replay_run(sink.recording(), target=shop.run)
    # The written prompt is back, so only its text differs; every call is answered.
    assert again.status == "ok"
    assert again.output["class"] == forked.output["class"]
    assert again.output["sent"] == forked.output["sent"]
    assert not [entry for entry in shop.done if entry.startswith(("model", "look", "send"))]


def test_equal_calls_after_a_skipped_visit_keep_their_places(shop, parent):
    outcome = fork(shop, parent, "output=[]", "draft#0")
    before = content(parent, parent.run.output_hash)
    assert outcome.output["drafts"] == [[], before["drafts"][1]]
    shop.done.clear()
    changed = fork(shop, parent, 'input:ticket="Bob"', "draft#1")
    assert shop.done == ["draft"]
    assert changed.output["drafts"] == [before["drafts"][0], ["Dear Bob", *before["drafts"][1][1:]]]


def test_new_calls_of_a_fork_are_made_once_and_answered_from_its_own_arm(shop, parent):
    sink = MemorySink()
    first = fork(shop, parent, 'input:text="Bob"', "classify/polish", sink=sink)
    assert [entry for entry in shop.done if entry.startswith("model")] == ["model polish Bob"]
    assert [message.cache_state for message in first.run.messages].count("live") == 1
    shop.done.clear()
    again = fork(shop, parent, 'input:text="Bob"', "classify/polish", mode="replay", arm=sink.recording())
    assert (again.status, again.output) == ("ok", first.output)
    assert not [entry for entry in shop.done if entry.startswith("model")]
    missing = fork(shop, parent, 'input:text="Bob"', "classify/polish", mode="replay")
    assert missing.status == "missing"
    assert "RecordingMissing" in missing.error


def test_a_prompt_is_new_wherever_it_is_used(shop, parent):
    outcome = fork(shop, parent, "prompt:opening=Hello {who}", "classify", mode="replay")
    assert [d[0] for d in outcome.output["drafts"]] == ["Hello Ada", "Hello Ada"]


def test_another_model_behind_the_same_name_is_shown_as_drift(shop, parent):
    change = 'input:text="Bob"'
    assert fork(shop, parent, change, "classify/polish").drift == ()
    shop.served = ("m-1", "fp-2")
    outcome = fork(shop, parent, change, "classify/polish")
    assert outcome.drift == ("m: served by m-1 (fp-2)",)
    assert outcome.status == "ok"


def test_a_fork_says_what_it_is_and_where_it_belongs(shop, parent):
    place = Place(case="ada", trial=3, experiment="e1", tags=("nightly",))
    change = Change.parse("prompt:opening=Hello {who}", at="draft")
    outcome = fork(shop, parent, change, None, place=place)
    run = outcome.run.run
    assert (run.case, run.trial, run.experiment, run.tags) == ("ada", 3, "e1", ("nightly",))
    assert (run.arm, run.fork_step, run.change) == (change.arm, "draft", change.as_dict())
    assert (run.parent_run_id, run.code_version, run.mode) == (parent.run.id, CODE, "auto")
    assert (outcome.change, outcome.parent) == (change, parent)
    replayed = replay_run(parent, target=shop.run).run.run
    assert (replayed.arm, replayed.parent_run_id, replayed.change) == ("recorded", parent.run.id, None)
    assert (replayed.case, replayed.trial, replayed.mode) == (None, 0, "replay")


def test_without_the_parents_code_version_nothing_is_skipped(shop, parent):
    unknown = replace(parent, run=replace(parent.run, code_version=None))
    outcome = fork(shop, unknown, "output=[]", "classify")
    assert outcome.counts.steps_reused == 0


def test_a_step_that_failed_or_whose_output_is_gone_runs_again(shop, parent):
    def without(**changes):
        steps = [replace(step, **changes) if step.name == "classify" else step for step in parent.steps]
        fork(shop, replace(parent, steps=tuple(steps)), "output=[]", "draft", mode="replay", allow_undeclared=True)
        done, shop.done = shop.done, type(shop.done)()
        return done

    assert without() == []
    assert without(status="error", error="ValueError: no") == ["classify"]
    assert without(output_hash=None) == ["classify"]
    assert without(mutated=True) == ["classify"]
    assert without(key="0" * 64) == ["classify"]


def test_an_unknown_workflow_and_an_unknown_run_are_named(parent):
    with pytest.raises(UsageError, match="workflow 'elsewhere' is not loaded"):
        replay_run(replace(parent, run=replace(parent.run, workflow="elsewhere")))


def test_the_loaded_workflow_of_that_name_is_the_target(shop, parent):
    assert replay_run(parent).diff.output_equal
    outcome = fork_run(parent, change="output=[]", at="draft", mode="replay")
    assert outcome.output["drafts"] == [[], []]
