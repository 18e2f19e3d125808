"""Where a change first makes a difference in a recorded run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from harness.canonical import canonical_json, parse_json
from harness.errors import CanonicalError, DatasetMissing, StoreError
from harness.gateway import rewritten
from harness.record import LOCAL, MessageRecord, Recording, StepRecord
from harness.replay._jitter import GENERATING
from harness.replay._resolver import prompt_users, touched_steps
from harness.session import REQUEST_KINDS, Change

_TOOL_KINDS = frozenset({"tool", "tool-version", "refresh"})


class Reach:
    """What of a recorded run a change reaches, told from the recording alone."""

    def __init__(self, parent: Recording, change: Change) -> None:
        change = change.rooted(parent.run.workflow)
        self._parent, self._change = parent, change
        self._other: dict[str, bool] = {}
        self.by_id = {step.id: step for step in parent.steps}
        self.addressed = {
            step.id
            for step in parent.steps
            if step.kind != "tool" and change.addresses(step.scope, step.name, step.occurrence)
        }
        """Ids of the steps that the change names."""
        self.inside = frozenset(below(parent.steps, self.addressed))
        """Ids of the named steps and of all inside them."""
        self.calls = frozenset(self._tool_calls())
        """Ids of the tool calls whose result, version or freshness it is about."""
        self.touched = frozenset(touched_steps(parent, change)).union(
            *(self.around(self.by_id[call]) for call in self.calls)
        )
        """Ids of the steps whose bodies have to run: those that it alters, and all around them."""
        self.direct = self._direct()
        """Ids of the steps that it alters, without those that only stand around them."""
        self.effect = self._effect()
        """Place in the run's order at which it first makes a difference; ``None`` when it makes none."""

    @property
    def first(self) -> StepRecord | None:
        """The step in which it first makes a difference; the first named one when it makes none."""
        if self._change.kind in REQUEST_KINDS and self.effect is not None:
            step_id = next(message.step_id for message in self._parent.messages if message.seq == self.effect)
            return self.by_id.get(step_id or "")
        return next((step for step in self._parent.steps if step.id in (self.direct or self.addressed)), None)

    def alters(self, message: MessageRecord) -> bool:
        """Whether the change alters this very call, wherever it leads."""
        change = self._change
        if change.kind == "prompt":
            return message.prompt_name == change.name and message.step_id in self.touched
        if message.step_id not in self.inside:
            return False
        if change.message is not None and message.id not in self._numbered(change.message):
            return False
        return change.kind in REQUEST_KINDS and message.provider != LOCAL and self._rewritten(message)

    def _rewritten(self, message: MessageRecord) -> bool:
        """Whether the change makes another request of the recorded one; assumed where its body is gone."""
        known = self._other.get(message.id)
        if known is None:
            known = self._other[message.id] = self._makes_another(message)
        return known

    def _makes_another(self, message: MessageRecord) -> bool:
        try:
            body = self._parent.read(message.request_hash)
        except (DatasetMissing, StoreError):
            return True
        made = rewritten(body, self._change, generates=message.endpoint.rstrip("/").endswith(GENERATING))
        if made is None or made == body:
            return False
        try:
            return canonical_json(parse_json(made)) != canonical_json(parse_json(body))
        except CanonicalError:
            return True

    def _numbered(self, number: int) -> set[str]:
        """Ids of the calls that are the so-and-so-many-th made in a named step itself, from 0."""
        own: defaultdict[str, list[str]] = defaultdict(list)
        for message in self._parent.messages:
            if message.step_id in self.addressed:
                own[message.step_id].append(message.id)
        return {ids[number] for ids in own.values() if number < len(ids)}

    def _tool_calls(self) -> Iterator[str]:
        change = self._change
        if change.kind not in _TOOL_KINDS:
            return
        names = {change.name} if change.kind != "refresh" else set(change.value)
        for step in self._parent.steps:
            if step.kind == "tool" and step.id in self.inside and step.name in names:
                yield step.id

    def around(self, step: StepRecord) -> Iterator[str]:
        """Ids of the steps around one."""
        at = step.parent_id
        while at is not None:
            yield at
            outer = self.by_id.get(at)
            at = outer.parent_id if outer else None

    def fresh(self) -> frozenset[str]:
        """Ids of the calls from the first difference on, without those of steps that were under way beside it."""
        first = self.first
        if first is None:
            return frozenset()
        start = first.seq if self.effect is None else self.effect
        outer = {first.id, *self.around(first)}
        earlier = {step.id for step in self._parent.steps if step.seq < start and step.id not in outer}
        beside = frozenset(below(self._parent.steps, earlier))
        return frozenset(
            message.id for message in self._parent.messages if message.seq >= start and message.step_id not in beside
        )

    def _direct(self) -> frozenset[str]:
        if self._change.kind == "prompt":
            return frozenset(prompt_users(self._parent, self._change.name) & self.touched)
        if self.calls:
            return frozenset(outer for call in self.calls if (outer := self.by_id[call].parent_id) is not None)
        parents = {self.by_id[one].parent_id for one in self.touched if one in self.by_id}
        return frozenset(self.addressed | {one for one in self.touched if one not in parents})

    def _effect(self) -> int | None:
        if self.calls:
            return min(self.by_id[call].seq for call in self.calls)
        if self._change.kind in REQUEST_KINDS:
            return min((message.seq for message in self._parent.messages if self.alters(message)), default=None)
        return min((self.by_id[one].seq for one in self.direct if one in self.by_id), default=None)


def below(steps: Iterable[StepRecord], tops: AbstractSet[str]) -> Iterator[str]:
    """Ids of these steps and all inside them; steps come in order of start, so that parents come first."""
    found = set(tops)
    yield from tops
    for step in steps:
        if step.parent_id in found and step.id not in found:
            found.add(step.id)
            yield step.id
