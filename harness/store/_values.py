"""What the store reports about itself and about its runs: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

RunStatus = Literal["running", "ok", "error", "interrupted", "abandoned"]
"""A run's status as a reader sees it; ``abandoned`` is derived: it says running, but nobody runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One line of a list of runs."""

    id: str
    workflow: str
    status: RunStatus
    mode: str
    arm: str
    trial: int
    case: str | None
    experiment: str | None
    parent_run_id: str | None
    started_at: datetime
    ended_at: datetime | None
    steps: int
    """Steps and tool calls recorded, the root included."""
    messages: int
    input_tokens: int | None
    """Sum over the messages whose provider reported it; ``None`` when none did."""
    output_tokens: int | None
    unknown_usage: int
    """Finished messages without reported usage; they are in neither sum."""
    cost: Decimal | None
    """Sum of the known costs; ``None`` when none is known, or they are in several currencies."""
    currency: str
    """Of the cost."""
    error: str | None
    usable: bool
    fidelity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a full check of the store found."""

    ok: bool
    blobs: int
    """Content hashes recomputed."""
    messages: int
    """Messages whose request and responses were re-joined."""
    faults: tuple[str, ...]
    """One sentence per fault, naming the table and the id or hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What a garbage collection removed."""

    blobs: int
    chains: int
    bytes: int
    """Bytes of content removed, as stored."""
    kept_recent: int
    """Unreferenced blobs and chain links spared because they were touched within the hour."""
    expired_tool_results: int
    """Shared results of tools that were past their ttl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """Rows and room of one table."""

    table: str
    rows: int
    bytes: int
    """Bytes on disk, indexes included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What the store holds and what takes the room."""

    tables: tuple[TableSize, ...]
    """Largest first."""
    bytes: int
    """Size of the whole database."""
    content_bytes: int
    """Bytes of all content as recorded, each hash counted once and before compression or sharing."""
    stored_bytes: int
    """Bytes that this content takes."""
    whole_requests: int
    """Request bodies over a kilobyte that could not be split and are stored whole."""
