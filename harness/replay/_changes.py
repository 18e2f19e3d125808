"""What two values, two steps or two sequences of tool calls differ in; read only where hashes differ."""

from __future__ import annotations

import bisect
import difflib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.canonical import canonical_json
from harness.errors import CanonicalError, DatasetMissing, StoreError
from harness.pipeline import plain
from harness.pipeline.adapter import member
from harness.record import Hash, Recording, StepRecord
from harness.replay._identity import Identity
from harness.replay._pairing import Pair
from harness.replay._values import Difference, ToolCallDiff, ValueChange

_PLACES = 50
"""Places of one difference that are kept."""
_MOST_PAIRS = 250_000
"""Pairs of items up to which lists are aligned; beyond, item stands for item by its place."""
_SPACE = re.compile(r"\s+")


def content(recording: Recording, digest: Hash | None) -> Any:
    """A snapshot of a recording as plain JSON values; ``None`` when there is none."""
    return None if digest is None else plain(recording.read(digest))


def value_changes(before: Any, after: Any, path: str = "$") -> Iterator[ValueChange]:
    """Every place where two JSON values differ, by JSON path (RFC 9535).

    Items of a list stand for each other where they are equal, so that one put in front of the others is one place. The
    path of a removed item is its place in ``before``, of all others in ``after``.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _entry(before, after, key, member(path, key))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _items(before, after, path)
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            same_words = _SPACE.sub(" ", before).strip() == _SPACE.sub(" ", after).strip()
            yield ValueChange(path=path, kind="formatting" if same_words else "text", before=before, after=after)
    elif canonical_json(before) != canonical_json(after):
        yield ValueChange(path=path, kind="value", before=before, after=after)


def _items(before: list[Any], after: list[Any], path: str) -> Iterator[ValueChange]:
    for old, new in _unequal(before, after):
        for left, right in itertools.zip_longest(old, new):
            if left is None:
                yield ValueChange(path=f"{path}[{right}]", kind="added", before=None, after=after[right])
            elif right is None:
                yield ValueChange(path=f"{path}[{left}]", kind="removed", before=before[left], after=None)
            else:
                yield from value_changes(before[left], after[right], f"{path}[{right}]")


def _unequal(before: list[Any], after: list[Any]) -> Iterator[tuple[range, range]]:
    """The stretches of two lists that lie between items which are equal in both, by their indexes."""
    old, new = ([canonical_json(item) for item in items] for items in (before, after))
    start = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    start = min(len(old), len(new)) if start is None else start
    # With equal ends set aside, what is left of a list that was changed in one place is short.
    most = min(len(old), len(new)) - start
    same = next((count for count in range(most) if old[-1 - count] != new[-1 - count]), most)
    old, new = old[start : len(old) - same], new[start : len(new) - same]
    if len(old) * len(new) > _MOST_PAIRS:
        yield range(start, start + len(old)), range(start, start + len(new))
        return
    for word, left, left_end, right, right_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if word != "equal":
            yield range(start + left, start + left_end), range(start + right, start + right_end)


def _entry(before: Mapping[str, Any], after: Mapping[str, Any], key: str, path: str) -> Iterator[ValueChange]:
    if key not in after:
        yield ValueChange(path=path, kind="removed", before=before[key], after=None)
    elif key not in before:
        yield ValueChange(path=path, kind="added", before=None, after=after[key])
    else:
        yield from value_changes(before[key], after[key], path)


def output_difference(parent: Recording, before: Hash | None, run: Recording, after: Hash | None) -> Difference:
    """What differs between two outputs whose hashes do; one of them may be unknown."""
    if before is None or after is None:
        lost = "could be recorded in the parent and cannot be serialised here"
        won = "can be recorded here and could not be serialised in the parent"
        return Difference(kind="serialisation", note=f"the output {lost if after is None else won}")
    try:
        old, new = content(parent, before), content(run, after)
    except (DatasetMissing, StoreError) as error:
        return Difference(kind="gone", note=f"the hashes differ; the content is no longer there: {error}")
    except CanonicalError as error:
        return Difference(kind="content", note=f"the contents differ and are not both JSON: {error}")
    changes = value_changes(old, new)
    places = tuple(itertools.islice(changes, _PLACES))
    more = list(changes)
    formatting = bool(places) and all(change.kind == "formatting" for change in (*places, *more))
    # Equal plain values under other hashes: a type or an order that JSON does not show.
    note = "" if places else "the same values in another form: a type or an order that JSON does not show"
    return Difference(kind="formatting" if formatting else "content", places=places, more=len(more), note=note)


def step_difference(
    ours: StepRecord, run: Recording, theirs: StepRecord, parent: Recording, *, identity: Identity
) -> Difference | None:
    """What differs between a step and its counterpart; ``None`` when nothing does, or nothing is known.

    What replies say about themselves (``identity``) is no difference.
    """
    if ours.status != theirs.status or ours.error != theirs.error:
        if (ours.status, theirs.status) == ("ok", "ok"):
            return None
        return Difference(kind="error", note=f"{_ended(theirs)} in the parent, {_ended(ours)} here")
    if ours.status != "ok" or ours.output_hash == theirs.output_hash:
        return None
    if identity.same(theirs.output_hash, ours.output_hash):
        return None
    return output_difference(parent, theirs.output_hash, run, ours.output_hash)


def _ended(step: StepRecord) -> str:
    return f"raised {step.error}" if step.status == "error" else f"ended {step.status}"


def tool_call_changes(
    found: Sequence[Pair], run: Recording, parent: Recording, *, identity: Identity
) -> Iterator[ToolCallDiff]:
    """Tool calls that differ by name, arguments or order; order counts within a scope alone."""
    ours = _places(mine for mine, _ in found if mine is not None)
    theirs = _places(sorted((other for _, other in found if other is not None), key=lambda step: step.seq))
    moved = _moved(found, theirs)
    for mine, other in found:
        step = mine or other
        if step is None or step.kind != "tool":
            continue
        kind, places = _call(mine, other, run, parent, identity=identity)
        if kind is None and mine is not None and mine.id in moved:
            kind = "order"
        if kind is not None:
            yield ToolCallDiff(
                name=step.name,
                scope=step.scope,
                kind=kind,  # type: ignore[arg-type]  # one of the literals, made just above
                before=None if other is None else theirs[other.id],
                after=None if mine is None else ours[mine.id],
                places=places,
            )


def _call(
    mine: StepRecord | None, other: StepRecord | None, run: Recording, parent: Recording, *, identity: Identity
) -> tuple[str | None, tuple[ValueChange, ...]]:
    before = _arguments(parent, other)
    after = _arguments(run, mine)
    if other is None:
        return "added", (ValueChange(path="$", kind="added", before=None, after=after),)
    if mine is None:
        return "removed", (ValueChange(path="$", kind="removed", before=before, after=None),)
    if mine.input_hash == other.input_hash or identity.same(other.input_hash, mine.input_hash):
        return None, ()
    return "arguments", tuple(itertools.islice(value_changes(before, after), _PLACES))


def _arguments(recording: Recording, step: StepRecord | None) -> Any:
    try:
        return None if step is None else content(recording, step.input_hash)
    except (DatasetMissing, StoreError, CanonicalError):
        return None


def _places(steps: Iterable[StepRecord]) -> dict[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    placed = {}
    for step in steps:
        if step.kind == "tool":
            placed[step.id] = counts[step.scope]
            counts[step.scope] += 1
    return placed


def _moved(found: Sequence[Pair], theirs: Mapping[str, int]) -> set[str]:
    """Ids of our calls that stand out of the parent's order: all but a longest run that keeps it, per scope."""
    scopes: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for mine, other in found:
        if mine is not None and other is not None and mine.kind == "tool":
            scopes[mine.scope].append((mine.id, theirs[other.id]))
    return {one for row in scopes.values() for one in _out_of_order(row)}


def _out_of_order(row: Sequence[tuple[str, int]]) -> set[str]:
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for index, (_, place) in enumerate(row):
        at = bisect.bisect_left(tails, place)
        tails[at : at + 1] = [place]
        ends[at : at + 1] = [index]
        back.append(ends[at - 1] if at else -1)
    kept: set[int] = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        kept.add(at)
        at = back[at]
    return {one for index, (one, _) in enumerate(row) if index not in kept}
