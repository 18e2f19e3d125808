"""Control forks of one run: nothing changed, calls from the fork step on made afresh."""

import itertools

import pytest

from harness.errors import ChangeError
from harness.pipeline import step, workflow
from harness.replay import ReplayOptions, control_arm, control_run, fork_run, live_run
from harness.session import Change

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
PROMPT = Change(kind="prompt", at="draft", name="opening", value="Hi {who}")


def test_calls_before_the_fork_step_are_answered_and_all_later_ones_are_fresh(provider):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    before = len(provider.server.requests)
    outcome = control_run(parent, change=PROMPT, number=2, target=provider.run, options=OPTIONS)
    assert outcome.status == "ok"
    assert outcome.run.run.arm == "control:2@draft"
    assert outcome.change is None
    assert len(provider.server.requests) == before + 2
    assert [message.cache_state for message in outcome.run.messages] == ["recorded", "live", "live"]
    assert [d.state for d in outcome.diff.steps] == ["reused", "run", "run"]
    # The server says the same again, so the control ends where the recording did.
    assert outcome.diff.output_equal is True
    assert {d.settled for d in outcome.diff.steps[1:]} == {"re-run"}


def test_a_recorded_control_is_replayed_without_a_provider(provider):
    provider.replies.jitter = itertools.count()
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    made = control_run(parent, change=PROMPT, target=provider.run, options=OPTIONS)
    asked = len(provider.server.requests)
    again = control_run(parent, change=PROMPT, target=provider.run, mode="replay", arm=[made.run], options=OPTIONS)
    assert again.status == "ok"
    assert len(provider.server.requests) == asked
    assert again.output == made.output
    assert again.diff.output_equal is False
    assert [d.settled for d in again.diff.steps] == [d.settled for d in made.diff.steps]


def test_without_its_recording_a_replayed_control_is_missing(provider):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    outcome = control_run(parent, change=PROMPT, target=provider.run, mode="replay", options=OPTIONS)
    assert outcome.status == "missing"


def test_the_arm_names_the_step_from_which_calls_are_fresh(provider):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    model = Change(kind="model", at="desk", value="m-2")
    assert control_arm(parent, model, 1) == "control:1@look"
    assert control_arm(parent, PROMPT, 1) == "control:1@draft"


def test_a_control_of_the_whole_run_makes_every_call(provider):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    before = len(provider.server.requests)
    control_run(parent, change=Change(kind="model", at="desk", value="m-2"), target=provider.run, options=OPTIONS)
    assert len(provider.server.requests) == before + 3


def test_side_effects_stay_dry_and_tools_are_answered(shop):
    parent = live_run(shop.run, {"ticket": "t"}, code_version=CODE).run
    shop.done.clear()
    change = Change(kind="input", at="draft", name="ticket", value="x")
    outcome = control_run(parent, change=change, target=shop.run, options=OPTIONS)
    assert "send" not in shop.done
    assert not [line for line in shop.done if line.startswith("look")]
    assert shop.done == ["draft", "model draft", "draft", "model draft"]
    assert outcome.counts.tools_dry > 0


def test_a_step_that_does_not_exist_is_refused(shop):
    parent = live_run(shop.run, {"ticket": "t"}, code_version=CODE).run
    with pytest.raises(ChangeError, match="has no step 'nowhere'"):
        control_run(parent, change=Change(kind="output", at="nowhere", value=0), target=shop.run)


def test_a_control_leaves_its_parent_and_the_fork_as_they_are(provider):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    before = repr(parent.steps), repr(parent.messages)
    control_run(parent, change=PROMPT, target=provider.run, options=OPTIONS)
    assert (repr(parent.steps), repr(parent.messages)) == before
    outcome = fork_run(parent, target=provider.run, change=PROMPT, options=OPTIONS)
    assert [d.state for d in outcome.diff.steps] == ["reused", "run", "run"]


def test_a_call_that_the_workflow_itself_made_before_the_fork_step_is_answered(provider):
    @step
    def late(text):
        return provider.ask(f"late {text}")

    @workflow("bare")
    def run():
        return provider.ask(late(provider.ask("early")))

    parent = live_run(run, {}, code_version=CODE).run
    outcome = control_run(parent, change=Change(kind="model", at="late", value="m-2"), target=run, options=OPTIONS)
    assert [message.cache_state for message in outcome.run.messages] == ["recorded", "live", "live"]
