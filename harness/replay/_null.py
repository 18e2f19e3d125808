"""The null replay: the current code with nothing changed, whose every difference is a change nobody declared."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from harness.errors import CanonicalError, DatasetMissing, StoreError, UndeclaredChange
from harness.record import Recording, StepRecord
from harness.replay._changes import content, value_changes
from harness.replay._effect import Reach
from harness.replay._resolver import ForkAnswers
from harness.replay._values import RunOutcome, StepDiff
from harness.session import Change, ToolCall

_NAMED = 3
"""Undeclared changes that an error names."""
_OBSTACLES = ("ToolUndeclared: ", "SideEffectBlocked: ")
"""Errors that stop any replay of the code, changed or not, and say so themselves."""

Again = Callable[[], RunOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class NullReplay:
    """What a replay of the current code without any change found."""

    undeclared: tuple[str, ...]
    """A sentence for each difference from the recording, causes before what follows from them; empty when the code
    gives what it gave."""

    def require_none(self, parent: Recording, change: Change) -> None:
        """Refuse a fork that would change more than it says.

        Raises:
            UndeclaredChange: It names up to three differences.
        """
        if not self.undeclared:
            return
        shown = "; ".join(text.rstrip(".") for text in self.undeclared[:_NAMED])
        more = len(self.undeclared) - _NAMED
        raise UndeclaredChange(
            f"the change of {change.kind} would not be the only one in the fork of run {parent.run.id}: without it, "
            f"{shown}{f'; and {more} more' if more > 0 else ''}; record the run again with this code, fork with "
            "change code, or allow it (--allow)",
            undeclared=self.undeclared,
        )


class NullAnswers(ForkAnswers):
    """As a fork's, with nothing changed: bodies that the fork may run are run, the rest is skipped with proof."""

    def __init__(self, parent: Recording, *, change: Change, same_code: bool) -> None:
        reach = Reach(parent, change)
        super().__init__(
            parent, change=change, same_code=same_code, arms=(), errors=True, running=_running(parent, reach)
        )

    def touches(self, call: ToolCall) -> bool:
        """Nothing is changed, so every recorded result holds."""
        del call
        return False


def _running(parent: Recording, reach: Reach) -> frozenset[str]:
    """Ids of the steps that a fork may run: those from the first one that the change reaches, and all around them."""
    reached = {*reach.direct, *reach.addressed}
    start = min((step.seq for step in parent.steps if step.id in reached), default=0)
    later = [step for step in parent.steps if step.seq >= start]
    return frozenset(one for step in later for one in (step.id, *reach.around(step)))


def look(outcome: RunOutcome, parent: Recording, again: Again) -> NullReplay:
    """Read a null replay.

    Args:
        outcome: It.
        parent: The recording that it replayed.
        again: Makes another one, to tell changed code from code that is never the same twice.
    """
    # A step that ended and differs came before what is missing, and may be why.
    found = [*_differing(outcome, parent), *_missing(outcome, parent)]
    if not found:
        swapped = _reordered(outcome, parent)
        # What runs side by side may start in any order; only one that comes out so again is the code's.
        if swapped is not None and _reordered(again(), parent) == swapped:
            first, second = swapped
            found.append(f"step {first!r} now starts before {second!r}, which came first when it was recorded")
        elif (left := _leaves_traces(outcome)) and _unsteady(outcome, other := again()):
            found.append(_carried_over(outcome, other, left))
    elif _unsteady(outcome, other := again()):
        found.insert(0, _how_unsteady(outcome, other))
    return NullReplay(undeclared=tuple(found))


def _missing(outcome: RunOutcome, parent: Recording) -> Iterator[str]:
    if parent.run.status in {"running", "interrupted"}:
        # It was recorded only so far; what comes after that is nobody's change.
        return
    error = outcome.error or ""
    for miss in outcome.misses:
        if not (error.startswith(_OBSTACLES) and miss in error):
            yield miss


def _differing(outcome: RunOutcome, parent: Recording) -> Iterator[str]:
    ended = not outcome.misses and parent.run.status not in {"running", "interrupted"}
    left = _left_over(outcome.run, parent)
    changed: defaultdict[str, list[str]] = defaultdict(list)
    for one in outcome.mutations:
        changed[one.step].append(str(one).removeprefix(f"step {one.step!r} "))
    for diff in _inner_first(outcome.diff.steps):
        if (diff.scope, diff.name) not in left:
            continue
        if diff.state in {"added", "removed"}:
            if ended:
                word = "is new" if diff.state == "added" else "was recorded and is not run any more"
                yield f"step {diff.address!r} {word}"
        elif diff.equal is False and (ended or diff.difference is None or diff.difference.kind != "error"):
            yield " and it ".join((_output(diff), *changed[diff.address]))
    ours, theirs = outcome.run.run, parent.run
    if ended and outcome.diff.output_equal is False and theirs.output_hash is not None:
        place = outcome.diff.output[0].path if outcome.diff.output else "$"
        yield (
            f"the workflow's output has hash {_short(ours.output_hash)}, recorded {_short(theirs.output_hash)} "
            f"(first at {place})"
        )
    elif ended and outcome.error is not None and theirs.status == "ok":
        yield f"the workflow raised {outcome.error}, recorded without an error"


def _output(diff: StepDiff) -> str:
    place = ""
    if diff.difference is not None:
        if diff.difference.kind == "error":
            return f"step {diff.address!r}: {diff.difference.note}"
        if diff.difference.places:
            place = f" (first at {diff.difference.places[0].path})"
    what = "tool" if diff.kind == "tool" else "step"
    return (
        f"the output of {what} {diff.address!r} has hash {_short(diff.output_hash)}, recorded "
        f"{_short(diff.parent_output_hash)}{place}"
    )


def _short(digest: str | None) -> str:
    return digest[:8] if digest else "unknown"


Gave = tuple[str, str, str, str, str]


def _gave(step: StepRecord) -> Gave:
    return step.scope, step.name, step.key, step.status, step.output_hash or ""


def _left_over(run: Recording, parent: Recording) -> set[tuple[str, str]]:
    """Scopes and names of steps without an equal counterpart: equal ones that ran side by side may have swapped."""
    ours = Counter(_gave(step) for step in run.steps if step.parent_id is not None)
    theirs = Counter(_gave(step) for step in parent.steps if step.parent_id is not None)
    return {gave[:2] for gave in (*(ours - theirs), *(theirs - ours))}


def _inner_first(diffs: Sequence[StepDiff]) -> Iterator[StepDiff]:
    """In the order in which they ended, so that a cause comes before what is around it or follows from it."""
    around: list[StepDiff] = []
    for diff in diffs:
        while around and not _inside(diff, around[-1]):
            yield around.pop()
        around.append(diff)
    yield from reversed(around)


def _inside(inner: StepDiff, outer: StepDiff) -> bool:
    path = f"{outer.scope}/{outer.name}" if outer.scope else outer.name
    return inner.scope == path or inner.scope.startswith(f"{path}/")


def _reordered(outcome: RunOutcome, parent: Recording) -> tuple[str, str] | None:
    """The first two steps that stood one after the other in the recording and now start the other way round."""
    places: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for step in outcome.run.steps:
        # Tools count with their steps.
        if step.kind != "tool" and step.id not in outcome.beside:
            places[step.scope, step.name, step.key].append(step.seq)
    before: StepRecord | None = None
    at = -1
    for step in sorted(parent.steps, key=lambda step: step.seq):
        if step.parent_id is None or not (own := places[step.scope, step.name, step.key]):
            continue
        now = own.pop(0)
        one_after_the_other = before is not None and (
            before.started_at + timedelta(milliseconds=before.duration_ms or 0) <= step.started_at
        )
        if before is not None and one_after_the_other and now < at:
            return step.address, before.address
        before, at = step, now
    return None


def _unsteady(first: RunOutcome, second: RunOutcome) -> bool:
    return _shape(first.run) != _shape(second.run) or first.run.run.output_hash != second.run.run.output_hash


def _shape(run: Recording) -> Counter[Gave]:
    return Counter(_gave(step) for step in run.steps)


def _how_unsteady(first: RunOutcome, second: RunOutcome) -> str:
    ours, theirs = _shape(first.run), _shape(second.run)
    one = next((step for step in first.run.steps if _gave(step) in ours - theirs and step.parent_id is not None), None)
    if one is None:
        hashes = _short(first.run.run.output_hash), _short(second.run.run.output_hash)
        return (
            f"two replays of the same code give outputs {hashes[0]} and {hashes[1]}: the workflow is not deterministic"
        )
    partner = next(
        (s for s in second.run.steps if (s.scope, s.name) == (one.scope, one.name) and _gave(s) in theirs - ours), None
    )
    other = "it is not run at all"
    if partner is not None:
        other = f"{_hashes(partner)}{_first_place(first.run, one, second.run, partner)}"
    return (
        f"two replays of the same code differ at step {one.address!r} ({_hashes(one)}, then {other}), so it is not "
        "deterministic: take clocks, ids and chance from harness.now(), uuid() or random()"
    )


def _leaves_traces(outcome: RunOutcome) -> list[str]:
    """Addresses of the steps that ran and changed something outside themselves, such as a module-level list."""
    return [step.address for step in outcome.run.steps if step.mutated and step.state == "run" and step.kind != "tool"]


def _carried_over(first: RunOutcome, second: RunOutcome, left: Sequence[str]) -> str:
    ours, theirs = _shape(first.run), _shape(second.run)
    ended = sorted(
        (step for step in first.run.steps if _gave(step) in ours - theirs and step.parent_id is not None),
        key=lambda step: step.started_at + timedelta(milliseconds=step.duration_ms or 0),
    )
    where = f"step {ended[0].address!r}" if ended else "the workflow"
    return (
        f"{where} gives something else when the same process runs it again, because of what "
        f"{', '.join(map(repr, left))} left behind: state that one run leaves to the next is no part of a recording; "
        "pass it as an argument"
    )


def _first_place(run: Recording, step: StepRecord, other: Recording, partner: StepRecord) -> str:
    """Which value of the step's input, or else of its output, is another one."""
    side = "input" if step.input_hash != partner.input_hash else "output"
    before, after = (getattr(one, f"{side}_hash") for one in (step, partner))
    try:
        places = value_changes(content(run, before), content(other, after))
        return "".join(f", first at {place.path} of the {side}" for place in itertools.islice(places, 1))
    except (DatasetMissing, StoreError, CanonicalError):
        return ""


def _hashes(step: StepRecord) -> str:
    return f"input {_short(step.input_hash)}, output {_short(step.output_hash)}"
