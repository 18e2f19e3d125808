"""One JSON object per record of a recording, and back; fields that have their default are left out."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from harness.dataset._case import first_problem
from harness.errors import DatasetError
from harness.record import LOCAL, MessageRecord, RunRecord, StepRecord, VolatileRecord
from harness.redact import secret_headers

KINDS: dict[str, type[Any]] = {
    "run": RunRecord,
    "step": StepRecord,
    "message": MessageRecord,
    "volatile": VolatileRecord,
}
PROVIDER = "recorded"
"""Stands for the host of a recorded call: where it went is nobody's business who clones the dataset."""
_HOST_HEADERS = re.compile(
    r"(?i)openai-(organization|project)|location|content-location|link|host|server|via|alt-svc|report-to|nel"
    r"|cf-.*|x-forwarded-.*|.*-policy|reporting-endpoints"
)
"""They name a host or an account."""
_HOME = re.compile(r"(?i)(?:/home|/users|[a-z]:\\users)[/\\][^/\\\s'\"]+")


def public_run(run: RunRecord) -> RunRecord:
    """The run without its owner (a host name) and without absolute paths in its error."""
    return dataclasses.replace(run, owner="", error=_relative(run.error))


def public_step(step: StepRecord) -> StepRecord:
    """The step without absolute paths in its error; a tool's error is kept, since a replay raises it again."""
    return step if step.kind == "tool" else dataclasses.replace(step, error=_relative(step.error))


def public_message(message: MessageRecord) -> MessageRecord:
    """The message without its host and without headers that carry credentials, hosts or account names."""
    exchanges = tuple(
        dataclasses.replace(
            exchange,
            headers=tuple(pair for pair in exchange.headers if _public_header(pair[0])),
            error=_relative(exchange.error),
        )
        for exchange in message.exchanges
    )
    provider = LOCAL if message.provider == LOCAL else PROVIDER
    return dataclasses.replace(message, provider=provider, exchanges=exchanges, error=_relative(message.error))


def to_dict(value: Any) -> dict[str, Any]:
    """A frozen record as JSON-ready fields, without those that have their default."""
    fields = dataclasses.fields(value)
    return {
        field.name: _plain(getattr(value, field.name))
        for field in fields
        if not _is_default(field, getattr(value, field.name))
    }


def from_dict(kind: str, value: Any, where: str) -> Any:
    """The record of a kind (a key of ``KINDS``), every field checked.

    Raises:
        DatasetError: An unknown key, a missing one, a value of another type, or a time without zone.
    """
    if not isinstance(value, Mapping):
        raise DatasetError(f"{where} holds {type(value).__name__}, not an object")
    unknown = sorted(set(value) - {field.name for field in dataclasses.fields(KINDS[kind])})
    if unknown:
        raise DatasetError(f"{where}: unknown key {unknown[0]!r}; it may come from a newer Goldfork")
    try:
        record = _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise DatasetError(f"{where}: {first_problem(error)}") from error
    for name in ("started_at", "ended_at"):
        moment = getattr(record, name, None)
        if moment is not None and moment.tzinfo is None:
            raise DatasetError(f"{where}: {name} has no time zone")
    return record


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(KINDS[kind])


def content_of(record: RunRecord | StepRecord | MessageRecord | VolatileRecord) -> list[str]:
    """Hashes of the content that a record refers to."""
    if isinstance(record, MessageRecord):
        return [record.request_hash, *(e.body_hash for e in record.exchanges if e.body_hash is not None)]
    if isinstance(record, RunRecord):
        return [digest for digest in (record.input_hash, record.input_order, record.output_hash) if digest is not None]
    if isinstance(record, StepRecord):
        return [digest for digest in (record.input_hash, record.output_hash, record.output_order) if digest is not None]
    return []


def _public_header(name: str) -> bool:
    return name not in secret_headers and not _HOST_HEADERS.fullmatch(name)


def _relative(text: str | None) -> str | None:
    """Error text without the folder it was raised in or the home folder of a person."""
    if not text:
        return text
    return _HOME.sub("~", text.replace(f"{Path.cwd()}/", ""))


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return type(value) is type(field.default) and bool(value == field.default)
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return False


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_dict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value
