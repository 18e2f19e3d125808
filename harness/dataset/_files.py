"""The files of one dataset: settings, cases, recordings and baseline, read and written."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from harness.dataset import _manifest
from harness.dataset._case import (
    SCHEMA_NAME,
    Case,
    EvaluatorSpec,
    Gate,
    RecordingRef,
    case_schema,
    checked_name,
    read_case,
    same_names,
    write_case,
)
from harness.dataset._folder import Folder
from harness.dataset._json import pretty_json, read_json
from harness.dataset._recording import decode, digest_of, encode
from harness.errors import DatasetEdited, DatasetError, DatasetMissing
from harness.record import RECORDED, Hash, Recording
from harness.settings import Price

MANIFEST = "dataset.toml"
BASELINE = "baseline.json"
_GIT = b"""\
cases/*.json text eol=lf
recordings/*.jsonl -text linguist-generated=true
recordings/*.part binary linguist-generated=true
schema/*.json text eol=lf linguist-generated=true
"""


class DatasetFiles:
    """A dataset's folder, whatever its version.

    Reading never leaves the folder. Cases are cached until one is written through this object.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._cases: dict[str, Case] | None = None
        self._read_manifest()

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Open a dataset's folder.

        Raises:
            DatasetMissing: There is no such folder, or it has no dataset.toml.
            DatasetError: dataset.toml is malformed.
        """
        return cls(Folder(Path(path)))

    @classmethod
    def create(cls, path: Path | str, *, target: str, code: str = "") -> Self:
        """Make the folder of a new dataset, named as the folder.

        Raises:
            DatasetError: A dataset is there already, or the folder's name is not a dataset name.
        """
        path = Path(path)
        try:
            name = checked_name(path.absolute().name)
        except ValueError as error:
            raise DatasetError(f"dataset {str(path)!r}: {error}") from None
        path.mkdir(parents=True, exist_ok=True)
        folder = Folder(path)
        if folder.exists(MANIFEST):
            raise DatasetError(f"there is a dataset in {str(path)!r} already")
        folder.write(MANIFEST, _manifest.template(name=name, target=target, code=code))
        made = cls(folder)
        made.write_support()
        return made

    # What dataset.toml says

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.root

    @property
    def where(self) -> str:
        """The folder as a person may type it: relative to the current one where it lies below it."""
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.manifest.name

    @property
    def version(self) -> int:
        """The last frozen version, 0 before the first."""
        return self.manifest.version

    @property
    def digest(self) -> str:
        """What the last frozen version contained; empty before the first."""
        return self.manifest.digest

    @property
    def target(self) -> str:
        """``package.module:name`` of what is evaluated."""
        return self.manifest.target

    @property
    def code(self) -> str:
        """The package whose source tree is the code version."""
        return self.manifest.code

    @property
    def trials(self) -> int:
        """Recorded repetitions per case."""
        return self.manifest.trials

    @property
    def evaluators(self) -> tuple[EvaluatorSpec, ...]:
        """The evaluators that score it, in the file's order."""
        return self.manifest.evaluators

    @property
    def gate(self) -> Gate:
        """What decides the exit code."""
        return self.manifest.gate

    @property
    def margins(self) -> dict[str, float]:
        """Differences too small to matter, by score name."""
        return self.manifest.margins

    @property
    def prices(self) -> dict[str, Price]:
        """Price per model name, over the settings'."""
        return self.manifest.prices

    @property
    def licence(self) -> str:
        """Licence of the data."""
        return self.manifest.licence

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the data came from, as written by hand."""
        return self.manifest.provenance

    # Cases

    @property
    def cases(self) -> tuple[Case, ...]:
        """The approved cases, sorted by id.

        Raises:
            DatasetError: A case file is malformed.
        """
        return tuple(case for case in self._all().values() if not case.staged)

    @property
    def staged(self) -> tuple[Case, ...]:
        """The cases that wait for approval, sorted by id."""
        return tuple(case for case in self._all().values() if case.staged)

    def case(self, case_id: str) -> Case:
        """One case, approved or staged.

        Raises:
            DatasetMissing: There is no such case.
        """
        try:
            return self._all()[case_id]
        except KeyError:
            raise DatasetMissing(
                f"dataset {self.name!r} has no case {case_id!r}; `goldfork dataset show {self.where}` lists them"
            ) from None

    def put_case(self, case: Case) -> None:
        """Write a case file, new or changed; the next snapshot makes it part of a version.

        Raises:
            DatasetError: Another case's id differs only in case, or the input has no JSON form.
        """
        with self._lock:
            clash = same_names([*self._all(), case.id])
            if clash:
                raise DatasetError(f"case {case.id!r} would share its file with {clash[0][0]!r} on some systems")
            self.folder.write(case_file(case.id), write_case(case))
            self._cases = dict(sorted({**(self._cases or {}), case.id: case}.items()))

    # Recordings

    def arms(self, case_id: str) -> tuple[RecordingRef, ...]:
        """The recordings of a case, by arm and trial."""
        return self.case(case_id).recordings

    def recording(self, ref: str, *, arm: str = RECORDED, trial: int = 0) -> Recording | None:
        """The recording of a case under one arm and trial, or ``None``.

        Raises:
            DatasetMissing: There is no such case, or the recording's file is gone.
            DatasetEdited: The file is not the one that the case names.
        """
        for known in self.arms(ref):
            if (known.arm, known.trial) == (arm, trial):
                return self.read_recording(known.digest)
        return None

    def read_recording(self, digest: Hash) -> Recording:
        """A recording by digest.

        Raises:
            DatasetMissing: Its file is gone.
            DatasetEdited: Its file does not have that digest.
        """
        name = recording_file(digest)
        data = self.folder.read(name)
        if digest_of(data) != digest:
            raise DatasetEdited(
                f"{name!r} of {self.name!r} was edited; "
                f"restore it from git or freeze it with `goldfork dataset snapshot {self.where}`"
            )
        return decode(data, name, read_part=lambda part: self.folder.read(part_file(part)))

    def put_recording(self, case_id: str, recording: Recording, *, arm: str = RECORDED, trial: int = 0) -> RecordingRef:
        """Write a recording and name it in its case, in place of an earlier one of that arm and trial.

        Raises:
            DatasetMissing: There is no such case, or content of the recording is gone.
            DatasetError: Content differs from its hash.
        """
        self.case(case_id)
        ref = RecordingRef(arm=arm, trial=trial, digest=self.write_recording(recording))
        with self._lock:
            case = self.case(case_id)
            others = [old for old in case.recordings if (old.arm, old.trial) != (arm, trial)]
            refs = sorted([*others, ref], key=lambda ref: (ref.arm, ref.trial))
            self.put_case(case.model_copy(update={"recordings": tuple(refs)}))
        return ref

    def write_recording(self, recording: Recording) -> Hash:
        """Write a recording's files and return its digest; until a case names it, a snapshot removes it.

        Raises:
            DatasetMissing: Content of the recording is gone.
            DatasetError: Content differs from its hash.
        """
        encoded = encode(recording)
        for digest, data in encoded.parts.items():
            self.folder.write(part_file(digest), data)
        self.folder.write(recording_file(encoded.digest), encoded.data)
        return encoded.digest

    # Baseline

    def read_baseline(self) -> dict[str, Any] | None:
        """The accepted baseline, or ``None``."""
        if not self.folder.exists(BASELINE):
            return None
        value = read_json(self.folder.read(BASELINE), f"{BASELINE} of {self.name!r}")
        if not isinstance(value, dict):
            raise DatasetError(f"{BASELINE} of {self.name!r} does not hold an object")
        return value

    def write_baseline(self, baseline: Mapping[str, Any]) -> None:
        """Replace the accepted baseline."""
        self.folder.write(BASELINE, pretty_json(dict(baseline)))

    # For this package

    def reload(self) -> None:
        """Forget what was read; files were written behind this object's back."""
        with self._lock:
            self._cases = None
        self._read_manifest()

    def write_support(self) -> None:
        """The generated files beside the cases: JSON Schema and git attributes."""
        self.folder.write(SCHEMA_NAME, case_schema())
        if not self.folder.exists(".gitattributes"):
            self.folder.write(".gitattributes", _GIT)

    def _read_manifest(self) -> None:
        self.manifest, self.table = _manifest.parse(self.folder.read(MANIFEST), f"{MANIFEST} in {str(self.path)!r}")

    def _all(self) -> dict[str, Case]:
        with self._lock:
            if self._cases is None:
                self._cases = {case.id: case for case in map(self._read_case, case_ids(self.folder))}
            return self._cases

    def _read_case(self, case_id: str) -> Case:
        name = case_file(case_id)
        case = read_case(self.folder.read(name), f"{name} of {self.name!r}")
        if case.id != case_id:
            raise DatasetError(f"{name} of {self.name!r} holds case {case.id!r}; the file is named as the id")
        return case


def case_ids(folder: Folder) -> list[str]:
    """Ids of the case files that are there, sorted."""
    return sorted(name.removesuffix(".json") for name in folder.names("cases") if name.endswith(".json"))


def case_file(case_id: str) -> str:
    """Where a case stands."""
    return f"cases/{case_id}.json"


def recording_file(digest: Hash) -> str:
    """Where a recording stands."""
    return f"recordings/{digest}.jsonl"


def part_file(digest: Hash) -> str:
    """Where a longer part stands."""
    return f"recordings/{digest}.part"
