"""Where a fork's answers come from, and which of its steps need not run."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence

from harness.pipeline import NotReusable, restore
from harness.record import Recording, StepRecord, VolatileRecord
from harness.session import Answer, Call, Change, RecordedAnswers, StepAnswer, StepStart, ToolCall


class ForkAnswers:
    """Answers from the fork's own arm first, then from the parent; skips steps that are proven unchanged.

    A body is skipped only when the parent's step had the same code version, name, scope and canonical inputs,
    ended well, changed no argument, and left an output that decodes to an equal value; and when its recorded
    subtree holds nothing that the change addresses.
    """

    def __init__(
        self, parent: Recording, *, change: Change, same_code: bool, arm: Recording | None, errors: bool
    ) -> None:
        layers = (parent,) if arm is None else (arm, parent)
        self._answers = RecordedAnswers(*layers, errors=errors)
        self._parent = parent
        self._lock = threading.Lock()
        self._visits: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._skippable = _skippable(parent, change) if same_code else {}

    @property
    def recordings(self) -> Sequence[Recording]:
        """The fork's own recording, if any, then the parent's."""
        return self._answers.recordings

    def message(self, call: Call) -> Answer | None:
        """The recorded response to a model call, or ``None``."""
        return self._answers.message(call)

    def recorded(self, call: Call) -> int:
        """How many recordings of this very request the scope holds."""
        return self._answers.recorded(call)

    def tool(self, call: ToolCall) -> StepAnswer | None:
        """The recorded result of a tool call, or ``None``."""
        return self._answers.tool(call)

    def volatile(self, scope: str, name: str, occurrence: int) -> VolatileRecord | None:
        """The recorded volatile value, or ``None``."""
        return self._answers.volatile(scope, name, occurrence)

    def reuse(self, step: StepStart) -> StepAnswer | None:
        """The parent's step when its body may be skipped; the k-th equal visit takes the k-th equal step."""
        where = (step.scope, step.key)
        with self._lock:
            visit = self._visits[where]
            self._visits[where] += 1
        found = self._skippable.get(where, ())
        if visit >= len(found):
            return None
        candidate = found[visit]
        if candidate is None or candidate.name != step.name or candidate.input_hash != step.input_hash:
            return None
        answer = StepAnswer(candidate, self._parent)
        return answer if _decodes(answer) else None


def _decodes(answer: StepAnswer) -> bool:
    data = answer.output()
    if data is None:
        return False
    try:
        restore(data)
    except NotReusable:
        return False
    return True


def _skippable(parent: Recording, change: Change) -> dict[tuple[str, str], list[StepRecord | None]]:
    """Steps by (scope, key) in order of start; ``None`` where the body has to run."""
    touched = _touched(parent, change)
    table: defaultdict[tuple[str, str], list[StepRecord | None]] = defaultdict(list)
    for step in parent.steps:
        if step.kind == "tool" or step.parent_id is None:
            continue
        proven = step.status == "ok" and not step.mutated and step.output_hash and step.id not in touched
        table[step.scope, step.key].append(step if proven else None)
    return dict(table)


def _touched(parent: Recording, change: Change) -> set[str]:
    """Ids of the steps that the change addresses, and of all steps around them."""
    parents = {step.id: step.parent_id for step in parent.steps}
    touched: set[str] = set()
    for step in parent.steps:
        if change.addresses(step.scope, step.name, step.occurrence):
            touched.add(step.id)
    if change.kind == "prompt":
        users = {v.scope for v in parent.volatile if v.name == f"prompt:{change.name}"}
        touched |= {step.id for step in parent.steps if _inner(step) in users}
        touched |= {m.step_id for m in parent.messages if m.prompt_name == change.name and m.step_id}
    for step_id in list(touched):
        above = parents.get(step_id)
        while above is not None:
            touched.add(above)
            above = parents.get(above)
    return touched


def _inner(step: StepRecord) -> str:
    return f"{step.scope}/{step.name}" if step.scope else step.name
