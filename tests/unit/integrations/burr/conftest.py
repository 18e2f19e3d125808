"""Forks of Burr applications; the provider on loopback is that of all integrations."""

from dataclasses import replace

import pytest

from harness.replay import ReplayOptions, fork_run, null_replay
from harness.session import Change


@pytest.fixture
def fork(world):
    """Fork a run with one change; ``world.ran`` then holds what the fork ran, and not what its null replay did."""

    def fork(run, *, target, change, at=""):
        change = Change.parse(change, at=at) if isinstance(change, str) else change
        # Whatever else changes in the folder of these tests while they run.
        options = ReplayOptions(code_version=run.run.code_version)
        null = null_replay(run, target=target, change=change, options=options)
        assert null.undeclared == ()
        world.ran.clear()
        return fork_run(run, target=target, change=change, options=replace(options, null=null))

    return fork
