"""What a body changed that was not its own: which argument, where in it, and the hashes before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.canonical import canonical_json, content_hash, from_canonical
from harness.pipeline._codec import without_tags
from harness.pipeline._places import member
from harness.pipeline._snapshot import Snapshot, snapshot
from harness.session import RunState

_MOST = 50
"""Findings kept of one run."""


def changed_arguments(
    arguments: Mapping[str, Any], before: Snapshot, after: Snapshot | None, run: RunState
) -> Iterator[dict[str, Any]]:
    """One finding for each argument that is no longer what it was.

    Args:
        arguments: They, as they are now.
        before: Snapshot of all of them when the body started.
        after: The same now; ``None`` when they can no longer be serialised.
        run: The run, whose credentials are starred out.
    """
    old = from_canonical(before.data)
    new = {} if after is None else from_canonical(after.data)
    for name, value in arguments.items():
        was = old.get(name)
        written = canonical_json(was)
        if after is None:
            alone = snapshot(value, run, ordered=False)
            data = None if alone is None else alone.data
        else:
            data = canonical_json(new.get(name))
        if data == written:
            continue
        place = "$" if data is None else _first_difference(without_tags(was), without_tags(from_canonical(data)))
        yield {
            "argument": name,
            "path": place,
            "before": content_hash(written),
            "after": None if data is None else content_hash(data),
        }


def note_mutation(run: RunState, step: str, finding: Mapping[str, Any]) -> None:
    """Keep a finding with the run, once; only the first ones, since a loop may make any number."""
    told = {"step": step, **finding}
    if len(run.mutations) < _MOST and told not in run.mutations:
        run.mutations.append(told)


def _first_difference(before: Any, after: Any, path: str = "$") -> str:
    """JSON path of the first place where two JSON values differ; ``$`` when that is a type or an order only."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            place = member(path, key)
            if key not in before or key not in after:
                return place
            if before[key] != after[key]:
                return _first_difference(before[key], after[key], place)
    elif isinstance(before, list) and isinstance(after, list):
        for index, (one, other) in enumerate(zip(before, after, strict=False)):
            if one != other:
                return _first_difference(one, other, f"{path}[{index}]")
        if len(before) != len(after):
            return f"{path}[{min(len(before), len(after))}]"
    return path
