"""Experiments: trials of a golden dataset's cases, scored, compared and gated."""

from harness.experiment._baseline import accept
from harness.experiment._compare import Comparison, ScorePair, compare
from harness.experiment._effects import CaseEffect, JitterWord, ScorerEffect, effects, output_word
from harness.experiment._evaluators import LoadedEvaluator, load_evaluators
from harness.experiment._executor import Executor, LocalExecutor
from harness.experiment._history import (
    ExperimentLine,
    experiments,
    find,
    load_experiment,
    options_of,
)
from harness.experiment._options import EvalMode, EvalOptions, Progress, Watcher
from harness.experiment._pace import Pace
from harness.experiment._plan import ExperimentPlan, TrialPlan, plan_experiment
from harness.experiment._runner import run_experiment
from harness.experiment._undeclared import SharedDifference, shared_differences
from harness.experiment._values import (
    Basis,
    ControlTrial,
    ExperimentResult,
    GateCheck,
    TrialResult,
    Verdict,
    Word,
)

__all__ = [
    "Basis",
    "CaseEffect",
    "Comparison",
    "ControlTrial",
    "EvalMode",
    "EvalOptions",
    "Executor",
    "ExperimentLine",
    "ExperimentPlan",
    "ExperimentResult",
    "GateCheck",
    "JitterWord",
    "LoadedEvaluator",
    "LocalExecutor",
    "Pace",
    "Progress",
    "ScorePair",
    "ScorerEffect",
    "SharedDifference",
    "TrialPlan",
    "TrialResult",
    "Verdict",
    "Watcher",
    "Word",
    "accept",
    "compare",
    "effects",
    "experiments",
    "find",
    "load_evaluators",
    "load_experiment",
    "options_of",
    "output_word",
    "plan_experiment",
    "run_experiment",
    "shared_differences",
]
