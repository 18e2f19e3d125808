"""Whether the files of a dataset are the version that they say they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.canonical import canonical_json, content_hash
from harness.dataset import _manifest
from harness.dataset._case import Case, case_dict, read_case, same_names
from harness.dataset._files import MANIFEST, DatasetFiles, case_file, part_file, recording_file
from harness.dataset._folder import Folder
from harness.dataset._json import pretty_json, read_json
from harness.dataset._recording import decode, digest_of, part_names
from harness.errors import CanonicalError, DatasetError, DatasetMissing
from harness.record import Hash

CONTENTS = "version.json"
"""Generated list of what the frozen version contains; its hash is the version digest."""


@dataclass(frozen=True, slots=True)
class Check:
    """What a look at all files of a dataset found."""

    problems: tuple[str, ...]
    """What differs from the frozen version or cannot be read."""
    notes: tuple[str, ...]
    """What a reader should know and is not wrong."""


def check(dataset: DatasetFiles) -> Check:
    """Read every file of a dataset and compare it with the frozen version."""
    survey = Survey(dataset.folder)
    problems = [*survey.problems, *survey.orphans(), *_version_problems(dataset, survey)]
    waiting = [case.id for case in survey.cases if case.staged]
    notes = []
    if waiting:
        notes.append(f"{len(waiting)} staged, waiting for approval: {', '.join(waiting)}")
    bare = [case.id for case in survey.cases if not case.recordings]
    if bare:
        notes.append(f"{len(bare)} without recording: {', '.join(bare)}")
    return Check(tuple(problems), tuple(notes))


class Survey:
    """All files of a dataset, each problem noted and passed over."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.problems: list[str] = []
        self.cases: list[Case] = []
        self.recordings: dict[Hash, str] = {}
        """Recordings that cases refer to, and one case that does."""
        self.parts: set[Hash] = set()
        self._read_cases()
        for digest, case_id in sorted(self.recordings.items()):
            self._read_recording(digest, case_id)
        for digest in sorted(self.parts):
            self._read_part(digest)

    def orphans(self) -> Iterator[str]:
        """Files below ``recordings`` that no case leads to."""
        for name in self.orphan_files():
            yield f"{name} belongs to no case; `goldfork dataset snapshot` removes it"

    def orphan_files(self) -> list[str]:
        """Names of the recording and part files that no case leads to."""
        known = {recording_file(digest) for digest in self.recordings} | {part_file(p) for p in self.parts}
        names = [f"recordings/{name}" for name in self._folder.names("recordings")]
        return [name for name in names if name not in known]

    def _read_cases(self) -> None:
        names = list(self._folder.names("cases"))
        self.problems += [f"case files {a!r} and {b!r} are one file on some systems" for a, b in same_names(names)]
        for name in names:
            if not name.endswith(".json"):
                self.problems.append(f"cases/{name} is not a case file")
                continue
            try:
                case = read_case(self._folder.read(f"cases/{name}"), f"cases/{name}")
            except DatasetError as error:
                self.problems.append(str(error))
                continue
            if case_file(case.id) != f"cases/{name}":
                self.problems.append(f"cases/{name} holds case {case.id!r}; the file is named as the id")
            self.cases.append(case)
            self.recordings |= {ref.digest: case.id for ref in case.recordings}

    def _read_recording(self, digest: Hash, case_id: str) -> None:
        name = recording_file(digest)
        try:
            data = self._folder.read(name)
        except DatasetMissing:
            self.problems.append(f"case {case_id!r} refers to {name}, which is missing")
            return
        except DatasetError as error:
            self.problems.append(str(error))
            return
        try:
            decode(data, name, read_part=self._no_part)
            self.parts |= part_names(data, name)
        except DatasetError as error:
            self.problems.append(str(error))
        if digest_of(data) != digest:
            self.problems.append(f"{name} of case {case_id!r} was edited")

    def _read_part(self, digest: Hash) -> None:
        name = part_file(digest)
        try:
            if digest_of(self._folder.read(name)) != digest:
                self.problems.append(f"{name} was edited; restore it from git")
        except DatasetMissing:
            self.problems.append(f"{name} is missing; restore it from git")
        except DatasetError as error:
            self.problems.append(str(error))

    @staticmethod
    def _no_part(digest: Hash) -> bytes:
        raise DatasetMissing(digest)


def contents(table: Mapping[str, Any], cases: list[Case]) -> dict[str, Any]:
    """What a version contains: hashes of the settings and of each approved case, recordings by digest within.

    Raises:
        DatasetError: A value has no canonical form.
    """
    return {
        "settings": _hash(_manifest.meaning(table), MANIFEST),
        "cases": {case.id: _hash(case_dict(case), f"case {case.id!r}") for case in cases if not case.staged},
    }


def contents_digest(listed: Mapping[str, Any]) -> Hash:
    """The version digest."""
    return content_hash(canonical_json({"settings": listed["settings"], "cases": listed["cases"]}))


def write_contents(folder: Folder, listed: Mapping[str, Any]) -> None:
    """Keep the list beside the cases, so that an edit can be named."""
    folder.write(CONTENTS, pretty_json(listed))


def _version_problems(dataset: DatasetFiles, survey: Survey) -> Iterator[str]:
    manifest = dataset.manifest
    if manifest.version == 0:
        yield "it has no version yet; freeze the first one with `goldfork dataset snapshot`"
        return
    last = manifest.history[-1] if manifest.history else None
    if last is None or (last.version, last.digest) != (manifest.version, manifest.digest):
        yield f"dataset.toml says version {manifest.version}, which is not the last one of its history"
    try:
        now = contents(dataset.table, survey.cases)
    except DatasetError as error:
        yield str(error)
        return
    if contents_digest(now) != manifest.digest:
        yield from _edits(dataset, now)


def _edits(dataset: DatasetFiles, now: Mapping[str, Any]) -> Iterator[str]:
    """Which parts of the version were edited, named where the list of its contents can be trusted."""
    end = f"since version {dataset.version} and belongs to no version"
    frozen = _frozen_contents(dataset)
    if frozen is None:
        yield f"a case or dataset.toml was changed {end} ({CONTENTS} is missing or edited too)"
        return
    if frozen["settings"] != now["settings"]:
        yield f"dataset.toml was changed {end}"
    for case_id in sorted(frozen["cases"].keys() | now["cases"].keys()):
        old, new = frozen["cases"].get(case_id), now["cases"].get(case_id)
        if old != new:
            word = "added" if old is None else "removed or made unreadable" if new is None else "changed"
            yield f"case {case_id!r} was {word} {end}"


def _frozen_contents(dataset: DatasetFiles) -> dict[str, Any] | None:
    try:
        listed = read_json(dataset.folder.read(CONTENTS), CONTENTS)
        if isinstance(listed, dict) and isinstance(listed["cases"], dict):
            return listed if contents_digest(listed) == dataset.digest else None
    except (DatasetError, CanonicalError, KeyError):
        pass
    return None


def _hash(value: Any, what: str) -> Hash:
    try:
        return content_hash(canonical_json(value))
    except CanonicalError as error:
        raise DatasetError(f"{what} cannot be frozen: {error}") from error
