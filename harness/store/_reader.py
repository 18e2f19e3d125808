"""Reading runs back: content by hash, recordings, lists of runs."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Select, select

from harness.canonical import RULES
from harness.errors import DatasetMissing, StoreError, UsageError
from harness.record import RECORDED, Exchange, Hash, MessageRecord, Recording, RunRecord
from harness.record._parts import join
from harness.store import _eval_tables, _tables
from harness.store._codec import CHAIN, decode
from harness.store._columns import Table
from harness.store._database import Database
from harness.store._liveness import abandoned
from harness.store._loading import RunRows, load_rows
from harness.store._packing import pack_hash
from harness.store._rows import to_exchange, to_message, to_run, to_step, to_volatile
from harness.store._values import RunStatus, RunSummary

__all__ = ["Reader", "_eval_tables", "_tables"]

_T = Table.metadata.tables
_PIECE = """
SELECT blobs.codec, blobs.data, blobs.size, base.codec, base.data, base.size, blobs.base, blobs.chain
FROM blobs LEFT JOIN blobs base ON base.id = blobs.base
"""
_CHAIN = """
WITH RECURSIVE link (blob, prev, depth) AS (
    SELECT blob, prev, 0 FROM chains WHERE id = ?
    UNION ALL
    SELECT chains.blob, chains.prev, link.depth + 1 FROM chains JOIN link ON chains.id = link.prev
)
SELECT blobs.codec, blobs.data, blobs.size, base.codec, base.data, base.size, blobs.base, blobs.chain
FROM link JOIN blobs ON blobs.id = link.blob LEFT JOIN blobs base ON base.id = blobs.base ORDER BY link.depth DESC
"""
_AT_ONCE = 400


@dataclass(frozen=True, slots=True)
class _Totals:
    """What the messages of a run add up to."""

    messages: int
    input_tokens: int | None
    output_tokens: int | None
    unknown: int
    cost: Decimal | None
    currency: str | None


class Reader:
    """Reads one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def content(self, digest: Hash) -> bytes:
        """The content of a hash.

        Raises:
            DatasetMissing: Nothing is stored under that hash.
            StoreError: What is stored is damaged.
        """
        rows = self._database.rows(_PIECE + "WHERE blobs.hash = ?", (pack_hash(digest),))
        if not rows:
            raise DatasetMissing(f"content {digest!r} is not in the store {self._database.name}")
        try:
            return self._decoded(rows[0])
        except ValueError as error:
            raise StoreError(
                f"content {digest!r} in the store {self._database.name} is damaged ({error}); "
                "run `goldfork store check`"
            ) from error

    def _decoded(self, row: Sequence[Any]) -> bytes:
        """The content of a row of ``_PIECE``; a piece may itself be a body that was split."""
        codec, data, size, base_codec, base_data, base_size, layout, chain = row
        if codec == CHAIN:
            return self._joined(layout, chain)
        base = None if base_codec is None else decode(base_codec, base_data, base_size)
        return decode(codec, data, size, base)

    def _joined(self, layout: int, chain: int | None) -> bytes:
        rows = self._database.rows(_PIECE + "WHERE blobs.id = ?", (layout,))
        if not rows:
            raise ValueError("its layout is gone")
        links = self._database.rows(_CHAIN, (chain,)) if chain is not None else []
        return join(self._decoded(rows[0]), [self._decoded(link) for link in links], self.content)

    def recording(self, ref: str, *, arm: str, trial: int) -> Recording | None:
        """The recording of a run, or of a workflow's newest good run; see ``Store.recording``."""
        with self._database.reading() as connection:
            row = self._find(connection, ref, arm, trial)
            if row is None:
                return None
            if row["rules"] != RULES:
                raise UsageError(
                    f"run {row['id']!r} was recorded under key rules {row['rules']!r}, this version uses {RULES!r}; "
                    "record it again, or use the version of goldfork that recorded it"
                )
            return self._recording(connection, row, load_rows(connection, [row["id"]])[row["id"]])

    def recordings(self, ids: Sequence[str]) -> list[Recording]:
        """The recordings of many runs; see ``Store.recordings``."""
        runs = _T["runs"]
        wanted = [known for known in map(_uuid, ids) if known is not None]
        made: dict[str, Recording] = {}
        with self._database.reading() as connection:
            for start in range(0, len(wanted), _AT_ONCE):
                page = wanted[start : start + _AT_ONCE]
                rows = _rows(connection, select(runs).where(runs.c.id.in_(page)))
                loaded = load_rows(connection, [row["id"] for row in rows])
                made |= {row["id"]: self._recording(connection, row, loaded[row["id"]]) for row in rows}
        return [made[known] for known in wanted if known in made]

    def _find(self, connection: Connection, ref: str, arm: str, trial: int) -> Mapping[str, Any] | None:
        runs = _T["runs"]
        run_id = _uuid(ref)
        if run_id is not None:
            if arm == RECORDED:
                named = select(runs).where(runs.c.id == run_id)
                found = _first_row(connection, named)
                return found if found is not None and trial in {0, found["trial"]} else None
            wanted = _good(runs).where(runs.c.parent_run_id == run_id, runs.c.arm == arm, runs.c.trial == trial)
            return _first_row(connection, wanted)
        wanted = _good(runs).where(runs.c.workflow == ref, runs.c.arm == arm, runs.c.trial == trial)
        if arm == RECORDED:
            wanted = wanted.where(runs.c.parent_run_id.is_(None))
        return _first_row(connection, wanted)

    def _recording(self, connection: Connection, row: Mapping[str, Any], rows: RunRows) -> Recording:
        dead = _dead(row)
        extra: dict[Hash, bytes] = {}
        run = to_run(row)
        return Recording(
            run=replace(run, status="interrupted") if dead and run.status == "running" else run,
            steps=tuple(
                replace(step, status="interrupted") if dead and step.status == "running" else step
                for step in map(to_step, rows.steps)
            ),
            messages=tuple(self._messages(connection, rows, dead=dead, extra=extra)),
            volatile=tuple(map(to_volatile, rows.volatile)),
            read=_first(extra, self.content),
            rules=row["rules"],
        )

    def _messages(
        self, connection: Connection, rows: RunRows, *, dead: bool, extra: dict[Hash, bytes]
    ) -> Iterable[MessageRecord]:
        for row in rows.messages:
            attempts = map(to_exchange, rows.exchanges.get(row["id"], ()))
            message = to_message(row, tuple(attempts))
            if dead and message.status == "running":
                message = self._interrupted(connection, message, extra)
            yield message

    def _interrupted(self, connection: Connection, message: MessageRecord, extra: dict[Hash, bytes]) -> MessageRecord:
        """A message whose process died, with what it had received so far."""
        chunks = _T["chunks"]
        rows = connection.execute(
            select(chunks.c.data, chunks.c.offset_ms).where(chunks.c.message_id == message.id).order_by(chunks.c.number)
        ).all()
        if not rows:
            return replace(message, status="interrupted")
        body, ends = b"", []
        for data, offset in rows:
            body += data
            ends.append((len(body), offset))
        digest = sha256(body).hexdigest()
        extra[digest] = body
        last = message.answer or Exchange(status=None)
        partial = replace(last, body_hash=digest, chunks=tuple(ends), error="interrupted")
        return replace(message, status="interrupted", exchanges=(*message.exchanges[:-1], partial))

    def run(self, ref: str) -> RunRecord | None:
        """A run by id or unique prefix of it; see ``Store.run``."""
        digits = ref.replace("-", "").lower()
        if not digits or len(digits) > 32 or not set(digits) <= set("0123456789abcdef"):
            return None
        runs = _T["runs"]
        low, high = (str(uuid.UUID(digits.ljust(32, fill))) for fill in "0f")
        with self._database.reading() as connection:
            found = _rows(connection, select(runs).where(runs.c.id.between(low, high)).limit(3))
        if len(found) > 1:
            some = ", ".join(row["id"] for row in found)
            raise UsageError(f"run {ref!r} is ambiguous ({some}, …); give more of its id")
        if not found:
            return None
        run = to_run(found[0])
        return replace(run, status="interrupted") if run.status == "running" and _dead(found[0]) else run

    def runs(self, limit: int, *, workflow: str | None, status: RunStatus | None) -> list[RunSummary]:
        """The newest runs; see ``Store.runs``."""
        runs = _T["runs"]
        wanted = select(runs).order_by(runs.c.id.desc())
        if workflow is not None:
            wanted = wanted.where(runs.c.workflow == workflow)
        derived = status in {"running", "abandoned"}
        if status is not None:
            wanted = wanted.where(runs.c.status == ("running" if derived else status))
        with self._database.reading() as connection:
            rows = _rows(connection, wanted if derived else wanted.limit(limit))
            stated = [(row, _word(row)) for row in rows]
            if derived:
                stated = [(row, word) for row, word in stated if word == status][:limit]
            ids = [row["id"] for row, _ in stated]
            totals = _totals(connection, ids)
            steps = _counts(connection, ids)
        return [_summary(row, word, steps.get(row["id"], 0), totals.get(row["id"])) for row, word in stated]


def _good(runs: Any) -> Select[Any]:
    """Runs that can serve as a recording, newest first, real ones before replays of them."""
    return (
        select(runs)
        .where(runs.c.status == "ok", runs.c.usable, runs.c.fidelity == "wire")
        .order_by(runs.c.mode == "replay", runs.c.id.desc())
        .limit(1)
    )


def _rows(connection: Connection, wanted: Select[Any]) -> list[dict[str, Any]]:
    return [row._asdict() for row in connection.execute(wanted)]


def _first_row(connection: Connection, wanted: Select[Any]) -> dict[str, Any] | None:
    row = connection.execute(wanted).first()
    return None if row is None else row._asdict()


def _word(row: Mapping[str, Any]) -> RunStatus:
    status: RunStatus = row["status"]
    return "abandoned" if status == "running" and _dead(row) else status


def _uuid(ref: str) -> str | None:
    try:
        return str(uuid.UUID(ref))
    except ValueError:
        return None


def _dead(row: Mapping[str, Any]) -> bool:
    """Whether nobody works on the run any more."""
    return row["status"] != "running" or abandoned(row["owner"], row["heartbeat_at"], datetime.now(UTC))


def _first(extra: Mapping[Hash, bytes], then: Callable[[Hash], bytes]) -> Callable[[Hash], bytes]:
    if not extra:
        return then
    return lambda digest: extra[digest] if digest in extra else then(digest)


def _totals(connection: Connection, ids: Sequence[str]) -> dict[str, _Totals]:
    messages = _T["messages"]
    rows: defaultdict[str, list[Any]] = defaultdict(list)
    for start in range(0, len(ids), _AT_ONCE):
        wanted = select(
            messages.c.run_id,
            messages.c.status,
            messages.c.input_tokens,
            messages.c.output_tokens,
            messages.c.cost,
            messages.c.currency,
        ).where(messages.c.run_id.in_(ids[start : start + _AT_ONCE]))
        for row in connection.execute(wanted):
            rows[row.run_id].append(row)
    return {
        run: _Totals(
            messages=len(found),
            input_tokens=_sum(row.input_tokens for row in found),
            output_tokens=_sum(row.output_tokens for row in found),
            unknown=sum(row.status == "ok" and row.input_tokens is None for row in found),
            cost=_sum(row.cost for row in found) if len(_currencies(found)) == 1 else None,
            currency=next(iter(_currencies(found)), None),
        )
        for run, found in rows.items()
    }


def _counts(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    steps = _T["steps"]
    counts: defaultdict[str, int] = defaultdict(int)
    for start in range(0, len(ids), _AT_ONCE):
        wanted = select(steps.c.run_id).where(steps.c.run_id.in_(ids[start : start + _AT_ONCE]))
        for (run,) in connection.execute(wanted):
            counts[run] += 1
    return counts


def _currencies(messages: Sequence[Any]) -> set[str]:
    return {message.currency or "USD" for message in messages if message.cost is not None}


def _sum(values: Iterable[Any]) -> Any:
    """The sum of what is known, ``None`` when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _summary(row: Mapping[str, Any], status: RunStatus, steps: int, totals: _Totals | None) -> RunSummary:
    plain = ("id", "workflow", "mode", "arm", "trial", "case", "experiment", "parent_run_id", "started_at",
             "ended_at", "error", "fidelity")  # fmt: skip
    return RunSummary(
        **{name: row[name] for name in plain},
        status=status,
        usable=bool(row["usable"]),
        steps=steps,
        messages=totals.messages if totals else 0,
        input_tokens=totals.input_tokens if totals else None,
        output_tokens=totals.output_tokens if totals else None,
        unknown_usage=totals.unknown if totals else 0,
        cost=totals.cost if totals else None,
        currency=(totals.currency if totals else None) or "USD",
    )
