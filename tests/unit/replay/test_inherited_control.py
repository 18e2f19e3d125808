"""A control of a fork is made with what the fork changed: it measures jitter, and nothing else."""

from dataclasses import replace

from harness.replay import ReplayOptions, control_run, fork_run, live_run
from harness.session import Change

OTHER = ReplayOptions(code_version="d" * 64, allow_undeclared=True)


def test_what_the_fork_changed_holds_in_its_control(provider):
    parent = live_run(provider.run, {"ticket": "t"}).run
    fork = fork_run(parent, target=provider.run, change="prompt:opening=Hello {who}", at="draft")
    before = len(provider.server.requests)
    # Under another version no body is skipped, so that every request is made again and looked up.
    options = replace(OTHER, allow_undeclared=False)
    change = Change.parse("model=m2", at="check")
    control = control_run(fork.run, target=provider.run, change=change, options=options)
    asked = [seen.json["messages"][0]["content"] for seen in provider.server.requests[before:]]
    assert asked == ["check reply to Hello reply to look t"]
    assert control.output == fork.output
    assert all(diff.equal for diff in control.diff.steps)
    assert control.run.run.metadata["inherited_changes"] == [fork.run.run.change]
