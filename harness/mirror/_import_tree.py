"""The shape of an imported trace: who belongs to whom, and in which order things began."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.mirror._observation import Observation

MESSAGES = frozenset({"GENERATION", "EMBEDDING"})
"""Types that are model interactions; everything else is a unit of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A trace put in order."""

    order: tuple[Observation, ...]
    """Parents before their children, else by start."""
    steps: Mapping[str, str | None]
    """By id: the nearest enclosing observation that is a step; ``None`` where only the run itself encloses it."""
    root: Observation | None
    """The one observation that stands for the run; ``None`` when there is none or there are several."""
    tops: tuple[Observation, ...]
    """Observations that nothing in the trace encloses, by start."""


def arrange(observations: Iterable[Observation]) -> Tree:
    """Put the observations of one trace in order, whatever their parents say.

    A parent that is not there, or that is its own descendant, is none: its children hang from the run.
    """
    known = {one.id: one for one in observations}
    parents = _parents(known)
    tops = sorted((known[i] for i, parent in parents.items() if parent is None), key=_began)
    roots = [one for one in tops if one.root]
    root = roots[0] if len(roots) == 1 and roots[0].type not in MESSAGES else None
    order = _in_order(known, parents, first=root)
    steps: dict[str, str | None] = {}
    for one in order:
        above = parents[one.id]
        steps[one.id] = steps[above] if above is not None and known[above].type in MESSAGES else above
    return Tree(order=order, steps=steps, root=root, tops=tuple(tops))


def _began(one: Observation) -> tuple[float, str]:
    return one.start.timestamp() if one.rank is None else one.rank, one.id


def _parents(known: Mapping[str, Observation]) -> dict[str, str | None]:
    """The parent of each, without those that are absent and without cycles, which are cut at their earliest."""
    parents = {i: one.parent_id if one.parent_id in known else None for i, one in known.items()}
    settled: set[str] = set()
    for one in sorted(known.values(), key=_began):
        path: list[str] = []
        places: dict[str, int] = {}
        at: str | None = one.id
        while at is not None and at not in settled:
            if at in places:
                circle = path[places[at] :]
                parents[min(circle, key=lambda i: _began(known[i]))] = None
                break
            places[at] = len(path)
            path.append(at)
            at = parents[at]
        settled.update(path)
    return parents


def _in_order(
    known: Mapping[str, Observation], parents: Mapping[str, str | None], *, first: Observation | None
) -> tuple[Observation, ...]:
    children: defaultdict[str | None, list[Observation]] = defaultdict(list)
    for identifier, parent in parents.items():
        children[parent].append(known[identifier])
    if first is not None:
        # What the root does not enclose still begins after it: the root is the run.
        children[first.id] += [one for one in children.pop(None) if one is not first]
        children[None] = [first]
    waiting = [(_began(one), one) for one in children[None]]
    heapq.heapify(waiting)
    order: list[Observation] = []
    while waiting:
        _, one = heapq.heappop(waiting)
        order.append(one)
        for child in children[one.id]:
            heapq.heappush(waiting, (_began(child), child))
    return tuple(order)
