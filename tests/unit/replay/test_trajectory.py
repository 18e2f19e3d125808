"""Where a run leaves its parent: the first difference, in order of start."""

from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, replay_run

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


@step
def note(x):
    return x


@tool(determinism="side-effect", stand_in="dry")
def send(x):
    return x


def states(outcome):
    return [(d.address, d.state) for d in outcome.diff.steps]


def test_a_change_in_the_workflows_own_body_is_found_there():
    suffix = ["a"]

    @workflow("own")
    def run():
        return note("x") + suffix[0]

    parent = live_run(run, {}).run
    suffix[0] = "b"
    outcome = replay_run(parent, target=run)
    assert outcome.diff.output_equal is False
    assert outcome.diff.first_divergence == "own"


def test_a_tool_call_that_the_parent_did_not_make_is_added():
    calls = [1]

    @workflow("w")
    def run():
        results = [send(i) for i in range(calls[0])]
        return results[0]

    parent = live_run(run, {}).run
    assert states(live_run(run, {})) == [("send", "dry")]
    calls[0] = 2
    outcome = replay_run(parent, target=run)
    assert states(outcome) == [("send", "dry"), ("send", "added")]
    assert outcome.diff.first_divergence == "send"
    assert outcome.counts.tools_dry == 2


def test_a_removal_before_a_change_comes_first():
    old = [True]

    @step
    def gone():
        return 1

    @step
    def final(x):
        return x

    @workflow("w")
    def run():
        note(1)
        if old[0]:
            gone()
            gone()
        else:
            send(1)
        note(2)
        return final(old[0])

    parent = live_run(run, {}).run
    old[0] = False
    outcome = replay_run(parent, target=run)
    assert states(outcome) == [
        ("note", "run"),
        ("gone", "removed"),
        ("send", "added"),
        ("gone#1", "removed"),
        ("note#1", "run"),
        ("final", "run"),
    ]
    assert outcome.diff.first_divergence == "gone"


def test_a_removal_at_the_end_comes_after_a_change_before_it():
    old = [True]

    @workflow("w")
    def run():
        first = note(old[0])
        if old[0]:
            send(1)
        return first

    parent = live_run(run, {}).run
    old[0] = False
    outcome = replay_run(parent, target=run)
    assert states(outcome) == [("note", "run"), ("send", "removed")]
    assert outcome.diff.first_divergence == "note"


def test_a_step_is_skipped_whatever_its_ignored_argument_and_records_its_own(executed):
    bodies, at = executed, [1.5]

    @step(ignore=("at",))
    def look(q, at):
        bodies.append(at)
        return q

    @workflow("w")
    def run():
        return note(look("a", at[0]))

    parent = live_run(run, {}, code_version=CODE).run
    at[0] = 2.5
    outcome = fork_run(parent, target=run, change="output=0", at="note", mode="replay", options=OPTIONS)
    assert bodies == [1.5]
    reused = outcome.run.steps[1]
    assert reused.state == "reused"
    assert reused.input_hash != parent.steps[1].input_hash
    assert b"2.5" in outcome.run.read(reused.input_hash)
