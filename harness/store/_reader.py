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
from harness.record import RECORDED, Exchange, Hash, MessageRecord, Recording, RunRecord, join_body
from harness.store import _eval_tables, _tables
from harness.store._codec import CHAIN, decode
from harness.store._columns import Table
from harness.store._database import Database
from harness.store._liveness import abandoned
from harness.store._loading import RunRows, load_rows, load_runs
from harness.store._packing import pack_hash
from harness.store._values import RunStatus, RunSummary

__all__ = ["Reader", "_eval_tables", "_tables"]

_T = Table.metadata.tables
_PIECE = """
SELECT blobs.codec, blobs.data, blobs.size, base.codec, base.data, base.size, blobs.base, blobs.chain, blobs.hash
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


_SHORT = 64 << 10
"""Bytes of content that is fetched before it is asked for."""


@dataclass(frozen=True, slots=True)
class _Totals:
    """What the messages of a run add up to."""

    messages: int
    input_tokens: int | None
    output_tokens: int | None
    unknown: int
    cost: Decimal | None
    currency: str | None


class Contents:
    """Reads the content of one run: all that is short at the first question, in one query, since the rest follows."""

    def __init__(self, reader: Reader, rows: RunRows) -> None:
        self._reader = reader
        self._rows: RunRows | None = rows
        self._pieces: dict[Hash, Sequence[Any]] = {}

    def __call__(self, digest: Hash) -> bytes:
        """The content of a hash, as ``Reader.content`` gives it."""
        rows, self._rows = self._rows, None
        if rows is not None and (named := _named(rows)):
            self._pieces = self._reader.pieces(named[:_AT_ONCE], longest=_SHORT)
        piece = self._pieces.get(digest)
        return self._reader.content(digest) if piece is None else self._reader.decoded(digest, piece)


def _named(rows: RunRows) -> list[Hash]:
    """The hashes that the rows of a run name, each once."""
    named = [rows.run.input_hash, rows.run.output_hash]
    for step in rows.steps:
        named += (step.input_hash, step.output_hash)
    for message in rows.messages:
        named += (message.request_hash, message.answer.body_hash if message.answer else None)
    return [digest for digest in dict.fromkeys(named) if digest is not None]


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
        return self.decoded(digest, rows[0])

    def decoded(self, digest: Hash, row: Sequence[Any]) -> bytes:
        """The content of a hash, given its row of ``pieces``.

        Raises:
            StoreError: What is stored is damaged.
        """
        try:
            return self._decoded(row)
        except ValueError as error:
            raise StoreError(
                f"content {digest!r} in the store {self._database.name} is damaged ({error}); "
                "run `goldfork store check`"
            ) from error

    def _decoded(self, row: Sequence[Any]) -> bytes:
        """The content of a row of ``_PIECE``; a piece may itself be a body that was split."""
        codec, data, size, base_codec, base_data, base_size, layout, chain = row[:8]
        if codec == CHAIN:
            return self._joined(layout, chain)
        base = None if base_codec is None else decode(base_codec, base_data, base_size)
        return decode(codec, data, size, base)

    def _joined(self, layout: int, chain: int | None) -> bytes:
        rows = self._database.rows(_PIECE + "WHERE blobs.id = ?", (layout,))
        if not rows:
            raise ValueError("its layout is gone")
        links = self._database.rows(_CHAIN, (chain,)) if chain is not None else []
        return join_body(self._decoded(rows[0]), [self._decoded(link) for link in links], self.content)

    def recording(self, ref: str, *, arm: str, trial: int) -> Recording | None:
        """The recording of a run, or of a workflow's newest good run; see ``Store.recording``."""
        with self._database.reading() as connection:
            found = self._find(connection, ref, arm, trial)
            if found is None:
                return None
            rows = load_rows(connection, [found])[found]
            if rows.rules != RULES:
                raise UsageError(
                    f"run {found!r} was recorded under key rules {rows.rules!r}, this version uses {RULES!r}; "
                    "record it again, or use the version of goldfork that recorded it"
                )
            return self._recording(connection, rows, self.content)

    def recordings(self, ids: Sequence[str]) -> list[Recording]:
        """The recordings of many runs; see ``Store.recordings``."""
        wanted = [known for known in map(_uuid, ids) if known is not None]
        made: dict[str, Recording] = {}
        with self._database.reading() as connection:
            for start in range(0, len(wanted), _AT_ONCE):
                loaded = load_rows(connection, wanted[start : start + _AT_ONCE])
                for id_, rows in loaded.items():
                    made[id_] = self._recording(connection, rows, Contents(self, rows))
        return [made[known] for known in wanted if known in made]

    def pieces(self, digests: Sequence[Hash], *, longest: int) -> dict[Hash, Sequence[Any]]:
        """Rows for ``decoded``, of many hashes at once (a few hundred); unknown and longer content is left out."""
        marks = ", ".join("?" * len(digests))
        rows = self._database.rows(
            _PIECE + f"WHERE blobs.hash IN ({marks}) AND blobs.size <= ?", (*map(pack_hash, digests), longest)
        )
        return {bytes(row[-1]).hex(): row for row in rows}

    def _find(self, connection: Connection, ref: str, arm: str, trial: int) -> str | None:
        runs = _T["runs"]
        run_id = _uuid(ref)
        if run_id is not None and arm == RECORDED:
            found = connection.execute(select(runs.c.id, runs.c.trial).where(runs.c.id == run_id)).first()
            return str(found.id) if found is not None and trial in {0, found.trial} else None
        if run_id is not None:
            wanted = _good(runs).where(runs.c.parent_run_id == run_id, runs.c.arm == arm, runs.c.trial == trial)
        else:
            wanted = _good(runs).where(runs.c.workflow == ref, runs.c.arm == arm, runs.c.trial == trial)
            if arm == RECORDED:
                wanted = wanted.where(runs.c.parent_run_id.is_(None))
        good = connection.execute(wanted).scalar()
        return None if good is None else str(good)

    def _recording(self, connection: Connection, rows: RunRows, read: Callable[[Hash], bytes]) -> Recording:
        run = rows.run
        dead = _dead(run.status, run.owner, rows.heartbeat_at)
        extra: dict[Hash, bytes] = {}
        return Recording(
            run=replace(run, status="interrupted") if dead and run.status == "running" else run,
            steps=tuple(
                replace(step, status="interrupted") if dead and step.status == "running" else step
                for step in rows.steps
            ),
            messages=tuple(
                self._interrupted(connection, message, extra) if dead and message.status == "running" else message
                for message in rows.messages
            ),
            volatile=tuple(rows.volatile),
            read=_first(extra, read),
            rules=rows.rules,
        )

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
            found = list(connection.scalars(select(runs.c.id).where(runs.c.id.between(low, high)).limit(3)))
            loaded = load_runs(connection, found[:1]) if len(found) == 1 else {}
        if len(found) > 1:
            raise UsageError(f"run {ref!r} is ambiguous ({', '.join(found)}, …); give more of its id")
        if not found:
            return None
        rows = loaded[found[0]]
        run = rows.run
        dead = run.status == "running" and _dead(run.status, run.owner, rows.heartbeat_at)
        return replace(run, status="interrupted") if dead else run

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
    """Ids of runs that can serve as a recording, newest first, real ones before replays of them."""
    return (
        select(runs.c.id)
        .where(runs.c.status == "ok", runs.c.usable, runs.c.fidelity == "wire")
        .order_by(runs.c.mode == "replay", runs.c.id.desc())
        .limit(1)
    )


def _rows(connection: Connection, wanted: Select[Any]) -> list[dict[str, Any]]:
    return [row._asdict() for row in connection.execute(wanted)]


def _word(row: Mapping[str, Any]) -> RunStatus:
    status: RunStatus = row["status"]
    dead = status == "running" and _dead(status, row["owner"], row["heartbeat_at"])
    return "abandoned" if dead else status


def _uuid(ref: str) -> str | None:
    try:
        return str(uuid.UUID(ref))
    except ValueError:
        return None


def _dead(status: str, owner: str, heartbeat_at: datetime | None) -> bool:
    """Whether nobody works on the run any more."""
    return status != "running" or abandoned(owner, heartbeat_at, datetime.now(UTC))


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
