"""Experiments: trials of a golden dataset's cases, scored, compared and gated."""

from harness.experiment._values import (
    Basis,
    ExperimentResult,
    GateCheck,
    TrialResult,
    Verdict,
    Word,
)

__all__ = ["Basis", "ExperimentResult", "GateCheck", "TrialResult", "Verdict", "Word"]
