"""What a replay or fork yields: counts, the step-by-step comparison with the parent, the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from harness.errors import UsageError
from harness.record import Hash, Recording
from harness.replay._mutations import Mutation, mutations
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
class ValueChange:
    """One place where two values differ."""

    path: str
    """JSON path (RFC 9535) such as ``$.reply``, ``$.entities[0]`` or ``$['a.b']``."""
    kind: Literal["text", "formatting", "value", "added", "removed"]
    """``formatting``: the same words with other white space."""
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantic:
    """How far two texts are apart: in meaning by an embedding, or else by their words."""

    cosine: float | None = None
    """Cosine of both embeddings, -1 to 1; ``None`` when it was not measured."""
    lexical: float | None = None
    """Without an embedder: share of words that both have in the same order, 0 to 1, which says nothing of meaning."""
    note: str = "unmeasured: no embedder was given"
    """What measured it, or why it was not measured."""

    @property
    def told(self) -> str:
        """One line that names the measure, the same wherever it is shown."""
        if self.cosine is not None:
            return f"in meaning: cosine {self.cosine:.3f} {self.note}"
        if self.lexical is not None:
            return f"in words: {self.lexical:.0%} shared (lexical, not meaning)"
        return f"in meaning: {self.note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is different about one output, or one error."""

    kind: Literal["content", "formatting", "error", "serialisation", "gone"]
    """``formatting``: white space alone. ``error``: raised or not, or raised with another text. ``serialisation``: a
    value that can be recorded on one side only. ``gone``: the hashes differ and the content is no longer there."""
    places: tuple[ValueChange, ...] = ()
    """Where the values differ, the first ones."""
    more: int = 0
    """Places beyond those."""
    note: str = ""
    """In words, where there are no places."""
    semantic: Semantic = Semantic()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDiff:
    """One tool call that differs from the parent's, by its arguments or its place."""

    name: str
    scope: str
    kind: Literal["arguments", "order", "added", "removed"]
    before: int | None
    """Its place among the parent's tool calls of that scope, from 0; ``None`` when it is added."""
    after: int | None
    """Its place among this run's; ``None`` when it is removed."""
    places: tuple[ValueChange, ...] = ()
    """Where the arguments differ; of an added or removed call, the whole of them."""


SettledWord = Literal["settled by recording", "re-run", "dry"]
"""Whether what a step gave was known beforehand: it and all in it came from the parent's recording, something was
computed anew, or a side effect was kept from happening."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDiff:
    """One step beside its counterpart in the parent; paired by scope, name, content key and occurrence."""

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
    """The output is the parent's, what replies say about themselves left out; ``None`` when both are unknown,
    ``False`` when one is, or when an error differs."""
    renamed: bool = False
    """Equal under another hash: it differs in ids, time or fingerprint of a reply alone."""
    settled: SettledWord | None = None
    """``None`` for a removed step, and where it was not asked for."""
    difference: Difference | None = None
    """What differs where ``equal`` is ``False``."""
    parent_input_hash: Hash | None = None

    @property
    def address(self) -> str:
        """``scope/name#occurrence``."""
        path = f"{self.scope}/{self.name}" if self.scope else self.name
        return f"{path}#{self.occurrence}" if self.occurrence else path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """A run beside its parent, hashes first."""

    steps: tuple[StepDiff, ...]
    first_divergence: str | None
    """Address of the first step (in order of start) whose output or error differs, or that is added or removed."""
    output_equal: bool | None
    output: tuple[ValueChange, ...] = ()
    """Where the run outputs differ; empty when equal."""
    difference: Difference | None = None
    """What differs about the run's output or error as a whole."""
    tool_calls: tuple[ToolCallDiff, ...] = ()
    """Tool calls that differ by name, arguments or order."""


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
    """Side effects kept dry: ``tool``, ``step``, ``arguments``, and ``answered_by``: recording, stand-in or nothing."""
    change: Change | None
    counts: Counts
    diff: RunDiff
    undeclared: tuple[str, ...] = ()
    """Differences between the recorded and the current code that the change does not declare."""
    beside: frozenset[str] = frozenset()
    """Ids of steps started in another thread or task than the step around them."""
    drift: tuple[str, ...] = ()
    """Model served or system fingerprint differing from the recording; shown, never an error."""
    jitter: tuple[str, ...] = ()
    """Model calls that a fork made anew with a temperature above 0: asked again, they may be answered otherwise."""
    expired: tuple[Mapping[str, Any], ...] = ()
    """Of a fork, tool results past their ttl: ``tool``, ``step``, ``age_s``, ``ttl_s``, and ``action``: ``kept`` or
    ``refreshed``."""
    duration_ms: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mutations(self) -> tuple[Mutation, ...]:
        """What the run's steps changed that was not theirs: arguments, globals, caches."""
        return mutations(self.run)

    @property
    def status(self) -> Literal["ok", "error", "missing"]:
        """``missing`` when the recording lacked something, else whether the run raised."""
        if self.misses:
            return "missing"
        return "error" if self.error is not None else "ok"
