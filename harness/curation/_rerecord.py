"""Recordings made anew: a case's input run live, proved by a replay, and put in the old recording's place."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.canonical import RULES, parse_json
from harness.curation._stage import difference, provenance_of
from harness.dataset import Case, GoldenDataset, RecordingRef
from harness.errors import CanonicalError, DatasetError, DatasetMissing, LiveCallForbidden, TargetError, UsageError
from harness.pipeline import code_version
from harness.record import RECORDED, Recording
from harness.replay import Place, ReplayOptions, RunOutcome, live_run, load_target, replay_run
from harness.session import Sink

_REFUSED = (401, 403)
_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worn:
    """A case whose recordings should be renewed."""

    case: str
    why: str
    """``imported``, or the key rules that its recordings were made under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """A case that has new recordings; the next snapshot makes them part of a version."""

    case: str
    runs: tuple[str, ...]
    """Ids of the new runs, by trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A case that stays as it was."""

    case: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerecorded:
    """What became of each case that was to be renewed."""

    renewed: tuple[Renewed, ...] = ()
    failed: tuple[Left, ...] = ()


def worn_cases(dataset: GoldenDataset) -> tuple[Worn, ...]:
    """The cases whose recordings were imported, or were made under other key rules than today's, sorted by id.

    Raises:
        DatasetError: A case or the beginning of a recording cannot be read.
    """
    found = []
    for case in _cases(dataset):
        reasons = [reason for ref in _recorded(case) if (reason := _worn(dataset, ref))]
        if reasons:
            found.append(Worn(case=case.id, why=reasons[0]))
    return tuple(found)


def choose(dataset: GoldenDataset, *, imported: bool, cases: Sequence[str] = ()) -> tuple[str, ...]:
    """Ids of the cases to renew.

    Args:
        dataset: The dataset.
        imported: Only those whose recording was imported.
        cases: Only these; all when empty.

    Raises:
        DatasetMissing: There is no such case.
        UsageError: A case that was named is not imported.
    """
    wanted = [dataset.case(case_id).id for case_id in dict.fromkeys(cases)]
    if not imported:
        return tuple(wanted)
    known = [worn.case for worn in worn_cases(dataset) if worn.why == "imported"]
    for case_id in wanted:
        if case_id not in known:
            raise UsageError(f"case {case_id!r} of {dataset.name!r} is not imported; leave out --imported to renew it")
    return tuple(wanted or known)


def rerecord(
    dataset: GoldenDataset,
    cases: Sequence[str],
    *,
    target: str = "",
    sink: Sink | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Rerecorded:
    """Run the target afresh on the input of each case and put the new recording in place of the old.

    Side effects stay dry. The expected output, tags and approval of a case are kept; its provenance becomes that of
    the new run. A case whose run or replay fails stays as it was.

    Args:
        dataset: The dataset; cases are written, no version is frozen.
        cases: Ids of the cases.
        target: ``package.module:name``; the dataset's own when empty.
        sink: Where the new runs are recorded as well; nowhere by default.
        progress: Called before each case with its id, how many are done and how many there are.

    Raises:
        TargetError: There is no target, or it cannot be imported.
        LiveCallForbidden: The target calls a provider and there is no valid key; nothing is changed by that case.
        DatasetMissing: There is no such case.
    """
    function = _target(dataset, target)
    version = code_version(dataset.code) if dataset.code else None
    renewed: list[Renewed] = []
    failed: list[Left] = []
    for done, case_id in enumerate(cases):
        if progress is not None:
            progress(case_id, done, len(cases))
        made = _renew(dataset, dataset.case(case_id), function, sink, version)
        if isinstance(made, Left):
            failed.append(made)
        else:
            renewed.append(made)
    return Rerecorded(renewed=tuple(renewed), failed=tuple(failed))


def _renew(
    dataset: GoldenDataset, case: Case, target: Callable[..., Any], sink: Sink | None, version: str | None
) -> Renewed | Left:
    runs: list[Recording] = []
    for trial in _trials(case):
        place = Place(case=case.id, trial=trial, tags=case.tags)
        outcome = live_run(target, case.input, place=place, sink=sink, code_version=version)
        _refuse_keyless(outcome, case.id)
        reason = _doubt(dataset, outcome, target)
        if reason:
            return Left(case=case.id, reason=reason)
        runs.append(outcome.run)
    _attach(dataset, case, runs)
    return Renewed(case=case.id, runs=tuple(run.run.id for run in runs))


def _cases(dataset: GoldenDataset) -> list[Case]:
    return sorted((*dataset.cases, *dataset.staged), key=lambda case: case.id)


def _recorded(case: Case) -> list[RecordingRef]:
    return [ref for ref in case.recordings if ref.arm == RECORDED]


def _trials(case: Case) -> list[int]:
    """The trials that are recorded; the first one when none is."""
    return [ref.trial for ref in _recorded(case)] or [0]


def _worn(dataset: GoldenDataset, ref: RecordingRef) -> str:
    """Why a recording should be renewed, from its first line alone: the rest may be of rules not read any more."""
    name = f"recordings/{ref.digest}.jsonl"
    try:
        head = parse_json(dataset.folder.read(name).split(b"\n", 1)[0])
    except CanonicalError as error:
        raise DatasetError(f"{name} of {dataset.name!r} does not begin as a recording: {error}") from error
    if not isinstance(head, dict):
        raise DatasetError(f"{name} of {dataset.name!r} does not begin as a recording")
    run = head.get("run")
    if isinstance(run, dict) and run.get("fidelity") == "imported":
        return "imported"
    return "" if head.get("rules") == RULES else f"recorded under key rules {head.get('rules')!r}, not {RULES!r}"


def _target(dataset: GoldenDataset, target: str) -> Callable[..., Any]:
    ref = target or dataset.target
    if not ref:
        raise TargetError(
            f"dataset {dataset.name!r} names no target to run; say which with --target package.module:function"
        )
    try:
        return load_target(ref)
    except TargetError as error:
        if _KEY in str(error) and not os.environ.get(_KEY):
            # Clients are often built when the target is imported, and refuse to be without a key.
            raise LiveCallForbidden(f"target {ref!r} needs a provider key; set {_KEY}") from error
        raise


def _refuse_keyless(outcome: RunOutcome, case_id: str) -> None:
    """Without a valid key no case can be renewed, so one line ends it instead of a hundred failures."""
    kind, _, reason = (outcome.error or "").partition(": ")
    if kind == LiveCallForbidden.__name__:
        raise LiveCallForbidden(f"case {case_id!r}: {reason}")
    last = outcome.run.messages[-1] if outcome.run.messages else None
    refused = last is not None and last.answer is not None and last.answer.status in _REFUSED
    if outcome.status == "error" and (refused or kind == "OpenAIError"):
        line = " ".join(reason.split())[:200]
        raise LiveCallForbidden(f"case {case_id!r}: the provider wants a valid key ({line}); set {_KEY}")


def _doubt(dataset: GoldenDataset, outcome: RunOutcome, target: Callable[..., Any]) -> str:
    """Why a fresh run cannot serve as the recording; empty when a replay of its files gave the same output."""
    record = outcome.run.run
    if outcome.error is not None:
        return f"its new run failed: {outcome.error}"
    if not record.usable or record.status != "ok":
        return f"its new run {record.id!r} was not recorded completely"
    try:
        # What is replayed is what the files hold, not what memory does.
        recording = dataset.read_recording(dataset.write_recording(outcome.run))
    except (DatasetError, DatasetMissing) as error:
        return f"its new run {record.id!r} cannot be written: {error}"
    again = replay_run(
        recording, target=target, options=ReplayOptions(place=Place(case=record.case, trial=record.trial))
    )
    return difference(again, recording)


def _attach(dataset: GoldenDataset, case: Case, runs: Sequence[Recording]) -> None:
    fresh = [RecordingRef(arm=RECORDED, trial=run.run.trial, digest=dataset.write_recording(run)) for run in runs]
    kept = [ref for ref in case.recordings if ref.arm != RECORDED and not _worn(dataset, ref)]
    old = {name: case.provenance[name] for name in ("run", "fidelity", "recorded_at") if name in case.provenance}
    provenance = {**provenance_of(runs[0]), "proven": True, **({"renews": old} if old else {})}
    # Sorted as the case's own check would sort them: a copy is not checked.
    refs = tuple(sorted([*fresh, *kept], key=lambda ref: (ref.arm, ref.trial)))
    dataset.put_case(case.model_copy(update={"recordings": refs, "provenance": provenance}))
