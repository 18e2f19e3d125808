"""What an evaluator is and what it yields.

An evaluator is any object with a ``name``, a ``version`` and an ``evaluate`` method (or a plain function) whose
parameters are bound *by name* out of ``EvaluatorContext``: ``input, output, expected_output, metadata, run,
step, case, trial``. It may be async. It returns a bool, a number, a label, a dict of those, a ``Score`` or a list
of scores. One with a ``summarize`` method also sees the whole experiment. An exception becomes a failed score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

from harness.errors import EvaluatorError
from harness.record import Recording, StepRecord

ScoreStatus = Literal["scored", "skipped", "failed", "undefined"]
Value = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One evaluator's finding, or the status that says why there is none.

    Raises:
        EvaluatorError: The value is NaN or infinite, or a scored score has no value.
    """

    name: str
    value: Value | None = None
    status: ScoreStatus = "scored"
    reason: str | None = None
    evaluator: str = ""
    version: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """JSON-ready extras for the report: a confusion matrix, matched pairs, the label behind a number."""
    low: float | None = None
    high: float | None = None
    """Ends of a 95 % interval, where the evaluator computes one."""
    n: int | None = None
    """How many units a summary score rests on."""

    def __post_init__(self) -> None:
        """Refuse numbers that no mean survives."""
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise EvaluatorError(f"score {self.name!r} is {self.value}: not measured is a status, not a number")
        if self.status == "scored" and self.value is None:
            raise EvaluatorError(f"score {self.name!r} is 'scored' but has no value")
        if self.status != "scored" and self.value is not None:
            raise EvaluatorError(f"score {self.name!r} is {self.status!r} and cannot have a value")

    @property
    def number(self) -> float | None:
        """The value as a float (bools as 0 and 1), ``None`` for labels and what was not scored."""
        return None if self.value is None or isinstance(self.value, str) else float(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorContext:
    """All that an evaluator may ask for, by parameter name."""

    input: Any
    output: Any
    expected_output: Any
    metadata: Mapping[str, Any]
    case: Any
    """The ``harness.dataset.Case``."""
    run: Recording
    """The trial's run: steps, messages, and their content through ``run.read``."""
    step: StepRecord | None = None
    """The step under evaluation when the evaluator targets one."""
    trial: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialScores:
    """What one trial got from one evaluator; the input of ``summarize``."""

    case: str
    trial: int
    group: str | None
    labels: Mapping[str, Any]
    """Human labels of the case, to calibrate against."""
    scores: tuple[Score, ...]


@runtime_checkable
class Evaluator(Protocol):
    """The trial-level contract; ``evaluate`` takes any of the context's names."""

    name: str
    version: str
    evaluate: Any


@runtime_checkable
class Summarizer(Protocol):
    """The experiment-level contract, in addition to ``Evaluator``."""

    def summarize(self, trials: Sequence[TrialScores]) -> Sequence[Score]:
        """Scores of the experiment as a whole, such as macro F1 or a judge's agreement with labels."""
        ...


def to_scores(result: Any, *, name: str, evaluator: str, version: str) -> tuple[Score, ...]:
    """Turn what an evaluator returned into scores.

    Args:
        result: A bool, number, label, dict of those, ``Score``, list of scores, or ``None`` for *skipped*.
        name: Name for a bare value; dict keys are appended to it with a dot.
        evaluator: Name of the evaluator, stamped on every score.
        version: Its version, stamped likewise.

    Raises:
        EvaluatorError: The value is of another type, NaN or infinite.
    """
    if result is None:
        nothing = Score(name=name, status="skipped", reason="the evaluator returned nothing")
        return (_stamped(nothing, evaluator, version),)
    if isinstance(result, Score):
        return (_stamped(result, evaluator, version),)
    if isinstance(result, bool | int | float | str):
        return (Score(name=name, value=result, evaluator=evaluator, version=version),)
    if isinstance(result, Mapping):
        return tuple(
            score
            for key, value in result.items()
            for score in to_scores(value, name=f"{name}.{key}", evaluator=evaluator, version=version)
        )
    if isinstance(result, Sequence):
        return tuple(
            score for item in result for score in to_scores(item, name=name, evaluator=evaluator, version=version)
        )
    raise EvaluatorError(
        f"evaluator {evaluator!r} returned {type(result).__name__}; "
        "return a bool, a number, a string, a dict of those, a Score or a list of Scores"
    )


def _stamped(score: Score, evaluator: str, version: str) -> Score:
    return replace(score, evaluator=score.evaluator or evaluator, version=score.version or version)
