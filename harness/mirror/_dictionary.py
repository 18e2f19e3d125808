"""The words of Langfuse for ours, and the metadata object ``goldfork`` that every observation carries.

The object is flat where people filter by it. The rows themselves, and what has free keys, stand in it as JSON *text*:
the server takes objects apart by dots and loses empty ones. What is ``None`` or has the value that it has by default
is left out. Content is not in it; input and output of the observation are. Everything in it is redacted.

``run_record``, ``step_record`` and ``message_record`` are the way back.

On the root the run's own metadata stand beside it, under their own keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, Literal, TypedDict, get_args

import orjson

from harness.record import (
    CacheState,
    Determinism,
    Exchange,
    MessageRecord,
    RunRecord,
    Status,
    StepKind,
    StepRecord,
    StepState,
    Usage,
)

KEY: Final = "goldfork"
"""The top-level metadata key of the object."""
VERSION: Final = 1
"""Of the object's layout."""
TYPES: Final = {"agent": "agent", "tool": "tool", "job": "span"}
"""Step kind → observation type; lower case, or the server takes it for a span."""
MESSAGE_TYPES: Final = {"/embeddings": "embedding"}
"""Endpoint of a message → observation type; every other is a generation."""
LEVELS: Final = {"ok": "DEFAULT", "error": "ERROR", "interrupted": "ERROR", "running": "ERROR"}
"""Status of a row → level. What still says running when its run is mirrored has been left by its process."""
INTERRUPTED: Final = "interrupted: its process ended before it did"
"""Status text of a row that nobody finished."""
REPLAY_TAG, FORK_TAG = "goldfork:replay", "goldfork:fork"
EXPERIMENT_ENVIRONMENT: Final = "sdk-experiment"
"""Environment of everything an experiment ran; the server's own name for it."""
LONGEST: Final = 200
"""Characters that the server takes of names, tags, users and sessions."""
_ENVIRONMENT = 40
_SUFFIX = 12


class Meta(TypedDict, total=False):
    """What the ``goldfork`` object of every observation says."""

    v: int
    """``VERSION``."""
    run: str
    """Id of the run, as it is in the store."""
    kind: str
    """``step`` or ``message``: what the row is; absent on the root of a run whose root step was never written."""
    row: str
    """JSON text: the row, see below."""
    root: str
    """JSON text, on the parentless observation only: the row of the run."""
    step: str
    """Of a step: its id. Of a message: that of the step it was made in."""
    message: str
    """Id of the message."""
    seq: int
    scope: str
    occurrence: int
    workflow: str
    mode: str
    arm: str
    trial: int
    case: str
    experiment: str
    state: str
    """Of a step: what became of it."""
    determinism: str
    cache: str
    """Of a message: where its response came from."""
    parent_run: str
    """Id of the run that this one replays or forks."""
    parent_trace: str
    """Trace id of that run."""
    fork_step: str
    url: str
    """Where the run is shown by its own UI."""
    request: str
    """JSON text, of a message: the members of its request that are neither its input nor scalars, such as tools."""


# A row is a JSON object with the fields of its record under their own names (``RunRecord``, ``StepRecord``,
# ``MessageRecord``): times as ISO text in UTC with microseconds, cost as decimal text, ``usage`` as an object,
# ``exchanges`` as a list of objects with ``status``, ``body_hash`` and ``error``. Its ``error`` is true where the
# observation's status message is the record's. Not told: ``RunRecord.owner``, headers, and the times of chunks.

OWN: Final = frozenset(
    {"v", "kind", "trial", "seq", "occurrence", "status", "started_at", "ended_at", "state", "mutated", "cache"}
    | {"determinism", "duration_ms", "ttl", "streamed", "cache_state", "usage", "cost", "latency_ms", "first_chunk_ms"}
    | {"error", "fidelity", "usable", "parent_trace"}
)
"""Keys whose values are words of this house, times or counts; all others are redacted unless they are ids of ours."""
_UNTOLD: Final = {"owner"}


def _told_fields(kind: type) -> tuple[tuple[str, Any], ...]:
    """Name and default (``None`` without one) of the fields that a row tells."""
    named = (each for each in fields(kind) if each.name not in _UNTOLD)
    return tuple((each.name, None if each.default is MISSING else each.default) for each in named)


_SIZED: Final = frozenset({"tags", "metadata", "change", "exchanges", "params", "finish_reasons"})
_FIELDS: Final[Mapping[type, tuple[tuple[str, Any], ...]]] = {
    kind: _told_fields(kind) for kind in (RunRecord, StepRecord, MessageRecord)
}


def own_row(record: RunRecord | StepRecord | MessageRecord) -> dict[str, Any]:
    """A record as a row, not yet redacted."""
    values, plan = _PLANS[type(record)]
    return {
        name: value if tell is None else tell(value)
        for value, (name, default, sized, tell) in zip(values(record), plan, strict=True)
        if value is not None and (default is None or value != default) and (value or not sized)
    }


def run_record(meta: Mapping[str, Any], *, status_message: str | None = None) -> RunRecord:
    """The run that a root's ``goldfork`` object tells of. It came from outside: every field is checked.

    Args:
        meta: The object, its texts still such or already read.
        status_message: Of the observation.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError: It is no such object.
    """
    return RunRecord(**_values(meta["root"], RunRecord, status_message))


def step_record(meta: Mapping[str, Any], *, status_message: str | None = None) -> StepRecord:
    """The step that a ``goldfork`` object tells of; see ``run_record``. A root's status message is the run's."""
    return StepRecord(**{"parent_id": None, **_values(meta["row"], StepRecord, status_message)})


def message_record(meta: Mapping[str, Any], *, status_message: str | None = None) -> MessageRecord:
    """The message that a ``goldfork`` object tells of; see ``run_record``."""
    return MessageRecord(**{"step_id": None, **_values(meta["row"], MessageRecord, status_message)})


def _values(told: Any, kind: type, status_message: str | None) -> dict[str, Any]:
    row = json.loads(told) if isinstance(told, str) else told
    values = {
        name: _read(name, row[name]) for name, _ in _FIELDS[kind] if name != "error" and row.get(name) is not None
    }
    return {**values, "error": status_message} if row.get("error") is True else values


def _exchange(exchange: Exchange) -> dict[str, Any]:
    told = {"status": exchange.status, "body_hash": exchange.body_hash, "error": exchange.error}
    return {name: value for name, value in told.items() if value is not None}


def _usage(usage: Usage) -> dict[str, int]:
    counts = zip(_COUNTS, _counts(usage), strict=True)
    return {name: count for name, count in counts if count is not None}


_COUNTS: Final = tuple(each.name for each in fields(Usage))
_counts = attrgetter(*_COUNTS)


def iso(when: datetime) -> str:
    """A time in UTC with microseconds; one without a zone is read as UTC."""
    return utc(when).isoformat(timespec="microseconds")


def utc(when: datetime) -> datetime:
    """A time in UTC. The rule for one without a zone: it is read as UTC, never as the machine's local time."""
    if when.tzinfo is UTC:
        return when
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


_TOLD: Final[dict[str, Any]] = {
    "started_at": iso,
    "ended_at": iso,
    "tags": list,
    "finish_reasons": list,
    "metadata": dict,
    "params": dict,
    "change": dict,
    "exchanges": lambda listed: [_exchange(each) for each in listed],
    "usage": _usage,
    "cost": str,
    "error": bool,
}


_PLANS: Final[Mapping[type, tuple[Any, tuple[tuple[str, Any, bool, Any], ...]]]] = {
    kind: (
        attrgetter(*(name for name, _ in told)),
        tuple((name, default, name in _SIZED, _TOLD.get(name)) for name, default in told),
    )
    for kind, told in _FIELDS.items()
}
"""What gets the fields of a record, and of each its name, its default, whether it counts only if it is not empty, and
how it is told."""


def _read(name: str, value: Any) -> Any:
    """One field of a row.

    Raises:
        ValueError, TypeError, AttributeError, ArithmeticError: It is no such value.
    """
    if name in _WORDS:
        return _one_of(value, _WORDS[name])
    reader = _READERS.get(name, _text)
    return reader(value)


def _one_of(value: Any, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise ValueError(f"{value!r} is not one of {known}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise TypeError("no count")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise TypeError("no duration")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return tuple(map(_text, value))


def _money(value: Any) -> Decimal:
    amount = Decimal(_text(value))
    if not amount.is_finite() or abs(amount.adjusted()) >= 20:
        raise ValueError("no amount of money")
    return amount


def _exchange_of(told: Mapping[str, Any]) -> Exchange:
    status, digest, error = told.get("status"), told.get("body_hash"), told.get("error")
    return Exchange(
        status=None if status is None else _count(status),
        body_hash=None if digest is None else _text(digest),
        error=None if error is None else _text(error),
    )


_WORDS: Final[Mapping[str, tuple[Any, ...]]] = {
    "status": get_args(Status),
    "kind": get_args(StepKind),
    "state": get_args(StepState),
    "determinism": get_args(Determinism),
    "cache_state": get_args(CacheState),
    "fidelity": get_args(Literal["wire", "imported"]),
}
_READERS: Final[Mapping[str, Any]] = {
    "started_at": lambda value: utc(datetime.fromisoformat(value)),
    "ended_at": lambda value: utc(datetime.fromisoformat(value)),
    "tags": _texts,
    "finish_reasons": _texts,
    "metadata": _object,
    "params": _object,
    "change": _object,
    "exchanges": lambda listed: tuple(map(_exchange_of, listed)),
    "usage": lambda counts: Usage(**{name: _count(count) for name, count in counts.items()}),
    "cost": _money,
    **dict.fromkeys(("trial", "seq", "occurrence"), _count),
    **dict.fromkeys(("ttl", "duration_ms", "latency_ms", "first_chunk_ms"), _number),
    **dict.fromkeys(("usable", "mutated", "streamed"), _flag),
}


def packed(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The object as it is sent: rows and what has free keys as JSON text."""
    return {name: json_text(value) if isinstance(value, dict) else value for name, value in meta.items()}


def json_text(value: Any) -> str:
    """A JSON value as compact text; what is no JSON in it is spelled out."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # Integers beyond 64 bits, and lone surrogates.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def bounded(text: str, longest: int = LONGEST) -> str:
    """Text within the server's limit: a longer one is cut and ends in ``~`` and 12 digits of its SHA-256."""
    if len(text) <= longest:
        return text
    digits = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_SUFFIX]
    return f"{text[: longest - _SUFFIX - 1]}~{digits}"


def bounded_ascii(text: str) -> str:
    """A user or session within the server's limit; what is not ASCII is spelled out with a backslash."""
    return bounded(text if text.isascii() else text.encode("ascii", "backslashreplace").decode())


def environment(text: str) -> str:
    """A name the server takes as an environment: lower case, no ``langfuse`` in front, at most 40 characters."""
    name = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-")
    name = f"env-{name}" if name.startswith("langfuse") else name
    return bounded(name, _ENVIRONMENT).replace("~", "-") or "default"
