"""Replay and fork: run the code again with answers from a recording, and compare."""

from harness.pipeline import code_version
from harness.replay._counts import count, count_attempts
from harness.replay._diff import compare, content, value_changes
from harness.replay._replay import Place, fork_run, live_run, replay_run, require_addressed
from harness.replay._target import load_target
from harness.replay._values import Counts, RunDiff, RunOutcome, StepDiff, StepWord, ValueChange

__all__ = [
    "Counts",
    "Place",
    "RunDiff",
    "RunOutcome",
    "StepDiff",
    "StepWord",
    "ValueChange",
    "code_version",
    "compare",
    "content",
    "count",
    "count_attempts",
    "fork_run",
    "live_run",
    "load_target",
    "replay_run",
    "require_addressed",
    "value_changes",
]
