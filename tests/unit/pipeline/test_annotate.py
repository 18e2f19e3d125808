"""What a run says about itself."""

import pytest

import harness
from harness.errors import UsageError
from harness.pipeline import step, workflow
from harness.replay import live_run, replay_run


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
