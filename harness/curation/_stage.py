"""From a run in the store to a case that waits for approval, proved by replaying it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.dataset import Case, GoldenDataset, RecordingRef
from harness.errors import DatasetError, DatasetMissing
from harness.pipeline import plain
from harness.record import RECORDED, Recording, RecordingSource
from harness.replay import Place, ReplayOptions, RunOutcome, load_target, replay_run

_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_UNSET = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a person says about the case that is to be made; all of it may be edited in the file later."""

    id: str = ""
    """File name of the case; made from workflow and run id when empty."""
    expected_output: Any = _UNSET
    """What is right; the run's own output when not given."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    split: str = "test"
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A case that was staged."""

    case: Case
    proven: bool
    """Replaying the case's files gave the recorded output without a provider."""
    reason: str
    """Why it is not proven; empty when it is."""


def stage(store: RecordingSource, run: str, dataset: GoldenDataset, *, draft: Draft | None = None) -> Staged:
    """Make a run a staged case of a dataset, with its recording, and replay it once as proof.

    A fork is a whole recording and becomes a case like any other run; its proof needs its change in the code.

    Args:
        store: Where the run is.
        run: Its id, or a workflow's name for its newest good run.
        dataset: Where the case goes; an approved case is never overwritten.
        draft: Id, expectation, tags and the like.

    Raises:
        DatasetMissing: There is no such run.
        DatasetError: The run is unfinished, was not fully recorded, its input cannot be read, or an approved case
            has that id.
        TargetError: The dataset's target cannot be imported.
    """
    draft = draft or Draft()
    recording = _usable(store, run)
    case_id = draft.id or _default_id(recording)
    _refuse_approved(dataset, case_id)
    target = load_target(dataset.target) if dataset.target else None
    case = _case(case_id, recording, draft)
    ref = RecordingRef(arm=RECORDED, trial=0, digest=dataset.write_recording(recording))
    # What is replayed is what the files hold, not what the store does.
    reason = _doubt(dataset.read_recording(ref.digest), target, case_id)
    proof = {"proven": not reason, **({"unproven_because": reason} if reason else {})}
    case = case.model_copy(update={"recordings": (ref,), "provenance": {**case.provenance, **proof}})
    dataset.put_case(case)
    return Staged(case=case, proven=not reason, reason=reason)


def _usable(store: RecordingSource, run: str) -> Recording:
    recording = store.recording(run)
    if recording is None:
        raise DatasetMissing(f"there is no run {run!r}; `goldfork run list` shows what the store holds")
    record = recording.run
    if record.status in {"running", "interrupted"}:
        raise DatasetError(f"run {record.id!r} is {record.status}; only a finished run can become a case")
    if not record.usable:
        raise DatasetError(f"run {record.id!r} was not stored completely; run it again to make it a case")
    if record.input_hash is None:
        raise DatasetError(
            f"run {record.id!r} has no input that can be read again; register a codec for its type, or pass JSON values"
        )
    return recording


def _refuse_approved(dataset: GoldenDataset, case_id: str) -> None:
    try:
        known = dataset.case(case_id)
    except DatasetMissing:
        return
    if not known.staged:
        raise DatasetError(
            f"case {case_id!r} of {dataset.name!r} is approved by {known.approver!r}; choose another id with --id"
        )


def _case(case_id: str, recording: Recording, draft: Draft) -> Case:
    run = recording.run
    expected = draft.expected_output
    if expected is _UNSET:
        expected = plain(recording.read(run.output_hash)) if run.output_hash else None
    try:
        return Case(
            id=case_id,
            input=plain(recording.read(run.input_hash)) if run.input_hash else None,
            expected_output=expected,
            metadata=dict(draft.metadata),
            tags=draft.tags or run.tags,
            split=draft.split,
            group=draft.group,
            provenance=provenance_of(recording),
        )
    except ValueError as error:
        raise DatasetError(f"case {case_id!r}: {_first(error)}") from error


def provenance_of(recording: Recording) -> dict[str, Any]:
    """Where a case came from, as its file says it."""
    run = recording.run
    known = {
        "run": run.id,
        "workflow": run.workflow,
        "recorded_at": run.started_at.isoformat(),
        "fidelity": run.fidelity,
        "code_version": run.code_version,
        "parent_run": run.parent_run_id,
        "change": dict(run.change) if run.change else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _doubt(recording: Recording, target: Callable[..., Any] | None, case_id: str) -> str:
    """Why the case is not proven; empty when a replay of its recording gave the recorded outcome."""
    if recording.run.fidelity == "imported":
        return "the run was imported; `goldfork dataset rerecord` makes it replayable"
    if target is None:
        return "dataset.toml names no target to replay it with"
    outcome = replay_run(recording, target=target, options=ReplayOptions(place=Place(case=case_id)))
    return difference(outcome, recording)


def difference(outcome: RunOutcome, recording: Recording) -> str:
    """What a replay did otherwise than its recording; empty when nothing."""
    if outcome.misses:
        return f"its replay misses something: {outcome.misses[0]}"
    run = recording.run
    if run.status == "ok" and outcome.error is not None:
        return f"its replay failed: {outcome.error}"
    if run.status == "error":
        return "" if outcome.error is not None else "it failed when it was recorded and does not in its replay"
    if outcome.diff.output_equal:
        return ""
    where = outcome.diff.first_divergence
    return f"its replay gave another output{f', from step {where!r} on' if where else ''}"


def _default_id(recording: Recording) -> str:
    word = _OTHER.sub("-", recording.run.workflow).strip("-_") or "case"
    return f"{word[:60]}-{recording.run.id[-8:]}"


def _first(error: ValueError) -> str:
    lines = str(error).splitlines()
    return lines[2].strip() if len(lines) > 2 else str(error)
