"""Replay and fork: run the code again with answers from a recording, and compare."""

from harness.pipeline import code_version
from harness.replay._addressed import require_addressed, require_uniform
from harness.replay._control import control_arm, control_run
from harness.replay._counts import count, count_attempts
from harness.replay._diff import compare, content, settled, value_changes
from harness.replay._estimate import Estimate, estimate
from harness.replay._fork import fork_run, null_replay
from harness.replay._meaning import Embedder, Meaning, by_vectors, meaning_by, measured
from harness.replay._mutations import Mutation, mutations
from harness.replay._null import NullReplay
from harness.replay._options import Place, ReplayOptions
from harness.replay._plan import ForkPlan, PlannedStep, PlanWord, plan_fork
from harness.replay._replay import live_run, replay_run
from harness.replay._stale import Expired, refresh_change
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
    "Expired",
    "ForkPlan",
    "Meaning",
    "Mutation",
    "NullReplay",
    "Place",
    "PlanWord",
    "PlannedStep",
    "ReplayOptions",
    "RunDiff",
    "RunOutcome",
    "Semantic",
    "SettledWord",
    "StepDiff",
    "StepWord",
    "ToolCallDiff",
    "ValueChange",
    "by_vectors",
    "code_version",
    "compare",
    "content",
    "control_arm",
    "control_run",
    "count",
    "count_attempts",
    "estimate",
    "fork_run",
    "live_run",
    "load_target",
    "meaning_by",
    "measured",
    "mutations",
    "null_replay",
    "plan_fork",
    "refresh_change",
    "replay_run",
    "require_addressed",
    "require_uniform",
    "settled",
    "value_changes",
]
