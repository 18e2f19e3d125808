"""dataset.toml: written by hand; only its version, digest and history are edited by Goldfork."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from harness.dataset._case import EvaluatorSpec, Gate, Name, first_problem
from harness.dataset._json import decode_text
from harness.errors import DatasetError
from harness.settings import Price

FORMAT = 1
_NAME_LINE = re.compile(r"^name[ \t]*=.*\n", re.MULTILINE)
_FIRST_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


class Version(BaseModel):
    """One ``[[history]]`` entry: a frozen version."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = Field(ge=1)
    digest: str
    date: date
    note: str = ""
    cases: int = 0
    """How many cases the version holds."""
    accepted_findings: dict[str, int] = Field(default_factory=dict)
    """Personal data or secrets that the redaction scan found and a person accepted: count by kind."""


class Manifest(BaseModel):
    """All that dataset.toml may say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    name: Name
    version: int = Field(default=0, ge=0)
    digest: str = ""
    description: str = ""
    target: str = ""
    code: str = ""
    trials: int = Field(default=1, ge=1)
    licence: str = ""
    gate: Gate = Gate()
    margins: dict[str, float] = Field(default_factory=dict)
    prices: dict[str, Price] = Field(default_factory=dict)
    evaluators: tuple[EvaluatorSpec, ...] = ()
    provenance: dict[str, Any] = Field(default_factory=dict)
    history: tuple[Version, ...] = ()

    @field_validator("evaluators")
    @classmethod
    def _distinct(cls, value: tuple[EvaluatorSpec, ...]) -> tuple[EvaluatorSpec, ...]:
        names = [spec.name for spec in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two evaluators are named {name!r}")
        return value


def parse(data: bytes, where: str) -> tuple[Manifest, dict[str, Any]]:
    """The manifest and its raw table.

    Raises:
        DatasetError: Not TOML, an unknown key, a wrong type, or a format that this Goldfork does not know.
    """
    table = _toml(decode_text(data, where), where)
    if isinstance(table.get("format"), int) and table["format"] > FORMAT:
        raise DatasetError(
            f"{where} has format {table['format']}, this Goldfork reads up to {FORMAT}; upgrade goldfork"
        )
    try:
        return Manifest.model_validate(table), table
    except ValidationError as error:
        raise DatasetError(f"{where}: {first_problem(error)}") from error


def meaning(table: Mapping[str, Any]) -> dict[str, Any]:
    """What the version digest covers of a raw table: all but version, digest and history, JSON-ready."""
    kept = {key: value for key, value in table.items() if key not in {"version", "digest", "history"}}
    plain: dict[str, Any] = json.loads(json.dumps(kept, default=str))
    return plain


def template(*, name: str, target: str, code: str) -> bytes:
    """A new dataset.toml, ready to be completed by hand."""
    code = code or target.partition(":")[0].partition(".")[0]
    return f"""\
name = {_quoted(name)}
version = 0
digest = ""
# What is evaluated: a workflow or any function, called with a case's input.
target = {_quoted(target)}
# The package whose source decides whether a recorded step may be skipped.
code = {_quoted(code)}
# Recorded repetitions per case.
trials = 1
licence = ""

# Which scores decide the exit code, and how low a summary score may fall.
[gate]
scorers = []

# Differences too small to matter, by score; set before the first comparison.
[margins]

# [[evaluators]]
# name = "category"
# use = "classification"
# options = {{ field = "category" }}
""".encode()


def with_version(data: bytes, entry: Version) -> bytes:
    """The same text with a new version, digest and one more history entry; comments and order stay.

    Raises:
        DatasetError: The text is laid out so that it cannot be edited safely.
    """
    text = decode_text(data, "dataset.toml")
    first = _FIRST_TABLE.search(text)
    head, tail = (text[: first.start()], text[first.start() :]) if first else (text, "")
    head = _with_line(head, "version", str(entry.version))
    head = _with_line(head, "digest", _quoted(entry.digest))
    edited = head + tail.rstrip("\n") + ("\n" if tail.strip() else "") + _history(entry)
    _check_edit(text, edited, entry)
    return edited.encode()


def _check_edit(before: str, after: str, entry: Version) -> None:
    """The edit changed exactly what it was to change, whatever the text looked like."""
    advice = "dataset.toml cannot be edited: put version, digest and [[history]] on lines of their own"
    try:
        old, new = tomllib.loads(before), tomllib.loads(after)
    except tomllib.TOMLDecodeError as error:
        raise DatasetError(advice) from error
    history = [*old.get("history", []), entry.model_dump(exclude_defaults=True)]
    if new != {**old, "version": entry.version, "digest": entry.digest, "history": history}:
        raise DatasetError(advice)


def _with_line(head: str, key: str, value: str) -> str:
    """Replace the key's line, or put one below the name's (first where there is none)."""
    line = f"{key} = {value}"
    known = re.compile(rf"^{key}[ \t]*=[ \t]*(?:\d+|\"[^\"\n]*\"|'[^'\n]*')", re.MULTILINE)
    if known.search(head):
        return known.sub(lambda _: line, head, count=1)
    name = _NAME_LINE.search(head)
    at = name.end() if name else 0
    return f"{head[:at]}{line}\n{head[at:]}"


def _history(entry: Version) -> str:
    lines = ["", "[[history]]"]
    for key, value in entry.model_dump(exclude_defaults=True).items():
        lines.append(f"{key} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_quoted(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, str):
        return _quoted(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are TOML's, except that TOML also wants DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DatasetError(f"{where} is not TOML: {error}") from error
