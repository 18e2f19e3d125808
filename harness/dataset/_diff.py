"""What differs between two states of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.dataset import _manifest
from harness.dataset._case import Case, case_dict
from harness.dataset._files import DatasetFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field that differs, of a case or of dataset.toml."""

    field: str
    """Dotted path, such as ``metadata.priority``."""
    before: Any
    """``None`` when it is new."""
    after: Any
    """``None`` when it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDiff:
    """The second dataset beside the first."""

    versions: tuple[int, int]
    digests: tuple[str, str]
    settings: tuple[FieldChange, ...]
    """Differences of dataset.toml."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, tuple[FieldChange, ...]]
    """By case id, recordings included."""

    @property
    def equal(self) -> bool:
        """Whether cases, recordings and settings are the same, whatever the version numbers."""
        return not (self.settings or self.added or self.removed or self.changed)


def diff(before: DatasetFiles, after: DatasetFiles) -> DatasetDiff:
    """Compare two datasets by meaning: staged cases count, versions and history do not."""
    old, new = _by_id(before), _by_id(after)
    pairs = {case_id: _changes(old[case_id], new[case_id]) for case_id in sorted(old.keys() & new.keys())}
    return DatasetDiff(
        versions=(before.version, after.version),
        digests=(before.digest, after.digest),
        settings=_changes(_manifest.meaning(before.table), _manifest.meaning(after.table)),
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed={case_id: changes for case_id, changes in pairs.items() if changes},
    )


def _by_id(dataset: DatasetFiles) -> dict[str, dict[str, Any]]:
    return {case.id: _flat_recordings(case) for case in (*dataset.cases, *dataset.staged)}


def _flat_recordings(case: Case) -> dict[str, Any]:
    """The case with its recordings by arm and trial, so that one new recording is one change."""
    recordings = {f"{ref.arm}/{ref.trial}": ref.digest for ref in case.recordings}
    return {**case_dict(case), "recordings": recordings}


def _changes(before: Any, after: Any, path: str = "") -> tuple[FieldChange, ...]:
    if type(before) is type(after) and before == after:
        return ()
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return (FieldChange(field=path, before=before, after=after),)
    found: list[FieldChange] = []
    for key in sorted(before.keys() | after.keys()):
        name = f"{path}.{key}" if path else str(key)
        found.extend(_changes(before.get(key), after.get(key), name))
    return tuple(found)
