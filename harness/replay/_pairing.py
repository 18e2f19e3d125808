"""Which step of a run stands for which of its parent's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from harness.record import StepRecord

Pair = tuple[StepRecord | None, StepRecord | None]
"""A step of the run and one of its parent; ``None`` where it has no counterpart."""


def pairs(ours: Sequence[StepRecord], theirs: Sequence[StepRecord]) -> list[Pair]:
    """Steps paired within one scope and name, in order of start, the roots left out.

    Equal content keys come first, so that a loop that drops or gains an entry leaves the others paired with
    themselves; what is left is paired by its place. The runs' numbers drift apart where they differ, so a removed
    step's place is told by its neighbours that both runs have.
    """
    partner: dict[str, StepRecord] = {}
    theirs_by = _grouped(theirs)
    for place, mine in _grouped(ours).items():
        partner.update(_matched(mine, theirs_by.get(place, [])))
    paired = {step.id for step in partner.values()}
    removed = sorted((s for s in theirs if s.parent_id is not None and s.id not in paired), key=lambda step: step.seq)
    return list(_merged([step for step in ours if step.parent_id is not None], partner, removed))


def _grouped(steps: Iterable[StepRecord]) -> dict[tuple[str, str, bool], list[StepRecord]]:
    groups: defaultdict[tuple[str, str, bool], list[StepRecord]] = defaultdict(list)
    for step in steps:
        if step.parent_id is not None:
            groups[step.scope, step.name, step.kind == "tool"].append(step)
    return groups


def _matched(ours: list[StepRecord], theirs: list[StepRecord]) -> Iterator[tuple[str, StepRecord]]:
    """Ids of our steps with their counterparts: same place and key, then key, then place, then order."""
    left, right = dict(enumerate(ours)), dict(enumerate(theirs))
    taken: list[tuple[int, int]] = [(k, k) for k in left if k in right and left[k].key == right[k].key]
    yield from _take(taken, left, right)
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    for k, step in right.items():
        by_key[step.key].append(k)
    taken = []
    for k, step in left.items():
        if by_key[step.key]:
            taken.append((k, by_key[step.key].pop(0)))
    yield from _take(taken, left, right)
    yield from _take([(k, k) for k in left if k in right], left, right)
    yield from _take(list(zip(left, right, strict=False)), left, right)


def _take(
    taken: list[tuple[int, int]], left: dict[int, StepRecord], right: dict[int, StepRecord]
) -> Iterator[tuple[str, StepRecord]]:
    for mine, other in taken:
        yield left.pop(mine).id, right.pop(other)


def _merged(ours: Iterable[StepRecord], partner: dict[str, StepRecord], removed: list[StepRecord]) -> Iterator[Pair]:
    waiting = iter(removed)
    gone = next(waiting, None)
    for step in ours:
        other = partner.get(step.id)
        before = (other or step).seq
        while gone is not None and gone.seq <= before:
            yield None, gone
            gone = next(waiting, None)
        yield step, other
    while gone is not None:
        yield None, gone
        gone = next(waiting, None)
