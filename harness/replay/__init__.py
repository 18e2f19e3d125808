"""Replay and fork: run the code again with answers from a recording, and compare."""

from harness.replay._values import Counts, RunDiff, RunOutcome, StepDiff, StepWord, ValueChange

__all__ = ["Counts", "RunDiff", "RunOutcome", "StepDiff", "StepWord", "ValueChange"]
