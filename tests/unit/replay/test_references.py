"""A finished run is named by its id or its workflow, as on the command line."""

import pytest

from harness.errors import UsageError
from harness.replay import ReplayOptions, fork_run, live_run, replay_run
from harness.session import process_store


@pytest.fixture
def kept(shop, tmp_path, monkeypatch):
    """A run of the shop in the store of this process."""
    monkeypatch.setenv("GOLDFORK_HOME", str(tmp_path))
    store = process_store()
    outcome = live_run(shop.run, {"ticket": "Ada"}, dry=False, sink=store, code_version="c" * 64)
    assert store.flush()
    shop.done.clear()
    yield outcome.run.run
    store.close()


def test_the_run_of_an_id_or_a_workflow_is_found(shop, kept):
    for ref in (kept.id, "shop"):
        outcome = replay_run(ref)
        assert outcome.parent.run.id == kept.id
        assert outcome.diff.output_equal
    forked = fork_run(
        "shop", change="output=[]", at="draft", mode="replay", options=ReplayOptions(code_version="c" * 64)
    )
    assert (forked.run.run.parent_run_id, forked.output["drafts"]) == (kept.id, [[], []])
    assert not [entry for entry in shop.done if entry.startswith(("model", "look", "send"))]


def test_a_run_that_is_not_there_is_named(kept):
    with pytest.raises(UsageError, match="there is no run 'nothing'"):
        replay_run("nothing")
