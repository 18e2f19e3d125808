"""What a replay or fork yields: counts, the step-by-step comparison with the parent, the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from harness.errors import UsageError
from harness.record import Hash, Recording
from harness.session import Change

StepWord = Literal["reused", "run", "answered", "called", "dry", "added", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What one or more executions did. Steps are agent and job steps, the root not counted."""

    steps_reused: int = 0
    steps_run: int = 0
    tools_answered: int = 0
    tools_called: int = 0
    tools_dry: int = 0
    provider_calls: int = 0
    """Requests that left the process for a model, retries included."""
    tokens_spent: int = 0
    tokens_saved: int = 0
    """Known tokens that the recording answered for, skipped steps' included."""
    unknown_spent: int = 0
    unknown_saved: int = 0
    """Messages whose provider reported no usage. With any of them the sum of tokens is only the least it can be."""
    cost_spent: Decimal | None = None
    cost_saved: Decimal | None = None
    """Sum of the known costs; ``None`` when none is known."""
    unpriced_spent: int = 0
    unpriced_saved: int = 0
    """Messages whose cost is unknown. With any of them the sum of costs is only the least it can be."""
    currency: str = "USD"
    """Of both costs."""

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Tokens spent and saved, ``None`` for a side of which something is unknown."""
        return (
            None if self.unknown_spent else self.tokens_spent,
            None if self.unknown_saved else self.tokens_saved,
        )

    @property
    def cost(self) -> tuple[Decimal | None, Decimal | None]:
        """Money spent and saved, ``None`` for a side of which something is unknown."""
        return (
            None if self.unpriced_spent else self.cost_spent or Decimal(0),
            None if self.unpriced_saved else self.cost_saved or Decimal(0),
        )

    def spending(self) -> Counts:
        """What was spent alone, without what was saved and which steps ran."""
        return Counts(
            provider_calls=self.provider_calls,
            tokens_spent=self.tokens_spent,
            unknown_spent=self.unknown_spent,
            cost_spent=self.cost_spent,
            unpriced_spent=self.unpriced_spent,
            currency=self.currency,
        )

    def __add__(self, other: Counts) -> Counts:
        """The counts of two executions together.

        Raises:
            UsageError: Their costs are in different currencies.
        """
        plain = {
            name: getattr(self, name) + getattr(other, name)
            for name in self.__slots__
            if isinstance(getattr(self, name), int)
        }
        spent = _sum(self.cost_spent, other.cost_spent)
        saved = _sum(self.cost_saved, other.cost_saved)
        currency = same_currency(self._priced_in(), other._priced_in())
        return Counts(**plain, cost_spent=spent, cost_saved=saved, currency=currency or "USD")

    def _priced_in(self) -> str | None:
        return None if self.cost_spent is None and self.cost_saved is None else self.currency


def same_currency(left: str | None, right: str | None) -> str | None:
    """The currency of a sum of two amounts; ``None`` stands for that of an unknown amount.

    Raises:
        UsageError: They differ, so that there is no sum.
    """
    if left is not None and right is not None and left != right:
        raise UsageError(
            f"costs in {left!r} and in {right!r} cannot be added; give all prices in one currency, "
            "in the settings and in dataset.toml"
        )
    return right if left is None else left


def _sum(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    if left is None or right is None:
        return left if right is None else right
    return left + right


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDiff:
    """One step beside its counterpart in the parent; paired by scope, name and occurrence."""

    key: str
    name: str
    scope: str
    occurrence: int
    kind: str
    state: StepWord
    input_hash: Hash | None
    output_hash: Hash | None
    parent_output_hash: Hash | None
    equal: bool | None
    """Output hash equals the parent's; ``None`` when either is unknown."""

    @property
    def address(self) -> str:
        """``scope/name#occurrence``."""
        path = f"{self.scope}/{self.name}" if self.scope else self.name
        return f"{path}#{self.occurrence}" if self.occurrence else path


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """One place where two values differ."""

    path: str
    """JSON path such as ``$.reply`` or ``$.entities[0]``."""
    kind: Literal["text", "formatting", "value", "added", "removed"]
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """A run beside its parent, hashes first."""

    steps: tuple[StepDiff, ...]
    first_divergence: str | None
    """Address of the first step (in order of start) whose output hash differs, or that is added or removed."""
    output_equal: bool | None
    output: tuple[ValueChange, ...] = ()
    """Where the run outputs differ; empty when equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """One replayed or forked run."""

    run: Recording
    """The new run, content readable."""
    parent: Recording | None
    """What it was replayed or forked from."""
    output: Any
    error: str | None
    misses: tuple[str, ...]
    """Why recorded answers were missing; the run failed if there is any."""
    blocked: tuple[Mapping[str, Any], ...]
    """Side effects kept dry: tool, arguments, and what was returned instead."""
    change: Change | None
    counts: Counts
    diff: RunDiff
    undeclared: tuple[str, ...] = ()
    """Differences between the recorded and the current code that the change does not declare."""
    drift: tuple[str, ...] = ()
    """Model served or system fingerprint differing from the recording; shown, never an error."""
    duration_ms: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> Literal["ok", "error", "missing"]:
        """``missing`` when the recording lacked something, else whether the run raised."""
        if self.misses:
            return "missing"
        return "error" if self.error is not None else "ok"
