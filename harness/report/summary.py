"""Everything a report shows, as plain data; the renderers only lay it out.

Text in here is as it came from models, tools and dataset files: hostile. Each renderer neutralises it for its own
format. Content is bounded: what was cut says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal

from harness.experiment import Basis, GateCheck, JitterWord, ScorerEffect, Word
from harness.replay import Counts, SettledWord, StepWord
from harness.score import ScoreStatus, Value

CaseState = Literal["equal", "differs", "unmeasured", "missing", "error"]
"""Worst trial of the case: output equals the baseline's, differs, has none to compare with, lacked a recording,
crashed."""
ProblemKind = Literal["missing", "error", "gate", "score", "undeclared"]
ToolWord = Literal["not executed", "expired, kept", "expired, called anew", "may come out otherwise"]
PieceKind = Literal["same", "gone", "new", "left_out"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a word-level difference."""

    kind: PieceKind
    text: str
    """The words; for ``left_out`` a sentence that says how much is not shown."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text."""

    text: str
    left_out: int = 0
    """Characters that are not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A summary score on one side."""

    value: Value | None
    low: float | None = None
    high: float | None = None
    """Ends of its 95 % interval."""
    status: ScoreStatus = "scored"
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """One summary score, candidate beside baseline."""

    name: str
    candidate: Measured
    baseline: Measured | None
    n: int | None
    missing: int
    """Trials without a result for it."""
    word: Word | None
    """``None`` when nothing was compared."""
    basis: Basis
    difference: float | None
    low: float | None
    high: float | None
    """Ends of the interval of the difference."""
    margin: float | None
    gating: bool
    reason: str
    cases: tuple[CaseDifference, ...] = ()
    """Per case, most lowered first; empty where the cases have no numbers under this name."""


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """One case's number, averaged over its trials."""

    case: str
    candidate: float
    baseline: float

    @property
    def difference(self) -> float:
        """Candidate minus baseline."""
        return self.candidate - self.baseline

    @property
    def changed(self) -> bool:
        """Whether they differ by more than the noise of floating point."""
        return abs(self.difference) > 1e-9


@dataclass(frozen=True, slots=True)
class Divergence:
    """How many cases differ first at one step."""

    step: str
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps a case from counting as good."""

    case: str
    trial: int | None
    kind: ProblemKind
    reason: str


@dataclass(frozen=True, slots=True)
class PlaceView:
    """One place where two values differ."""

    path: str
    """JSON path such as ``$.reply``."""
    kind: str
    """``text``, ``formatting``, ``value``, ``added`` or ``removed``."""
    values: str
    """Before and after; empty for texts, whose words are shown instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceView:
    """What is said of a difference, the same in every format."""

    kind: str
    """``content``, ``formatting``, ``error``, ``serialisation`` or ``gone``."""
    told: str
    """``differs``, ``differs in formatting alone``, or what kept the contents from being compared."""
    places: tuple[PlaceView, ...] = ()
    more: int = 0
    """Places beyond those."""
    semantic: str = ""
    """How far the texts are apart in meaning or in words, and by what measure; empty where no text differs."""
    unmeasured: str = ""
    """Why it is not told in meaning; empty where it is, and where no text differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step of a trial."""

    address: str
    kind: str
    state: StepWord
    equal: bool | None
    difference: tuple[Piece, ...] = ()
    """Of its output; empty when equal or not shown."""
    note: str = ""
    """Why a difference is not shown."""
    settled: SettledWord | None = None
    differs: DifferenceView | None = None
    """The same difference in words; ``None`` when its contents were not compared."""
    why: str = ""
    """Where it differs: what differs, and because of what."""


@dataclass(frozen=True, slots=True)
class ToolCallView:
    """A tool call that differs from the recorded run's."""

    address: str
    kind: str
    """``arguments``, ``order``, ``added`` or ``removed``."""
    told: str
    """Its places before and after."""
    difference: tuple[Piece, ...]
    """Of the arguments; empty where only the order differs."""


@dataclass(frozen=True, slots=True)
class ControlView:
    """One control fork of a trial."""

    number: int
    run: str
    told: str
    """What became of it: output equal, first divergence, or why it gave none."""


@dataclass(frozen=True, slots=True)
class StepTally:
    """What became of one step over all forks."""

    step: str
    settled: int
    """Forks in which it was settled by the recording."""
    rerun: int
    dry: int
    added: int
    removed: int
    differs: int
    first: int
    """Forks whose first divergence it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTally:
    """What became of one step's calls over all trials, where a reader has to know it."""

    word: ToolWord
    """``may come out otherwise``: a model call made anew at a temperature above 0."""
    step: str
    times: int
    cases: tuple[str, ...]
    told: str
    """What answered, how old the results were, or which model was asked how."""


@dataclass(frozen=True, slots=True)
class BlockedView:
    """A side effect that was kept from happening."""

    tool: str
    arguments: Excerpt
    """What would have been sent."""
    answered_by: str
    """What the caller got instead: the recording's result, or the declared stand-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreView:
    """One score of one trial, or the status that says why there is none."""

    name: str
    value: Value | None
    status: ScoreStatus
    reason: str | None
    baseline: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    """One trial of a case."""

    trial: int
    run: str
    state: CaseState
    seconds: float
    first_divergence: str | None
    steps: tuple[StepView, ...]
    more_steps: int
    """Steps beyond those shown."""
    scores: tuple[ScoreView, ...]
    output: Excerpt
    difference: tuple[Piece, ...] = ()
    """Of the run's output against the recorded one; empty when equal or not shown."""
    note: str = ""
    """Why a difference is not shown."""
    differs: DifferenceView | None = None
    """The same difference in words."""
    error: str | None = None
    misses: tuple[str, ...] = ()
    blocked: tuple[BlockedView, ...] = ()
    undeclared: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    tool_calls: tuple[ToolCallView, ...] = ()
    controls: tuple[ControlView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseView:
    """One case with its trials."""

    case: str
    split: str
    group: str | None
    tags: tuple[str, ...]
    state: CaseState
    input: Excerpt
    expected: Excerpt | None
    trials: tuple[TrialView, ...]
    problems: tuple[Problem, ...] = ()
    jitter: tuple[JitterWord, str] | None = None
    """Of its output beside its control forks', and why; ``None`` without controls."""

    @property
    def seconds(self) -> float:
        """Time that its trials took together."""
        return sum(trial.seconds for trial in self.trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What the experiment cost, and what the recordings saved. ``None`` is unknown, never zero."""

    tokens_spent: int | None
    tokens_saved: int | None
    cost_spent: Decimal | None
    cost_saved: Decimal | None
    currency: str
    known: Counts
    """Sums of what is known, the least that the unknown ones can be, and how many messages are not in them."""

    @property
    def unknown_usage(self) -> int:
        """Messages without reported usage; they are in neither sum."""
        return self.known.unknown_spent + self.known.unknown_saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the trials did."""

    steps_reused: int
    steps_run: int
    tools_answered: int
    tools_called: int
    tools_dry: int
    provider_calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One experiment, ready to be laid out."""

    experiment: str
    dataset: str
    dataset_path: str
    version: int
    digest: str
    target: str
    mode: str
    change: str | None
    """The declared change in one line, ``None`` for none."""
    change_value: Excerpt | None
    started_at: datetime
    ended_at: datetime
    verdict: Word
    exit_code: int
    outcome: str
    """What the exit code means: ``gate passed``, ``gate failed``, …"""
    headline: str
    """One sentence: the numbers that decided."""
    trials: int
    outputs_equal: int
    outputs_compared: int
    """Trials where both output hashes are known."""
    spending: Spending
    work: Work
    scores: tuple[ScoreRow, ...]
    checks: tuple[GateCheck, ...]
    divergences: tuple[Divergence, ...]
    """Most cases first."""
    problems: tuple[Problem, ...]
    """In order of case and trial."""
    cases: tuple[CaseView, ...]
    """In order of case."""
    tallies: tuple[StepTally, ...] = ()
    """In order of first sight; empty unless the experiment is a fork."""
    effects: tuple[ScorerEffect, ...] = ()
    """Per scorer, what the change did beside what nothing did; empty without control forks."""
    controls: int = 0
    """Control forks of each trial, the most that one has."""
    control_counts: Counts = field(default_factory=Counts)
    """What they spent and saved."""
    tools: tuple[ToolTally, ...] = ()
    """Effects that were not executed, results past their ttl, calls that may vary."""
    undeclared: tuple[str, ...] = ()
    """Each difference once, with the cases that have it."""
    drift: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: str = ""
    """What the bounds of the report kept out; empty when nothing."""
    states: tuple[tuple[CaseState, int], ...] = field(default=())
    """How many cases are in each state, worst first."""
