"""What an experiment yields, as plain data for the report and the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from harness.record import Hash
from harness.replay import Counts, RunOutcome
from harness.score import Score
from harness.session import Change

Word = Literal["improved", "equivalent", "regressed", "inconclusive", "not_measurable"]
"""Worst first: not_measurable, regressed, inconclusive, equivalent, improved."""
Basis = Literal["identity", "threshold", "statistics", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialHashes:
    """What a trial of the accepted baseline gave, by hash; ``None`` and absent is unknown."""

    output: Hash | None = None
    steps: Mapping[str, Hash | None] = field(default_factory=dict)
    """Output of each step, tools left out, by address."""
    trace: Hash | None = None
    """Of the addresses and outputs of all steps, tools included, whatever order they ran in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTrial:
    """One control fork of a trial: the same fork with nothing changed."""

    number: int
    """From 1."""
    arm: str
    run: str
    """Id of its run."""
    status: Literal["ok", "error", "missing"]
    output_hash: Hash | None
    equal: bool | None
    """Whether its output equals the recorded one; ``None`` when neither is known, or it gave none."""
    first_divergence: str | None
    error: str | None = None
    scores: tuple[Score, ...] = ()
    counts: Counts = field(default_factory=Counts)
    evaluator_counts: Counts = field(default_factory=Counts)
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One trial of one case."""

    case: str
    trial: int
    split: str
    group: str | None
    tags: tuple[str, ...]
    input: Any
    expected_output: Any
    outcome: RunOutcome
    recorded_output_hash: Hash | None
    """Output of the recording of this case and trial."""
    scores: tuple[Score, ...] = ()
    baseline_scores: Mapping[str, Score] = field(default_factory=dict)
    """The accepted baseline's scores of this case and trial by name; empty without a baseline."""
    baseline_hashes: TrialHashes | None = None
    """What the accepted baseline's trial gave, nothing known where it lacks this trial; ``None`` without a baseline."""
    evaluator_counts: Counts = field(default_factory=Counts)
    """What the evaluators' own model calls cost and saved; the run's are in its outcome."""
    controls: tuple[ControlTrial, ...] = ()
    """Its control forks, none unless they were asked for."""
    recorded_scores: Mapping[str, Score] = field(default_factory=dict)
    """Scores of the recorded output by name; only where there are controls."""

    @property
    def control_counts(self) -> Counts:
        """What the control forks spent and saved, their evaluators included; their steps are no steps of the fork."""
        total = sum((one.counts + one.evaluator_counts for one in self.controls), Counts())
        return replace(total, steps_reused=0, steps_run=0, tools_answered=0, tools_called=0, tools_dry=0)

    @property
    def equal(self) -> bool | None:
        """Whether the run output hash equals the recorded one; ``None`` when it is unknown.

        An output that was recorded and can no longer be serialised differs.
        """
        ours = self.outcome.run.run.output_hash
        if ours is None or self.recorded_output_hash is None:
            lost = ours is None and self.recorded_output_hash is not None and self.outcome.status == "ok"
            return False if lost else None
        return ours == self.recorded_output_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the numbers say about one scorer, candidate against baseline."""

    word: Word
    basis: Basis
    baseline: float | None = None
    candidate: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    reason: str = ""
    """One sentence a person can check: which numbers, which rule."""
    gating: bool = False
    """Whether this scorer is named in the dataset's gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One threshold or rule and how it came out."""

    name: str
    passed: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentResult:
    """One evaluation of a dataset version under one configuration."""

    id: str
    dataset: str
    dataset_path: str
    version: int
    digest: str
    target: str
    mode: str
    change: Change | None
    started_at: datetime
    ended_at: datetime
    trials: tuple[TrialResult, ...]
    """In order of case, then trial."""
    scores: tuple[Score, ...]
    """Summary scores of the candidate: means per scorer, precision, recall, agreement, …"""
    baseline_scores: Mapping[str, Score] = field(default_factory=dict)
    """The accepted baseline's summary scores by name; empty without a baseline."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    checks: tuple[GateCheck, ...] = ()
    verdict: Word = "inconclusive"
    exit_code: int = 0
    notes: tuple[str, ...] = ()
    """Things a reader must know: cases left out, an uncalibrated judge, undefined scores."""

    @property
    def counts(self) -> Counts:
        """All trials together, the evaluators' own calls and the control forks included."""
        total = Counts()
        for trial in self.trials:
            total = total + trial.outcome.counts + trial.evaluator_counts + trial.control_counts
        return total
