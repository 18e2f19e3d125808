"""A recording as a text file: one JSON object per line, content cut into slices and kept once.

::

    {"record": "recording", "format": 1, "rules": "v1", "run": {…}}
    {"record": "step", …}        steps and tools, in order
    {"record": "message", …}     model calls, in order
    {"record": "volatile", …}    declared clock, ids, random numbers
    {"record": "slice", "n": 17, "prev": 16, "part": "<hash>"}
    {"record": "content", "hash": "<hash>", "slice": 17}      this content ends with that slice
    {"record": "part", "hash": "<hash>", "text": "…"}         or "base64"; longer parts are <hash>.part files

Content that is one part needs neither slice nor content line: its hash is the part's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.canonical import RULES
from harness.dataset._json import line_json, read_json
from harness.dataset._records import (
    KINDS,
    content_of,
    from_dict,
    public_message,
    public_run,
    public_step,
    to_dict,
)
from harness.dataset._slices import split
from harness.errors import DatasetEdited, DatasetError, DatasetMissing
from harness.record import Hash, MessageRecord, Recording, RunRecord, StepRecord, VolatileRecord

FORMAT = 1
INLINE = 512
"""Parts up to this many bytes stand in the file itself."""
_HEX = frozenset("0123456789abcdef")


def digest_of(data: bytes) -> Hash:
    """SHA-256, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Encoded:
    """A recording as files."""

    data: bytes
    """The recording's own file."""
    parts: dict[Hash, bytes]
    """Content of the part files it refers to."""

    @property
    def digest(self) -> Hash:
        """SHA-256 of the file, its name."""
        return digest_of(self.data)


def encode(recording: Recording) -> Encoded:
    """The files of a recording; equal recordings give equal bytes.

    The owner, provider hosts, credential headers and home folders in errors are left out.

    Raises:
        DatasetError: Content is not what its hash says, or a value has no JSON form.
        DatasetMissing: Content that the recording refers to is gone.
    """
    run = public_run(recording.run)
    records: list[StepRecord | MessageRecord | VolatileRecord] = [
        *(public_step(step) for step in recording.steps),
        *(public_message(message) for message in recording.messages),
        *recording.volatile,
    ]
    head = {"record": "recording", "format": FORMAT, "rules": recording.rules, "run": to_dict(run)}
    lines = [line_json(head), *(line_json(_line(record, run.id)) for record in records)]
    content = _Content()
    for digest in _references(run, records):
        content.add(digest, recording.read(digest))
    lines.extend(content.lines())
    return Encoded(b"\n".join(lines) + b"\n", content.files)


def decode(data: bytes, where: str, *, read_part: Callable[[Hash], bytes]) -> Recording:
    """The recording that a file holds; part files are read when their content is asked for.

    Raises:
        DatasetError: A line is malformed, or the file is in a newer format or was made under other key rules.
    """
    lines = _lines(data, where)
    place, head = next(lines, (where, {}))
    run = _head(head, place)
    found: dict[str, list[Any]] = {"step": [], "message": [], "volatile": []}
    index = _Index(where, read_part)
    for place, line in lines:
        name = line.pop("record", None)
        if name in found:
            line.setdefault("run_id", run.id)
            found[name].append(from_dict(name, line, place))
        elif not index.take(name, line, place):
            raise DatasetError(f"{place}: unknown record {name!r}; it may come from a newer Goldfork")
    return Recording(
        run=run,
        steps=tuple(sorted(found["step"], key=lambda step: step.seq)),
        messages=tuple(sorted(found["message"], key=lambda message: message.seq)),
        volatile=tuple(found["volatile"]),
        read=index.read,
    )


def part_names(data: bytes, where: str) -> set[Hash]:
    """Hashes of the part files that a recording's file needs, found without decoding its records.

    Raises:
        DatasetError: A line is malformed.
    """
    inline: set[Hash] = set()
    needed: set[Hash] = set()
    whole: set[Hash] = set()
    for place, line in _lines(data, where):
        name = line.get("record")
        if name == "part":
            inline.add(str(line.get("hash")))
        elif name == "slice":
            needed.add(_hash(line.get("part"), place))
        elif name == "content":
            inline.add(str(line.get("hash")))
        else:
            whole.update(_whole(line))
    return (needed | whole) - inline


_HASHES = {"input_hash", "input_order", "output_hash", "output_order", "request_hash", "body_hash"}


def _whole(line: Any) -> Iterator[Hash]:
    """Hashes of content that a record line refers to, wherever it stands in the line."""
    for key, value in line.items():
        if isinstance(value, str) and key in _HASHES:
            yield value
        elif key == "run" and isinstance(value, dict):
            yield from _whole(value)
        elif key == "exchanges" and isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    yield from _whole(item)


class _Content:
    """Contents as slices and parts, each once."""

    def __init__(self) -> None:
        self.files: dict[Hash, bytes] = {}
        self._inline: dict[Hash, bytes] = {}
        self._slices: dict[tuple[int | None, Hash], int] = {}
        self._ends: dict[Hash, int] = {}

    def add(self, digest: Hash, data: bytes) -> None:
        if digest_of(data) != digest:
            raise DatasetError(f"content {digest[:12]!r} differs from its hash; run `goldfork store check`")
        pieces = split(data)
        if len(pieces) == 1:
            self._part(data)
            return
        end: int | None = None
        for piece in pieces:
            end = self._slices.setdefault((end, self._part(piece)), len(self._slices))
        if end is not None:
            self._ends[digest] = end

    def lines(self) -> Iterator[bytes]:
        for (prev, part), n in self._slices.items():
            link = {} if prev is None else {"prev": prev}
            yield line_json({"record": "slice", "n": n, **link, "part": part})
        for digest, n in self._ends.items():
            yield line_json({"record": "content", "hash": digest, "slice": n})
        for digest, data in self._inline.items():
            yield line_json({"record": "part", "hash": digest, **_text(data)})

    def _part(self, data: bytes) -> Hash:
        digest = digest_of(data)
        (self._inline if len(data) <= INLINE else self.files)[digest] = data
        return digest


def _text(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


@dataclass(slots=True)
class _Index:
    """The content lines of one file."""

    where: str
    read_part: Callable[[Hash], bytes]
    inline: dict[Hash, bytes] = field(default_factory=dict)
    slices: dict[int, tuple[int | None, Hash]] = field(default_factory=dict)
    ends: dict[Hash, int] = field(default_factory=dict)

    def take(self, name: Any, line: dict[str, Any], place: str) -> bool:
        """Keep a content line; False when it is none."""
        if name == "part":
            self.inline[_hash(line.get("hash"), place)] = _bytes(line, place)
        elif name == "slice":
            self._slice(line, place)
        elif name == "content":
            n = line.get("slice")
            if not isinstance(n, int) or n not in self.slices:
                raise DatasetError(f"{place}: there is no slice {n!r}")
            self.ends[_hash(line.get("hash"), place)] = n
        else:
            return False
        return True

    def read(self, digest: Hash) -> bytes:
        """Content by hash, checked against it."""
        n: int | None = self.ends.get(digest)
        if n is None:
            data = self._part(digest)
        else:
            pieces = []
            while n is not None:
                n, part = self.slices[n]
                pieces.append(self._part(part))
            data = b"".join(reversed(pieces))
        if digest_of(data) != digest:
            raise DatasetEdited(f"{self.where}: content {digest[:12]!r} was edited; run `goldfork dataset verify`")
        return data

    def _part(self, digest: Hash) -> bytes:
        known = self.inline.get(digest)
        if known is not None:
            return known
        try:
            data = self.read_part(_hash(digest, self.where))
        except DatasetMissing:
            raise DatasetMissing(
                f"{self.where}: content {digest[:12]!r} is missing; restore it from git, or record the case again"
            ) from None
        # Every turn of a conversation reads the turns before it.
        self.inline[digest] = data
        return data

    def _slice(self, line: dict[str, Any], place: str) -> None:
        n, prev = line.get("n"), line.get("prev")
        if not isinstance(n, int) or n in self.slices or (prev is not None and prev not in self.slices):
            raise DatasetError(f"{place}: slice {n!r} must have a new number and follow its prefix")
        self.slices[n] = prev, _hash(line.get("part"), place)


def _line(record: StepRecord | MessageRecord | VolatileRecord, run_id: str) -> dict[str, Any]:
    name = next(name for name, kind in KINDS.items() if isinstance(record, kind))
    fields = to_dict(record)
    if fields["run_id"] == run_id:
        del fields["run_id"]
    return {"record": name, **fields}


def _references(run: RunRecord, records: list[StepRecord | MessageRecord | VolatileRecord]) -> list[Hash]:
    """Content hashes in order of first use, each once."""
    everything: list[RunRecord | StepRecord | MessageRecord | VolatileRecord] = [run, *records]
    return list(dict.fromkeys(digest for record in everything for digest in content_of(record)))


def _lines(data: bytes, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of every line; only a line feed ends a line, U+2028 does not."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{where}, line {number}"
        value = read_json(line, place)
        if not isinstance(value, dict):
            raise DatasetError(f"{place} holds {type(value).__name__}, not an object")
        yield place, value


def _head(line: dict[str, Any], place: str) -> RunRecord:
    if line.get("record") != "recording" or not isinstance(line.get("format"), int):
        raise DatasetError(f"{place}: a recording begins with its 'recording' line")
    if line["format"] > FORMAT:
        raise DatasetError(
            f"{place}: format {line['format']} is newer than this Goldfork reads ({FORMAT}); upgrade goldfork"
        )
    unknown = sorted(set(line) - {"record", "format", "rules", "run"})
    if unknown or not isinstance(line.get("rules"), str):
        raise DatasetError(f"{place}: unknown key {unknown[0]!r}" if unknown else f"{place}: 'rules' is missing")
    if line["rules"] != RULES:
        raise DatasetError(
            f"{place}: recorded under key rules {line['rules']!r}, this version uses {RULES!r}; "
            "record it again, or use the version of goldfork that recorded it"
        )
    run: RunRecord = from_dict("run", line.get("run"), place)
    return run


def _hash(value: Any, place: str) -> Hash:
    if not isinstance(value, str) or len(value) != 64 or not _HEX.issuperset(value):
        raise DatasetError(f"{place}: {value!r} is not a SHA-256 hash")
    return value


def _bytes(line: dict[str, Any], place: str) -> bytes:
    text, coded = line.get("text"), line.get("base64")
    if isinstance(text, str) and coded is None:
        return text.encode("utf-8", "surrogatepass")
    if isinstance(coded, str) and text is None:
        try:
            return base64.b64decode(coded, validate=True)
        except binascii.Error as error:
            raise DatasetError(f"{place}: base64 is malformed: {error}") from error
    raise DatasetError(f"{place}: a part has either 'text' or 'base64'")
