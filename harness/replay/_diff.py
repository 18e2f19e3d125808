"""Comparing a run with its parent: hashes first, content only where they differ."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.canonical import canonical_json
from harness.pipeline import plain
from harness.record import Hash, Recording, StepRecord
from harness.replay._values import RunDiff, StepDiff, StepWord, ValueChange


def compare(run: Recording, parent: Recording | None) -> RunDiff:
    """The trajectory of a run beside its parent's.

    Steps are paired by scope, name and occurrence (for tools: the place among that tool's calls).
    """
    ours, theirs = _numbered(run.steps), _numbered(parent.steps if parent else ())
    diffs = list(_merged(ours, theirs, compared=parent is not None))
    first = next((diff.address for diff in diffs if parent is not None and _differs(diff)), None)
    equal = None
    if parent is not None and run.run.output_hash and parent.run.output_hash:
        equal = run.run.output_hash == parent.run.output_hash
    if equal is False and first is None:
        # Every step agrees, so the workflow's own body makes the difference.
        first = run.run.workflow
    output: tuple[ValueChange, ...] = ()
    if equal is False and parent is not None:
        output = tuple(value_changes(content(parent, parent.run.output_hash), content(run, run.run.output_hash)))
    return RunDiff(steps=tuple(diffs), first_divergence=first, output_equal=equal, output=output)


def content(recording: Recording, digest: Hash | None) -> Any:
    """A snapshot of a recording as plain JSON values; ``None`` when there is none."""
    return None if digest is None else plain(recording.read(digest))


def value_changes(before: Any, after: Any, path: str = "$") -> Iterator[ValueChange]:
    """Every place where two JSON values differ, by JSON path."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _entry(before, after, key, f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            left = before[index : index + 1]
            right = after[index : index + 1]
            where = f"{path}[{index}]"
            if left and right:
                yield from value_changes(left[0], right[0], where)
            elif left:
                yield ValueChange(path=where, kind="removed", before=left[0], after=None)
            else:
                yield ValueChange(path=where, kind="added", before=None, after=right[0])
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            same_words = _SPACE.sub(" ", before).strip() == _SPACE.sub(" ", after).strip()
            yield ValueChange(path=path, kind="formatting" if same_words else "text", before=before, after=after)
    elif canonical_json(before) != canonical_json(after):
        yield ValueChange(path=path, kind="value", before=before, after=after)


_SPACE = re.compile(r"\s+")


def _entry(before: Mapping[str, Any], after: Mapping[str, Any], key: str, path: str) -> Iterator[ValueChange]:
    if key not in after:
        yield ValueChange(path=path, kind="removed", before=before[key], after=None)
    elif key not in before:
        yield ValueChange(path=path, kind="added", before=None, after=after[key])
    else:
        yield from value_changes(before[key], after[key], path)


Place = tuple[str, str, int]


def _numbered(steps: Iterable[StepRecord]) -> dict[Place, StepRecord]:
    """Steps by scope, name and occurrence, the root left out.

    A tool's own occurrence counts equal calls; for pairing it is its place among all calls of that tool there.
    """
    tools: defaultdict[tuple[str, str], int] = defaultdict(int)
    placed: dict[Place, StepRecord] = {}
    for step in steps:
        if step.parent_id is None:
            continue
        number = step.occurrence
        if step.kind == "tool":
            number = tools[step.scope, step.name]
            tools[step.scope, step.name] += 1
        placed[step.scope, step.name, number] = step
    return placed


def _merged(
    ours: Mapping[Place, StepRecord], theirs: Mapping[Place, StepRecord], *, compared: bool
) -> Iterator[StepDiff]:
    """All steps in order of start, each removed one where the parent had it.

    The runs' numbers drift apart where they differ, so a removed step's place is told by its neighbours that both
    runs have.
    """
    removed = deque(sorted((s for place, s in theirs.items() if place not in ours), key=lambda step: step.seq))
    for place, step in ours.items():
        other = theirs.get(place)
        before = (other or step).seq
        while removed and removed[0].seq <= before:
            yield _removed(removed.popleft())
        yield _pair(step, other, compared=compared)
    yield from map(_removed, removed)


def _pair(step: StepRecord, other: StepRecord | None, *, compared: bool) -> StepDiff:
    state: StepWord = "added" if compared and other is None else step.state
    equal = None
    if other is not None and step.output_hash and other.output_hash:
        equal = step.output_hash == other.output_hash
    elif other is not None and step.status != other.status:
        equal = False
    return StepDiff(
        key=step.key,
        name=step.name,
        scope=step.scope,
        occurrence=step.occurrence,
        kind=step.kind,
        state=state,
        input_hash=step.input_hash,
        output_hash=step.output_hash,
        parent_output_hash=other.output_hash if other else None,
        equal=equal,
    )


def _removed(step: StepRecord) -> StepDiff:
    return StepDiff(
        key=step.key,
        name=step.name,
        scope=step.scope,
        occurrence=step.occurrence,
        kind=step.kind,
        state="removed",
        input_hash=step.input_hash,
        output_hash=None,
        parent_output_hash=step.output_hash,
        equal=None,
    )


def _differs(diff: StepDiff) -> bool:
    return diff.equal is False or diff.state in {"added", "removed"}


def drift(run: Recording, parents: Sequence[Recording]) -> tuple[str, ...]:
    """Served models and fingerprints of fresh calls that no recording of the parents shows."""
    known = {(m.model, m.model_served, m.system_fingerprint) for p in parents for m in p.messages}
    asked = {model for model, _, _ in known}
    fresh = {
        (m.model, m.model_served, m.system_fingerprint)
        for m in run.messages
        if m.cache_state == "live" and m.model in asked
    }
    return tuple(
        f"{model}: served by {served} ({fingerprint})" for model, served, fingerprint in sorted(fresh - known, key=str)
    )
