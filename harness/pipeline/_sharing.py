"""Whether an output is all its own, or holds an object that something else holds too.

Whoever is given the output of a skipped step is given a copy. Where the body handed on an object that lives elsewhere
as well (an element of an argument, a global, the same dict in two places), a change of the one is a change of the
other, which a copy does not repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from harness.pipeline._objects import fields_of, is_opaque
from harness.pipeline._snapshot import fixed

_GROUPS = (list, tuple, set, frozenset)
_MOST = 200_000
"""Objects looked at before it counts as not told."""


def is_shared(output: Any, others: Iterable[Any], reached: Iterable[Any]) -> bool:
    """Whether an output holds a changeable object twice, or one that is held elsewhere.

    Args:
        output: What a body returned.
        others: Where else it may be held, at any depth: the arguments.
        reached: Objects that the body reads, each for itself.
    """
    if fixed(output):
        return False
    own: dict[int, Any] = {}
    for value, again in _changeable(output):
        if again:
            return True
        own[id(value)] = value
    if not own:
        return False
    if len(own) > _MOST or any(id(value) in own for value in reached):
        return True
    seen: set[int] = set()
    return any(id(value) in own for other in others for value, _ in _changeable(other, seen))


def _changeable(root: Any, seen: set[int] | None = None) -> Iterator[tuple[Any, bool]]:
    """Every object below that can be changed, and whether it was met before."""
    seen = set() if seen is None else seen
    held: list[Any] = []
    waiting = [root]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if fixed(value) or isinstance(value, type | FunctionType | ModuleType | Enum) or is_opaque(kind):
            continue
        changes = kind is not tuple and kind is not frozenset
        if id(value) in seen:
            if changes:
                yield value, True
            continue
        seen.add(id(value))
        # What a property makes lives no longer than this walk would; its id must not be given to another.
        held.append(value)
        if changes:
            yield value, False
        if len(held) > _MOST:
            return
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, _GROUPS):
            waiting += value
        if kind not in _BUILT_IN:
            waiting += fields_of(value).values()


_BUILT_IN = frozenset({dict, list, tuple, set, frozenset})
