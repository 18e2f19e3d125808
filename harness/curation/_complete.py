"""Completing a forked run: what it reused from its parent is copied in, so that it can be replayed alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from harness.errors import DatasetError, DatasetMissing, StoreError
from harness.record import Hash, MessageRecord, Recording, RecordingSource, StepRecord, VolatileRecord

_DEPTH = 100
"""Longest line of forks of forks that is followed."""


def complete(recording: Recording, store: RecordingSource, *, depth: int = _DEPTH) -> Recording:
    """The recording with the insides of every reused step, taken from the run it was reused from.

    A fork skips bodies whose work is proved unchanged; their model calls stand in the parent only.

    Raises:
        DatasetError: The parent run is gone, or the line of forks is endless.
    """
    reused = [step for step in recording.steps if step.state == "reused" and step.reused_from]
    if not reused or recording.run.parent_run_id is None:
        return recording
    found = store.recording(recording.run.parent_run_id) if depth else None
    if found is None:
        raise DatasetError(
            f"run {recording.run.id!r} reuses steps of run {recording.run.parent_run_id!r}, which the store "
            "does not hold; record the run again"
        )
    parent = complete(found, store, depth=depth - 1)
    inner = [_Inside(parent, step) for step in reused]
    return _joined(recording, inner, parent)


class _Inside:
    """What happened in the parent below one reused step."""

    def __init__(self, parent: Recording, step: StepRecord) -> None:
        self.at = step.seq
        ids = _subtree(parent.steps, step.reused_from or "")
        path = f"{step.scope}/{step.name}" if step.scope else step.name
        self.steps = [
            dataclasses.replace(inner, parent_id=step.id if inner.parent_id == step.reused_from else inner.parent_id)
            for inner in parent.steps
            if inner.id in ids and inner.id != step.reused_from
        ]
        self.messages = [
            dataclasses.replace(message, step_id=step.id if message.step_id == step.reused_from else message.step_id)
            for message in parent.messages
            if message.step_id in ids
        ]
        self.volatile = [v for v in parent.volatile if v.scope == path or v.scope.startswith(f"{path}/")]


def _subtree(steps: tuple[StepRecord, ...], root: str) -> set[str]:
    """Ids of a step and of all below it; parents start before their children."""
    ids = {root}
    for step in steps:
        if step.parent_id in ids:
            ids.add(step.id)
    return ids


def _joined(recording: Recording, inner: list[_Inside], parent: Recording) -> Recording:
    """Everything in one run, in order of start, numbered anew."""
    run_id = recording.run.id
    entries: list[tuple[tuple[int, int], StepRecord | MessageRecord]] = [
        *(((step.seq, -1), step) for step in recording.steps),
        *(((message.seq, -1), message) for message in recording.messages),
    ]
    for inside in inner:
        entries += [((inside.at, step.seq), step) for step in inside.steps]
        entries += [((inside.at, message.seq), message) for message in inside.messages]
    entries.sort(key=lambda entry: entry[0])
    steps: list[StepRecord] = []
    messages: list[MessageRecord] = []
    for seq, (_, item) in enumerate(entries):
        if isinstance(item, StepRecord):
            steps.append(dataclasses.replace(item, seq=seq, run_id=run_id))
        else:
            messages.append(dataclasses.replace(item, seq=seq, run_id=run_id))
    return dataclasses.replace(
        recording,
        steps=tuple(steps),
        messages=tuple(messages),
        volatile=_volatile(recording, inner),
        read=_either(recording, parent),
    )


def _volatile(recording: Recording, inner: list[_Inside]) -> tuple[VolatileRecord, ...]:
    known: Mapping[tuple[str, str, int], VolatileRecord] = {
        (v.scope, v.name, v.occurrence): dataclasses.replace(v, run_id=recording.run.id)
        for v in (*(v for inside in inner for v in inside.volatile), *recording.volatile)
    }
    return tuple(known.values())


def _either(first: Recording, second: Recording) -> Callable[[Hash], bytes]:
    """Content of either recording."""

    def read(digest: Hash) -> bytes:
        try:
            return first.read(digest)
        except (DatasetMissing, StoreError):
            return second.read(digest)

    return read
