"""One observation as a server tells it, every field checked: what has the wrong type is unknown."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

CUT: Final = 200
"""Characters at which a server cuts metadata that was not asked for by name."""
_EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
_DEEP: Final = 100
TOO_DEEP: Final = "⟦nested too deeply⟧"
"""Stands for a value whose nesting no reader has to put up with."""


class Malformed(Exception):
    """What a server sent cannot be a part of a trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One observation; all texts are fit for UTF-8, lone surrogates spelled out."""

    id: str
    trace_id: str
    project_id: str
    """Ids of traces are unique in their project only."""
    parent_id: str | None
    type: str
    """In capitals."""
    name: str
    start: datetime
    end: datetime | None
    first_token: datetime | None
    created_at: datetime | None
    updated_at: datetime | None
    root: bool
    """Without a parent, or flagged as the application's root."""
    level: str
    status_message: str | None
    version: str | None
    environment: str | None
    user_id: str | None
    session_id: str | None
    trace_name: str | None
    release: str | None
    tags: tuple[str, ...] = ()
    input: Any = None
    """Text as sent; ``None`` when there is none."""
    output: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, Decimal] = field(default_factory=dict)
    """In USD by bucket."""
    prompt_name: str | None = None
    prompt_version: str | None = None
    rank: int | None = None
    """Place in the order of start, where the source tells it more exactly than ``start``; all of a trace or none."""

    @property
    def touched(self) -> datetime:
        """When it was last written, as far as the server says so."""
        return self.updated_at or self.created_at or _EARLIEST

    @property
    def failed(self) -> bool:
        """Whether it says that it failed."""
        return self.level == "ERROR"

    @property
    def total_cost(self) -> Decimal | None:
        """The total as told, else the sum of the buckets; ``None`` when nothing is."""
        return self.cost.get("total", sum(self.cost.values(), Decimal(0)) if self.cost else None)

    def with_metadata(self, values: Mapping[str, Any]) -> Observation:
        """The same with some metadata replaced."""
        return dataclasses.replace(self, metadata={**self.metadata, **values}) if values else self

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Observation:
        """Read one row of the list.

        Raises:
            Malformed: It has no id, or no time at which it began.
        """
        identifier, start = row.get("id"), _moment(row.get("startTime"))
        if not isinstance(identifier, str) or not identifier:
            raise Malformed("an observation has no id")
        if start is None:
            raise Malformed(f"observation {identifier!r} has no start that is a time")
        parent = _text(row.get("parentObservationId")) or None
        return cls(
            id=fit(identifier),
            # Compared with what was asked for, so left as it came.
            trace_id=row["traceId"] if isinstance(row.get("traceId"), str) else "",
            project_id=_text(row.get("projectId")) or "",
            parent_id=parent,
            type=(_text(row.get("type")) or "SPAN").upper(),
            name=_text(row.get("name")) or "",
            start=start,
            end=_moment(row.get("endTime")),
            first_token=_moment(row.get("completionStartTime")),
            created_at=_moment(row.get("createdAt")),
            updated_at=_moment(row.get("updatedAt")),
            root=parent is None or row.get("isRootObservation") is True,
            level=(_text(row.get("level")) or "DEFAULT").upper(),
            status_message=_text(row.get("statusMessage")),
            version=_text(row.get("version")),
            environment=_text(row.get("environment")),
            user_id=_text(row.get("userId")),
            session_id=_text(row.get("sessionId")),
            trace_name=_text(row.get("traceName")),
            release=_text(row.get("release")),
            tags=tuple(fit(tag) for tag in _list(row.get("tags")) if isinstance(tag, str)),
            input=plain(row.get("input")),
            output=plain(row.get("output")),
            metadata=_mapping(plain(row.get("metadata"))),
            model=_text(row.get("model")) or _text(row.get("providedModelName")),
            params=_mapping(plain(row.get("modelParameters"))),
            usage={str(name): count for name, count in _mapping(row.get("usageDetails")).items() if _is_count(count)},
            cost=_cost(row),
            prompt_name=_text(row.get("promptName")),
            prompt_version=_version(row.get("promptVersion")),
        )


def looks_cut(value: Any) -> bool:
    """Whether a metadata value, or one inside it, is exactly as long as the server's cut leaves it."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str) and len(item) <= 2 * CUT:
            # Servers count characters, code units or bytes; all three are asked for again.
            lengths = (len(item), len(item.encode("utf-16-le")) // 2, len(item.encode()))
            if CUT in lengths:
                return True
    return False


def fit(text: str) -> str:
    """Text that UTF-8 can hold: a lone surrogate is spelled out with backslash and ``u``."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def plain(value: Any) -> Any:
    """A JSON value with numbers as floats again and texts fit for UTF-8; what nests too deeply becomes text."""
    try:
        return _plain(value, 0)
    except RecursionError:
        return TOO_DEEP


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return fit(value)
    if isinstance(value, Decimal):
        return float(value)
    if not isinstance(value, dict | list):
        return value
    if depth >= _DEEP:
        raise RecursionError
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    return {fit(key): _plain(item, depth + 1) for key, item in value.items()}


def _text(value: Any) -> str | None:
    """Text, other scalars and values as their JSON, nothing as ``None``."""
    if value is None or isinstance(value, str):
        return None if value is None else fit(value)
    return json.dumps(plain(value))


def _moment(value: Any) -> datetime | None:
    """An ISO time in UTC; one without a zone is read as UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        # Some servers answer objects as the text they were sent as.
        try:
            value = plain(json.loads(value))
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _money(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    amount = Decimal(value)
    # A database column holds it, and so does everybody's purse.
    return amount if amount.is_finite() and abs(amount.adjusted()) < 20 else None


def _cost(row: Mapping[str, Any]) -> dict[str, Decimal]:
    """By bucket. A total of zero without buckets is what a server says of a model it has no price for: unknown."""
    found = {}
    for name, value in _mapping(row.get("costDetails")).items():
        amount = _money(value)
        if amount is not None:
            found[str(name)] = amount
    total = _money(row.get("totalCost"))
    if "total" not in found and total is not None and (total or found):
        found["total"] = total
    return found


def _version(value: Any) -> str | None:
    return str(value) if isinstance(value, str) or _is_count(value) else None
