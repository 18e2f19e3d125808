"""What a run says about itself."""

import pytest

import harness
from harness.errors import UsageError
from harness.pipeline import step, workflow
from harness.replay import fork_run, live_run, replay_run


def test_tags_and_metadata_are_kept_with_the_run():
    @step
    def work(x):
        harness.annotate(session_id="s1", tags=["beta"])
        return x

    @workflow("w")
    def run(x):
        harness.annotate(tags=["a", "beta"], user_id=7, session_id="s0")
        return work(x)

    recorded = live_run(run, {"x": 1}).run
    assert recorded.run.tags == ("a", "beta")
    assert recorded.run.metadata == {"session_id": "s1", "user_id": 7}
    assert replay_run(recorded, target=run).diff.output_equal


def test_outside_a_run_and_with_odd_values_it_says_so():
    with pytest.raises(UsageError, match="inside a workflow"):
        harness.annotate(user_id="u")

    @workflow("odd")
    def run(x):
        harness.annotate(tags=[""] if x else (), value=float("nan") if not x else 1)

    assert "printable" in live_run(run, {"x": 1}).error
    assert "JSON" in live_run(run, {"x": 0}).error


def test_a_step_that_says_something_about_its_run_is_never_skipped():
    @step
    def inner(n):
        harness.annotate(tags=["vip"], user_id="u1")
        return 1

    @step
    def outer(n):
        return inner(n)

    @step
    def marker(n):
        return "one"

    @workflow("annotated")
    def run(n):
        return [marker(n), outer(n)]

    parent = live_run(run, {"n": 1}, dry=False).run
    outcome = fork_run(parent, target=run, change='output="two"', at="marker")
    assert outcome.run.run.tags == parent.run.tags == ("vip",)
    assert outcome.run.run.metadata["user_id"] == "u1"
    assert [record.state for record in outcome.run.steps if record.name in {"outer", "inner"}] == ["run", "run"]
