"""Replay and fork: run the code again with answers from a recording, and compare."""

from harness.pipeline import code_version
from harness.replay._addressed import require_addressed, require_uniform
from harness.replay._control import control_arm, control_run
from harness.replay._counts import count, count_attempts
from harness.replay._diff import Embedder, compare, content, measured, settled, value_changes
from harness.replay._estimate import Estimate
from harness.replay._null import NullReplay
from harness.replay._plan import ForkPlan, PlannedStep, PlanWord, plan_fork
from harness.replay._replay import Place, fork_run, live_run, null_replay, replay_run
from harness.replay._stale import refresh_change
from harness.replay._target import load_target
from harness.replay._values import (
    Counts,
    Difference,
    RunDiff,
    RunOutcome,
    Semantic,
    SettledWord,
    StepDiff,
    StepWord,
    ToolCallDiff,
    ValueChange,
)

__all__ = [
    "Counts",
    "Difference",
    "Embedder",
    "Estimate",
    "ForkPlan",
    "NullReplay",
    "Place",
    "PlanWord",
    "PlannedStep",
    "RunDiff",
    "RunOutcome",
    "Semantic",
    "SettledWord",
    "StepDiff",
    "StepWord",
    "ToolCallDiff",
    "ValueChange",
    "code_version",
    "compare",
    "content",
    "control_arm",
    "control_run",
    "count",
    "count_attempts",
    "fork_run",
    "live_run",
    "load_target",
    "measured",
    "null_replay",
    "plan_fork",
    "refresh_change",
    "replay_run",
    "require_addressed",
    "require_uniform",
    "settled",
    "value_changes",
]
