"""What a fork would do, told from the recording alone: nothing is run and nothing is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from harness.errors import DatasetMissing, StoreError
from harness.gateway import priced
from harness.pipeline import NotReusable, registered, restore
from harness.pipeline.adapter import loaded_code
from harness.record import LOCAL, MessageRecord, Recording, StepRecord
from harness.replay._addressed import require_addressed
from harness.replay._effect import Reach
from harness.replay._estimate import Estimate, estimate
from harness.replay._options import ReplayOptions
from harness.replay._stale import expired_calls, refreshed_calls
from harness.session import Change, SystemClock
from harness.store import Store

if TYPE_CHECKING:
    from harness.settings import Price

PlanWord = Literal["reused", "run", "run or reused", "answered", "answered or called", "called", "dry", "not run"]
"""``not run``: the change dictates what this step, or one around it, gives."""
_MAYBE: frozenset[PlanWord] = frozenset({"run or reused"})
_SKIPPED: frozenset[PlanWord] = frozenset({"reused"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """One recorded step, and what would become of it."""

    key: str
    name: str
    scope: str
    occurrence: int
    kind: str
    word: PlanWord
    reason: str
    """Why it cannot be skipped, may have to run, or need not."""
    certain: int = 0
    """Model calls made in the step itself that the change alters, so that they are made anew."""
    possible: int = 0
    """Model calls made in the step itself that are made anew if what leads to them changes."""
    estimate: Estimate
    """Of both, as they were recorded."""

    @property
    def address(self) -> str:
        """``scope/name#occurrence``."""
        path = f"{self.scope}/{self.name}" if self.scope else self.name
        return f"{path}#{self.occurrence}" if self.occurrence else path


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPlan:
    """What a fork would do. Steps that only the change brings about are not in it."""

    parent: str
    """Id of the run that would be forked."""
    change: Change
    code: Literal["same", "changed", "unknown"]
    """The current code beside the recorded; only with the same one is any step skipped."""
    steps: tuple[PlannedStep, ...]
    """In order of start, the root left out."""
    certain: Estimate
    """The calls that the change itself alters."""
    at_most: Estimate
    """These and all that may change with them. New text may be longer than what was recorded, and new steps may call
    as well: it bounds what is repeated, not what a model will write."""
    answered: Estimate
    """The calls that the recording answers in any case."""
    control: Estimate
    """The calls that one control fork makes anew."""

    @property
    def words(self) -> Mapping[PlanWord, int]:
        """How many steps there are of each word."""
        return Counter(step.word for step in self.steps)


def plan_fork(
    parent: Recording,
    change: Change,
    *,
    target: Callable[..., Any] | None = None,
    options: ReplayOptions | None = None,
    prices: Mapping[str, Price] | None = None,
    store: Store | None = None,
) -> ForkPlan:
    """Say what a fork would reuse, run and keep dry, and what it would cost at most.

    Args:
        parent: The finished run.
        change: The one thing to change.
        target: The pipeline; by default the loaded workflow of the run's name. It is not called.
        options: Those of the fork: code version, clock, and what becomes of expired results and side effects.
        prices: By model name; only for calls whose model the change replaces.
        store: Where the age of a result is looked up that the run had itself from another one.

    Raises:
        ChangeError: The run has no such step, or does not use such a prompt, or has no such tool to be called anew.
        UsageError: The run's costs are in several currencies.
    """
    options = options or ReplayOptions()
    change = change.rooted(parent.run.workflow)
    require_addressed(parent, change)
    target = target or registered(parent.run.workflow)
    code_version = options.code_version
    if code_version is None and target is not None:
        code_version = loaded_code(target)
    stale: AbstractSet[str] = frozenset()
    if options.expired == "refresh":
        clock = options.clock or SystemClock()
        stale = frozenset(expired_calls(parent, now=clock.now(), store=store))
    if change.kind == "refresh":
        refreshed_calls(parent, change)
    code: Literal["same", "changed", "unknown"] = "unknown"
    if code_version is not None and parent.run.code_version is not None:
        code = "same" if code_version == parent.run.code_version else "changed"
    plot = _Plot(parent, change, code, stale=stale, effects=options.allow_side_effects, prices=prices or {})
    steps = tuple(plot.steps())
    away = [message for message in parent.messages if message.provider != LOCAL]
    certain = [message for message in away if plot.fate(message) == "certain"]
    possible = [message for message in away if plot.fate(message) == "possible"]
    answered = [message for message in away if plot.fate(message) == "answered"]
    return ForkPlan(
        parent=parent.run.id,
        change=change,
        code=code,
        steps=steps,
        certain=estimate(plot.priced(certain)),
        at_most=estimate(plot.priced([*certain, *possible])),
        answered=estimate(answered),
        control=estimate(message for message in away if message.id in plot.fresh),
    )


Fate = Literal["certain", "possible", "answered", "not made"]
_ANEW: frozenset[Fate] = frozenset({"certain", "possible"})


class _Plot:
    """One plan in the making: the word of each step in order of start, then the fate of each call."""

    def __init__(
        self,
        parent: Recording,
        change: Change,
        code: Literal["same", "changed", "unknown"],
        *,
        stale: AbstractSet[str],
        effects: bool,
        prices: Mapping[str, Price],
    ) -> None:
        self._parent, self._change, self._code = parent, change, code
        self._reach = reach = Reach(parent, change)
        self._effects, self._prices = effects, prices
        self._stale = stale
        self._callers = {reach.by_id[call].parent_id for call in stale}
        self._around = {outer for call in stale for outer in reach.around(reach.by_id[call])}
        self._first = min((reach.by_id[call].seq for call in stale), default=None)
        starts = [place for place in (reach.effect, self._first) if place is not None]
        self._effect = min(starts, default=None)
        self.fresh = reach.fresh()
        self._words: dict[str, PlanWord] = {}
        for step in parent.steps:
            if step.parent_id is None:
                self._words[step.id] = "not run" if self._dictated(step) else "run"

    def steps(self) -> Iterator[PlannedStep]:
        """All steps but the root, with their words and calls."""
        told = []
        for step in self._parent.steps:
            if step.parent_id is not None:
                word, reason = self._tool(step) if step.kind == "tool" else self._step(step)
                self._words[step.id] = word
                told.append((step, word, reason))
        calls: dict[str, list[MessageRecord]] = {}
        for message in self._parent.messages:
            if message.provider != LOCAL:
                calls.setdefault(message.step_id or "", []).append(message)
        for step, word, reason in told:
            fates = [(message, self.fate(message)) for message in calls.get(step.id, ())]
            yield PlannedStep(
                key=step.key,
                name=step.name,
                scope=step.scope,
                occurrence=step.occurrence,
                kind=step.kind,
                word=word,
                reason=reason,
                certain=sum(fate == "certain" for _, fate in fates),
                possible=sum(fate == "possible" for _, fate in fates),
                estimate=estimate(self.priced(m for m, fate in fates if fate in _ANEW)),
            )

    def fate(self, message: MessageRecord) -> Fate:
        """What would become of a recorded call."""
        word = self._words.get(message.step_id or "", "run")
        if word in {"not run", "dry"}:
            return "not made"
        if word in {"reused", "answered"}:
            return "answered"
        if self._reach.alters(message):
            return "certain"
        before = self._effect is None or message.seq < self._effect
        return "answered" if before and self._code == "same" else "possible"

    def priced(self, messages: Iterable[MessageRecord]) -> Iterator[MessageRecord]:
        """The calls at the price of the model that would answer: unknown for one that has none."""
        for message in messages:
            if self._change.kind == "model" and self._reach.alters(message):
                yield priced(
                    replace(message, model=str(self._change.value), model_served=None, cost=None), self._prices
                )
            else:
                yield message

    def _dictated(self, step: StepRecord) -> bool:
        return self._change.kind == "output" and step.id in self._reach.addressed

    def _step(self, step: StepRecord) -> tuple[PlanWord, str]:
        around = self._words.get(step.parent_id or "", "run")
        outer = self._reach.by_id.get(step.parent_id or "")
        if around in {"reused", "not run"} and outer is not None:
            why = "which is skipped whole" if around == "reused" else "whose output the change gives"
            return around, f"inside {outer.address!r}, {why}"
        if self._dictated(step):
            return "not run", "the fork step; the change gives its output"
        if step.id in self._reach.touched:
            return "run", "the fork step" if step.id in self._reach.addressed else self._near(step)
        if step.id in self._around:
            inner = "it calls a tool" if step.id in self._callers else "around a tool call"
            return "run", f"{inner} whose recorded result is past its ttl"
        why = self._no_proof(step)
        if why:
            return ("run or reused" if around in _MAYBE else "run"), why
        if around in _MAYBE or self._after(step):
            return "run or reused", f"its input may change: {self._cause()} comes before it"
        return "reused", "same code and inputs, and its output comes back equal"

    def _near(self, step: StepRecord) -> str:
        if step.id not in self._reach.direct:
            inner = next((one for one in self._ordered(self._reach.direct) if step.id in self._reach.around(one)), None)
            return "around what the change addresses" if inner is None else f"around {inner.address!r}"
        if self._reach.calls:
            return f"it makes the tool call that the change of {self._change.kind} is about"
        if self._change.kind == "prompt":
            return f"it uses prompt {self._change.name!r}"
        return "the change addresses what it does"

    def _tool(self, step: StepRecord) -> tuple[PlanWord, str]:
        around = self._words.get(step.parent_id or "", "run")
        if around == "not run":
            return "not run", "inside a step whose output the change gives"
        if step.id in self._reach.calls and self._change.kind == "tool":
            return "answered", "the change gives its result"
        if step.determinism == "side-effect":
            executed = self._effects and around not in _SKIPPED
            told: tuple[PlanWord, str] = ("called", "a side effect, which is executed for real")
            return told if executed else ("dry", "a side effect: never executed in a fork")
        if around in _SKIPPED:
            return "answered", "inside a step that is skipped whole"
        return self._tool_call(step, around)

    def _tool_call(self, step: StepRecord, around: PlanWord) -> tuple[PlanWord, str]:
        """A call without side effects whose caller runs, or may run."""
        if step.determinism is None:
            return "called", "it declares no determinism, so the fork stops here unless the step around it is skipped"
        if step.id in self._reach.calls:
            return "called", "the change has it called anew"
        if step.id in self._stale:
            return "called", "its recorded result is past its ttl"
        if step.id in self._reach.touched:
            return "called", "its body holds what the change addresses"
        if around in _MAYBE or self._after(step):
            return "answered or called", f"its arguments may change: {self._cause()} comes before it"
        return "answered", "equal arguments are recorded"

    def _after(self, step: StepRecord) -> bool:
        return self._effect is not None and step.seq > self._effect

    def _cause(self) -> str:
        if self._first is not None and self._first == self._effect:
            return "a result that is past its ttl"
        first = next(self._ordered(self._reach.direct), None)
        return "the change" if first is None else repr(first.address)

    def _no_proof(self, step: StepRecord) -> str:
        """Why the body has to run although the change does not reach it; empty when nothing speaks against skipping."""
        if self._code == "changed":
            return "the code has changed since it was recorded"
        if self._code == "unknown":
            return "it cannot be told whether the code is the recorded one"
        if step.status != "ok":
            return f"it did not end well: {step.error or step.status}"
        if step.mutated:
            return "it changed an argument or left traces in what it reads, or its output held a credential"
        if step.output_hash is None:
            return "no digest, because its output could not be serialised"
        if step.environment is None:
            return "no digest, because it could not be told what its body hangs on (a block, a generator, an open file)"
        return self._undecodable(step)

    def _undecodable(self, step: StepRecord) -> str:
        try:
            restore(self._parent.read(step.output_order or step.output_hash or ""))
        except NotReusable as reason:
            return f"its output does not decode: {reason}"
        except (DatasetMissing, StoreError) as reason:
            return f"its output is gone: {reason}"
        return ""

    def _ordered(self, ids: AbstractSet[str]) -> Iterator[StepRecord]:
        return (step for step in self._parent.steps if step.id in ids)
