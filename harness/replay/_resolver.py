"""Where a fork's answers come from, and which of its steps need not run."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache

from harness.pipeline import NotReusable, restore
from harness.record import Recording, StepRecord, VolatileRecord
from harness.session import (
    REQUEST_KINDS,
    Answer,
    Call,
    Change,
    RecordedAnswers,
    StepAnswer,
    StepStart,
    Subtrees,
    ToolCall,
)

_KEPT = 64
"""Pieces of content that are kept at hand."""


class ForkAnswers:
    """Answers from the fork's own arm first, then from the parent; skips steps that are proven unchanged.

    A body is skipped only when the parent's step had the same code version, surroundings (helpers, globals, closures
    as they stood), name, scope and key (its canonical inputs, those it ignores left out), ended well, changed no
    argument, and left an output that decodes to an equal value; and when its recorded subtree holds nothing that the
    change addresses.
    """

    def __init__(
        self,
        parent: Recording,
        *,
        change: Change,
        same_code: bool,
        arms: Sequence[Recording],
        errors: bool,
        stale: AbstractSet[str] = frozenset(),
        running: AbstractSet[str] = frozenset(),
    ) -> None:
        self._answers = RecordedAnswers(*arms, parent, errors=errors)
        # What a step gave is looked at before it is skipped, and handed on after.
        self._parent = replace(parent, read=lru_cache(maxsize=_KEPT)(parent.read))
        self._subtrees = Subtrees(parent)
        self._lock = threading.Lock()
        self._visits: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._stale = stale
        touched = {step_id for layer in (*arms, parent) for step_id in touched_steps(layer, change)}
        self._touched = frozenset(touched | _around(parent, stale))
        self._steps: defaultdict[tuple[str, str], list[StepRecord]] = defaultdict(list)
        for step in parent.steps:
            if step.kind != "tool" and step.parent_id is not None:
                self._steps[step.scope, step.key].append(step)
        self._skippable = _skippable(parent, self._touched | running) if same_code else {}

    @property
    def recordings(self) -> Sequence[Recording]:
        """The fork's own recordings, if any, then the parent's."""
        return self._answers.recordings

    def message(self, call: Call) -> Answer | None:
        """The recorded response to a model call, or ``None``."""
        return self._answers.message(call)

    def recorded(self, call: Call) -> int:
        """How many recordings of this very request the scope holds."""
        return self._answers.recorded(call)

    def tool(self, call: ToolCall) -> StepAnswer | None:
        """The recorded result of a tool call, or ``None``; that of a call to be made anew comes from an arm only."""
        found = self._answers.tool(call)
        return None if found is not None and found.step.id in self._stale else found

    def touches(self, call: ToolCall) -> bool:
        """Whether the recorded body of this tool call holds something that the change addresses."""
        found = self._answers.tool(call)
        return found is not None and found.step.id in self._touched

    def volatile(self, scope: str, name: str, occurrence: int) -> VolatileRecord | None:
        """The recorded volatile value, or ``None``."""
        return self._answers.volatile(scope, name, occurrence)

    def reuse(self, step: StepStart) -> StepAnswer | None:
        """The parent's step when its body may be skipped; the k-th equal visit takes the k-th equal step."""
        where = (step.scope, step.key)
        visit = self._visit(where)
        found = self._skippable.get(where, ())
        if visit >= len(found):
            return None
        candidate = found[visit]
        if candidate is None or candidate.name != step.name:
            return None
        if step.environment is None or candidate.environment != step.environment:
            return None
        answer = StepAnswer(candidate, self._parent, self._subtrees)
        if not _decodes(answer):
            return None
        self._visit_below(candidate)
        return answer

    def passed(self, step: StepStart) -> StepAnswer | None:
        """The parent's step that a dictated one stands for: the equal visit, else the one of the same address."""
        where = (step.scope, step.key)
        visit = self._visit(where)
        equal = self._steps.get(where, ())
        place = (step.scope, step.name, step.occurrence)
        stands_for = (
            equal[visit]
            if visit < len(equal)
            else next(
                (
                    one
                    for some in self._steps.values()
                    for one in some
                    if (one.scope, one.name, one.occurrence) == place
                ),
                None,
            )
        )
        if stands_for is None:
            return None
        self._visit_below(stands_for)
        return StepAnswer(stands_for, self._parent, self._subtrees)

    def _visit(self, where: tuple[str, str]) -> int:
        with self._lock:
            visit = self._visits[where]
            self._visits[where] += 1
        return visit

    def _visit_below(self, step: StepRecord) -> None:
        """Steps in a body that is not run are visits too: later equal ones take the next recorded step."""
        with self._lock:
            for below in self._subtrees.below(step):
                if isinstance(below, StepRecord) and below.kind != "tool":
                    self._visits[below.scope, below.key] += 1


def _decodes(answer: StepAnswer) -> bool:
    data = answer.output()
    if data is None:
        return False
    try:
        restore(data)
    except NotReusable:
        return False
    return True


def _skippable(parent: Recording, touched: AbstractSet[str]) -> dict[tuple[str, str], list[StepRecord | None]]:
    """Steps by (scope, key) in order of start; ``None`` where the body has to run."""
    table: defaultdict[tuple[str, str], list[StepRecord | None]] = defaultdict(list)
    for step in parent.steps:
        if step.kind == "tool" or step.parent_id is None:
            continue
        proven = step.status == "ok" and not step.mutated and step.output_hash and step.id not in touched
        table[step.scope, step.key].append(step if proven else None)
    return dict(table)


def touched_steps(recording: Recording, change: Change) -> set[str]:
    """Ids of the steps that the change addresses, of those whose calls or prompts it alters, and of all around them."""
    parents = {step.id: step.parent_id for step in recording.steps}
    addressed = {
        step.id
        for step in recording.steps
        if step.kind != "tool" and change.addresses(step.scope, step.name, step.occurrence)
    }
    touched = set(addressed)
    if change.kind == "prompt":
        touched |= prompt_users(recording, change.name)
    callers: set[str] = set()
    if change.kind in REQUEST_KINDS:
        callers = {message.step_id for message in recording.messages if message.step_id}
    elif change.kind in {"tool", "tool-version"}:
        callers = {step.id for step in recording.steps if step.kind == "tool" and step.name == change.name}
    elif change.kind == "refresh":
        # Not the calls themselves, which an earlier attempt at the fork may answer.
        calls = (step for step in recording.steps if step.kind == "tool" and step.name in change.value)
        callers = {step.parent_id for step in calls if step.parent_id}
    if callers:
        touched |= {step_id for step_id in callers if addressed.intersection(_upwards(step_id, parents))}
    return {step_id for one in touched for step_id in _upwards(one, parents)}


def _around(recording: Recording, calls: AbstractSet[str]) -> set[str]:
    """Ids of the steps around these tool calls: their bodies make the calls, so they run."""
    parents = {step.id: step.parent_id for step in recording.steps}
    return {one for call in calls if (first := parents.get(call)) for one in _upwards(first, parents)}


def _upwards(step_id: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    """The step and all steps around it."""
    at: str | None = step_id
    while at is not None:
        yield at
        at = parents.get(at)


def prompt_users(recording: Recording, prompt: str) -> set[str]:
    """Ids of the steps that use a prompt."""
    used = [value for value in recording.volatile if value.name == f"prompt:{prompt}"]
    users = {value.step_id for value in used if value.step_id}
    users |= {message.step_id for message in recording.messages if message.prompt_name == prompt and message.step_id}
    # Recordings of earlier versions hold the scope only.
    scopes = {value.scope for value in used if value.step_id is None}
    return users | {step.id for step in recording.steps if _inner(step) in scopes}


def _inner(step: StepRecord) -> str:
    return f"{step.scope}/{step.name}" if step.scope else step.name
