"""Case and the settings of a dataset: what the hand-edited files may say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from harness.dataset._json import pretty_json, read_json
from harness.errors import DatasetError

SCHEMA_NAME = "schema/case.v1.json"
_SCHEMA_KEY = "$schema"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def checked_name(value: str) -> str:
    """A name that is a file name everywhere and never a path.

    Raises:
        ValueError: It holds another character, starts or ends with a dot, or is reserved on some system.
    """
    if not _NAME.fullmatch(value) or value.endswith(".") or ".." in value or _RESERVED.fullmatch(value):
        raise ValueError(f"{value!r} is not a name: use up to 100 letters, digits, '-', '_' and inner dots")
    return value


Name = Annotated[str, AfterValidator(checked_name)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class EvaluatorSpec(BaseModel):
    """One ``[[evaluators]]`` entry: which evaluator scores this dataset, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Name of the score, ``category`` say; unique in the dataset."""
    use: str
    """A registered evaluator (``classification``) or ``module:Name``."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the evaluator."""


class Gate(BaseModel):
    """The ``[gate]`` table: what decides the exit code."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    thresholds: dict[str, float] = Field(default_factory=dict)
    """Smallest allowed value of a summary score, by its name."""
    scorers: list[str] = Field(default_factory=list)
    """Scores whose regression fails the gate; they are tested together (Holm)."""
    min_measured: float = Field(default=0.9, ge=0, le=1)
    """Smallest share of trials that must be measured; below it the gate fails closed."""


class RecordingRef(BaseModel):
    """Which recording holds the calls of one arm and trial of a case."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    trial: int = Field(ge=0)
    digest: Digest
    """SHA-256 of the recording's file, which is named by it."""


def _one_each(refs: tuple[RecordingRef, ...]) -> tuple[RecordingRef, ...]:
    """Sorted, and at most one recording per arm and trial."""
    keys = [(ref.arm, ref.trial) for ref in refs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"arm {key[0]!r}, trial {key[1]} has two recordings")
    return tuple(sorted(refs, key=lambda ref: (ref.arm, ref.trial)))


class Case(BaseModel):
    """One case of a golden dataset: an input, what is expected of it, and its recordings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    """Equal to the file's name; letters, digits, ``-``, ``_`` and inner dots."""
    input: Any
    """Keyword arguments of the target, by parameter name."""
    expected_output: Any = None
    """What a good run returns; ``None`` when evaluators need no reference."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Anything an evaluator or a reader may need."""
    tags: tuple[str, ...] = ()
    """Words to select cases by."""
    split: str = "test"
    """``test``, ``dev``, ``calibration``, …"""
    group: str | None = None
    """Cases that are not independent (one conversation, one customer) share a group."""
    labels: dict[str, Any] = Field(default_factory=dict)
    """People's verdicts by evaluator name, to calibrate judges against."""
    approver: str | None = None
    """Who approved it; ``None`` while it is staged."""
    provenance: dict[str, Any] = Field(default_factory=dict)
    """Where it came from: run, time, whether a replay has proved it."""
    recordings: Annotated[tuple[RecordingRef, ...], AfterValidator(_one_each)] = ()
    """One per arm and trial."""

    @property
    def staged(self) -> bool:
        """Whether nobody has approved it yet."""
        return self.approver is None


def read_case(data: bytes, where: str) -> Case:
    """Parse a case file.

    Raises:
        DatasetError: Not JSON, an unknown key, a value of the wrong type.
    """
    value = read_json(data, where)
    if not isinstance(value, dict):
        raise DatasetError(f"{where} holds {type(value).__name__}, not an object")
    value.pop(_SCHEMA_KEY, None)
    try:
        return Case.model_validate(value)
    except ValidationError as error:
        raise DatasetError(f"{where}: {first_problem(error)}") from error


def write_case(case: Case) -> bytes:
    """The bytes of a case file; the inverse of ``read_case``."""
    return pretty_json({_SCHEMA_KEY: f"../{SCHEMA_NAME}", **case_dict(case)})


def case_dict(case: Case) -> dict[str, Any]:
    """All fields as JSON-ready values."""
    return {
        name: [ref.model_dump() for ref in value] if name == "recordings" else value
        for name, value in ((name, getattr(case, name)) for name in Case.model_fields)
    }


def case_schema() -> bytes:
    """The JSON Schema of a case file, for editors; written beside the cases."""
    schema = Case.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["properties"][_SCHEMA_KEY] = {"type": "string"}
    return pretty_json(schema)


def same_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that one file name serves on systems that ignore case."""
    seen: dict[str, str] = {}
    pairs = []
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            pairs.append((other, name))
    return pairs


def first_problem(error: ValidationError) -> str:
    """The first finding of a validation as one clause: place and reason."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {place!r}"
    return f"{place}: {first['msg']}" if place else str(first["msg"])
