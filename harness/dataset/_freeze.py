"""Freezing a version: edits re-addressed, staged cases approved, leftovers removed, digest written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from harness.dataset import _manifest
from harness.dataset._files import MANIFEST, DatasetFiles, recording_file
from harness.dataset._recording import decode, digest_of
from harness.dataset._verify import CONTENTS, Survey, contents, contents_digest, write_contents
from harness.errors import DatasetError
from harness.record import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What freezing did."""

    version: int
    """The version that holds now."""
    digest: str
    created: bool
    """False when nothing had changed since that version."""
    cases: int
    """How many cases the version holds."""
    approved: tuple[str, ...] = ()
    """Cases approved on this occasion."""
    readdressed: tuple[str, ...] = ()
    """Edited recordings that got a new digest, one sentence each."""
    removed: tuple[str, ...] = ()
    """Files that no case led to."""


def freeze(
    dataset: DatasetFiles,
    *,
    approve: str | None = None,
    note: str = "",
    accepted: Mapping[str, int] | None = None,
    today: date | None = None,
) -> Frozen:
    """Make the approved cases and their recordings a new version, unless nothing changed.

    Args:
        dataset: The dataset; it is reloaded before and after.
        approve: Who approves all staged cases now; ``None`` leaves them staged and outside the version.
        note: One line for the history.
        accepted: Redaction findings that a person accepted, by kind; kept in the history.
        today: Date of the version; today's in UTC when absent.

    Raises:
        DatasetError: A file cannot be read, or content is missing; nothing is frozen.
    """
    moved = readdress(dataset)
    survey = Survey(dataset.folder)
    if survey.problems:
        raise DatasetError(f"dataset {dataset.name!r} cannot be frozen: {survey.problems[0]}")
    cases = sorted(survey.cases, key=lambda case: case.id)
    approved = tuple(case.id for case in cases if case.staged) if approve else ()
    if approve:
        cases = [case.model_copy(update={"approver": approve}) if case.staged else case for case in cases]
        for case in cases:
            if case.id in approved:
                dataset.put_case(case)
    listed = contents(dataset.table, cases)
    if not listed["cases"]:
        raise DatasetError(
            f"dataset {dataset.name!r} has no approved case to freeze; "
            f"approve the {len(cases)} staged ones with --approve, or add some with `goldfork dataset add`"
        )
    removed = tuple(survey.orphan_files())
    for name in removed:
        dataset.folder.remove(name)
    digest = contents_digest(listed)
    created = digest != dataset.digest or dataset.version == 0
    if created:
        entry = _manifest.Version(
            version=dataset.version + 1,
            digest=digest,
            date=today or datetime.now(UTC).date(),
            note=note,
            cases=len(listed["cases"]),
            accepted_findings=dict(accepted or {}),
        )
        text = _manifest.with_version(dataset.folder.read(MANIFEST), entry)
        write_contents(dataset.folder, listed)
        dataset.folder.write(MANIFEST, text)
    elif not dataset.folder.exists(CONTENTS):
        write_contents(dataset.folder, listed)
    dataset.write_support()
    dataset.reload()
    return Frozen(
        version=dataset.version,
        digest=digest,
        created=created,
        cases=len(listed["cases"]),
        approved=approved,
        readdressed=moved,
        removed=removed,
    )


def unchanged(dataset: DatasetFiles, *, approve: bool) -> bool:
    """Whether ``freeze`` would find nothing new; False as well when it cannot tell."""
    survey = Survey(dataset.folder)
    if survey.problems or dataset.version == 0 or (approve and any(case.staged for case in survey.cases)):
        return False
    return contents_digest(contents(dataset.table, survey.cases)) == dataset.digest


def readdress(dataset: DatasetFiles) -> tuple[str, ...]:
    """Give every edited recording its new digest as name, and tell the cases; one sentence for each.

    Raises:
        DatasetError: An edited file is no longer a recording.
    """
    dataset.reload()
    moved: list[str] = []
    for case in (*dataset.cases, *dataset.staged):
        refs = []
        for ref in case.recordings:
            digest = _current(dataset, ref.digest)
            if digest != ref.digest:
                moved.append(
                    f"recording of case {case.id!r}, arm {ref.arm!r}, trial {ref.trial} was edited: "
                    f"{ref.digest[:12]} is now {digest[:12]}"
                )
            refs.append(ref.model_copy(update={"digest": digest}))
        if tuple(refs) != case.recordings:
            dataset.put_case(case.model_copy(update={"recordings": tuple(refs)}))
    return tuple(moved)


def _current(dataset: DatasetFiles, digest: Hash) -> Hash:
    """The digest of the file as it is, after writing it under that name.

    The file under the old name is left for ``freeze`` to remove: another case may refer to it.
    """
    name = recording_file(digest)
    if not dataset.folder.exists(name):
        return digest
    data = dataset.folder.read(name)
    found = digest_of(data)
    if found != digest:
        decode(data, name, read_part=dataset.folder.read)
        dataset.folder.write(recording_file(found), data)
    return found
