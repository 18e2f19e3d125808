"""Experiments: trials of a golden dataset's cases, scored, compared and gated."""

from harness.experiment._baseline import accept
from harness.experiment._compare import Comparison, ScorePair, compare
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
from harness.experiment._runner import run_experiment
from harness.experiment._values import (
    Basis,
    ExperimentResult,
    GateCheck,
    TrialResult,
    Verdict,
    Word,
)

__all__ = [
    "Basis",
    "Comparison",
    "EvalMode",
    "EvalOptions",
    "Executor",
    "ExperimentLine",
    "ExperimentResult",
    "GateCheck",
    "LoadedEvaluator",
    "LocalExecutor",
    "Pace",
    "Progress",
    "ScorePair",
    "TrialResult",
    "Verdict",
    "Watcher",
    "Word",
    "accept",
    "compare",
    "experiments",
    "find",
    "load_evaluators",
    "load_experiment",
    "options_of",
    "run_experiment",
]
