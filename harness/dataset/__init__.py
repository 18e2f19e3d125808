"""Golden datasets: named, versioned, reviewed cases and their recordings, as files that git keeps."""

from harness.dataset._case import Case, EvaluatorSpec, Gate, RecordingRef, case_schema
from harness.dataset._diff import DatasetDiff, FieldChange, diff
from harness.dataset._freeze import Frozen, freeze, readdress, unchanged
from harness.dataset._golden import GoldenDataset
from harness.dataset._manifest import Version
from harness.dataset._verify import Check, check

__all__ = [
    "Case",
    "Check",
    "DatasetDiff",
    "EvaluatorSpec",
    "FieldChange",
    "Frozen",
    "Gate",
    "GoldenDataset",
    "RecordingRef",
    "Version",
    "case_schema",
    "check",
    "diff",
    "freeze",
    "readdress",
    "unchanged",
]
