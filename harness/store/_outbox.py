"""What the mirror still has to do, and who does it: ``outbox`` and ``leases`` as its worker sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal

from harness.store import _outbox_sources as sources
from harness.store._outbox_sql import REPAIR, enter_again, enter_anew, enter_new, entered
from harness.store._packing import (
    Packing,
    PostgresPacking,
    SqlitePacking,
    pack_hash,
    pack_json,
    pack_text,
    unpack_json,
    unpack_text,
)
from harness.store._sql import insert, insert_new

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.store._database import Database
    from harness.store._driver import Driver
    from harness.store._writer import Writer

OutboxState = Literal["pending", "accepted", "verified", "dead"]
STATES: tuple[OutboxState, ...] = ("pending", "accepted", "verified", "dead")
KINDS = ("run", "score", "otel", "span")

_KEY = ("kind", "id")
_COLUMNS = (
    "kind", "id", "state", "attempts", "created_at", "due_at", "updated_at", "error", "frozen", "frozen_hash", "extra",
    "round",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """One thing to mirror, and how far it has come."""

    kind: str
    """``run``; ``score``; ``otel``, a run for the OpenTelemetry lane; ``span``, one refused piece of a run."""
    id: str
    """Run id; of a score see ``score_id``; of a refused piece ``RUN/PIECE``."""
    state: OutboxState
    attempts: int
    """How often it was sent."""
    created_at: datetime
    due_at: datetime
    """When it is to be looked at next."""
    updated_at: datetime | None = None
    error: str | None = None
    """Why the last attempt failed."""
    frozen: bytes | None = None
    """The bytes that every attempt sends."""
    frozen_hash: str | None = None
    """SHA-256 of them, 64 hex digits."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """JSON object of what the worker remembers; ``repair`` asks it to delete what is there before it sends."""
    round: int = 0
    """How often it was entered anew; an update made for an earlier round is dropped."""


class Outbox:
    """The outbox of one store; made by ``Store.outbox``."""

    def __init__(self, database: Database, writer: Callable[[], Writer]) -> None:
        self._database = database
        self._writer = writer
        self._packing: Packing = PostgresPacking() if database.path is None else SqlitePacking()

    def enter(self, kind: str, ids: Iterable[str], *, repair: bool = False) -> int:
        """Enter what is new as pending, due now.

        Args:
            kind: What the ids are of.
            ids: Any number of them.
            repair: What is known becomes pending again, to be deleted there and sent anew from its rows.

        Returns:
            How many were entered, or entered again.
        """
        return sum(self._enter(kind, page, repair=repair) for page in sources.pages(ids))

    def due(self, kinds: Sequence[str], states: Sequence[str], *, now: datetime, limit: int) -> list[OutboxEntry]:
        """Entries whose time has come, the longest waiting first, frozen bytes included."""
        found = self._first(kinds, states, limit=limit, order="due_at", until=now)
        return sorted(found, key=lambda entry: entry.due_at)[:limit]

    def entries(self, kinds: Sequence[str], states: Sequence[str], *, limit: int) -> list[OutboxEntry]:
        """Entries in some states, oldest first."""
        found = self._first(kinds, states, limit=limit, order="created_at")
        return sorted(found, key=lambda entry: entry.created_at)[:limit]

    def pages(self, kind: str, state: str) -> Iterator[list[OutboxEntry]]:
        """All entries of a kind in a state by id, a page at a time. They may be written back meanwhile."""
        if not self.counts((kind,))[state]:
            return
        text = f"SELECT {', '.join(_COLUMNS)} FROM outbox WHERE kind = ? AND id > ? AND id <= ? AND state = ?"  # noqa: S608 - constants
        for after, up_to in sources.ranges(self._database, kind):
            rows = self._database.rows(f"{text} ORDER BY id", (kind, after, up_to, state))
            if rows:
                yield [self._entry(row) for row in rows]

    def update(self, entries: Iterable[OutboxEntry]) -> None:
        """Write entries back in one transaction, new ones too; what was entered anew meanwhile is left as it is."""
        mark = self._database.mark
        set_ = ", ".join(f'"{name}" = excluded."{name}"' for name in _COLUMNS if name not in _KEY)
        statement = (
            f"{insert('outbox', _COLUMNS, mark=mark)} ON CONFLICT (kind, id) DO UPDATE SET {set_} "
            "WHERE outbox.round <= excluded.round"
        )
        now = datetime.now(UTC)
        rows = list({(entry.kind, entry.id): self._row(entry, now) for entry in entries}.values())
        if rows:
            self._do(lambda driver: driver.together(statement, rows), rows=len(rows))

    def counts(self, kinds: Sequence[str] = ()) -> dict[str, int]:
        """How many entries there are in each state."""
        among = f" WHERE kind IN ({sources.marks(kinds)})" if kinds else ""
        found = dict.fromkeys(STATES, 0)
        for state, number in self._database.rows(
            f"SELECT state, sum(entries) FROM outbox_counts{among} GROUP BY state",  # noqa: S608 - marks
            tuple(kinds),
        ):
            found[state] = int(number)
        return {str(state): number for state, number in found.items()}

    def oldest_unverified(self, kinds: Sequence[str] = ()) -> datetime | None:
        """When the oldest entry was made that is pending or accepted; ``None`` when there is none."""
        oldest = [
            sources.moment(value)
            for kind in kinds or KINDS
            for state in ("pending", "accepted")
            for (value,) in self._database.rows(
                "SELECT min(created_at) FROM outbox WHERE kind = ? AND state = ?", (kind, state)
            )
        ]
        return min((value for value in oldest if value is not None), default=None)

    def lease(self, name: str, owner: str, *, seconds: float, now: datetime) -> bool:
        """Take a lease, renew it, or take it over when it has run out; false when somebody else holds it.

        One process at a time gets it, whatever database. ``now`` is the caller's clock: with several machines
        ``seconds`` has to exceed by far what their clocks differ.
        """
        mark, until = self._database.mark, self._time(now + timedelta(seconds=seconds))
        owner, name = pack_text(owner), pack_text(name)
        take = (
            f"UPDATE leases SET owner = {mark}, expires_at = {mark} WHERE name = {mark} "  # noqa: S608 - marks
            f"AND (owner IS NULL OR owner = {mark} OR expires_at IS NULL OR expires_at <= {mark})"
        )
        new = insert_new("leases", ("name", "owner", "expires_at"), key=("name",), mark=mark)

        def act(driver: Driver) -> bool:
            if driver.many(take, [(owner, until, name, owner, self._time(now))]):
                return True
            return driver.many(new, [(name, owner, until)]) == 1

        return bool(self._do(act))

    def release(self, name: str, owner: str) -> None:
        """Give a lease back; somebody else's is left alone."""
        mark = self._database.mark
        text = f"UPDATE leases SET owner = NULL, expires_at = NULL WHERE name = {mark} AND owner = {mark}"  # noqa: S608 - marks
        self._do(lambda driver: driver.many(text, [(pack_text(name), pack_text(owner))]))

    def note(self, name: str, values: Mapping[str, Any]) -> None:
        """Remember JSON values beside a lease, whoever holds it; ``None`` forgets one."""
        mark = self._database.mark
        lock = "" if self._database.path is not None else " FOR UPDATE"
        known = f"SELECT extra FROM leases WHERE name = {mark}{lock}"  # noqa: S608 - marks
        write = f"UPDATE leases SET extra = {mark} WHERE name = {mark}"  # noqa: S608 - marks

        first = insert_new("leases", ("name",), key=("name",), mark=mark)

        def act(driver: Driver) -> None:
            # There has to be a row before it can be locked.
            driver.many(first, [(pack_text(name),)])
            rows = driver.query(known, (pack_text(name),))
            merged = {**_object(rows[0][0]), **values}
            kept = {key: value for key, value in merged.items() if value is not None}
            driver.many(write, [(pack_json(kept), pack_text(name))])

        self._do(act)

    def notes(self, name: str) -> dict[str, Any]:
        """What was noted beside a lease."""
        rows = self._database.rows("SELECT extra FROM leases WHERE name = ?", (pack_text(name),))
        return _object(rows[0][0] if rows else None)

    def holder(self, name: str, *, now: datetime) -> str | None:
        """Who holds a lease that has not run out."""
        rows = self._database.rows(
            "SELECT owner FROM leases WHERE name = ? AND expires_at > ?", (pack_text(name), self._time(now))
        )
        return unpack_text(rows[0][0]) if rows and rows[0][0] else None

    def backfill(self, *, again: bool) -> int:
        """Enter every finished run of this store's own and every score.

        Args:
            again: What was verified, or given up, becomes pending too, to be sent once more.

        Returns:
            How many entries became pending.
        """
        database = self._database
        made = self.enter("run", sources.finished_runs(database, self._packing))
        made += self.enter("score", sources.all_scores(database))
        return made + sum(map(self._enter_again, ("run", "score"))) if again else made

    def sweep(self) -> int:
        """Enter the runs that say running but that nobody runs any more."""
        return self.enter("run", sources.abandoned_runs(self._database))

    def follow(self, kind: str, *, of: str, since: datetime | None) -> int:
        """Enter under a kind, once, every id that stands here under another: a second lane for the same runs.

        Args:
            kind: Of the new entries.
            of: Of the entries to follow.
            since: Look only at those made from then on; ``None`` looks at all.

        Returns:
            How many were entered.
        """
        return self.enter(
            kind, sources.unfollowed(self._database, kind, of) if since is None else self._recent(of, since)
        )

    def reentry(self, kind: str, ids: Iterable[str], *, repair: bool) -> tuple[str, list[list[Any]]]:
        """The statement that enters ids, known ones anew, for a transaction that writes what they name."""
        now, extra = self._time(datetime.now(UTC)), REPAIR if repair else None
        return enter_anew(self._database.mark), [entered(kind, pack_text(id_), now, extra=extra) for id_ in ids]

    def _enter(self, kind: str, ids: Sequence[str], *, repair: bool) -> int:
        statement, rows = self.reentry(kind, dict.fromkeys(ids), repair=repair)
        if not repair:
            statement = enter_new(self._database.mark)
        return int(self._do(lambda driver: driver.together(statement, rows), rows=len(rows)))

    def _enter_again(self, kind: str) -> int:
        """A page per transaction: in one for all, every other writer would have to wait until the end."""
        made, statement = 0, enter_again(self._database.mark)
        for after, up_to in sources.ranges(self._database, kind):
            now = self._time(datetime.now(UTC))
            action = methodcaller("many", statement, [(now, now, kind, after, up_to)])
            made += int(self._do(action, rows=sources.PAGE))
        return made

    def _recent(self, kind: str, since: datetime) -> list[str]:
        """Ids of the entries of a kind that were made from a moment on."""
        rows = self._database.rows(
            # With the states named, the index over kind, state and time serves.
            f"SELECT id FROM outbox WHERE kind = ? AND state IN ({sources.marks(STATES)}) AND created_at >= ?",  # noqa: S608 - marks
            (kind, *STATES, self._time(since)),
        )
        return [unpack_text(value) for (value,) in rows]

    def _first(
        self, kinds: Sequence[str], states: Sequence[str], *, limit: int, order: str, until: datetime | None = None
    ) -> list[OutboxEntry]:
        """The first entries of each kind and state: one range of an index each, however many are due at one moment."""
        reached, values = (f" AND {order} <= ?", [self._time(until)]) if until is not None else ("", [])
        text = (
            f"SELECT {', '.join(_COLUMNS)} FROM outbox WHERE kind = ? AND state = ?{reached} "  # noqa: S608 - names are constants
            f"ORDER BY {order} LIMIT ?"
        )
        return [
            self._entry(row)
            for kind in kinds
            for state in states
            for row in self._database.rows(text, (kind, state, *values, limit))
        ]

    def _entry(self, row: Sequence[Any]) -> OutboxEntry:
        values = dict(zip(_COLUMNS, row, strict=True))
        for name in ("created_at", "due_at", "updated_at"):
            values[name] = sources.moment(values[name])
        for name in ("id", "error"):
            values[name] = None if values[name] is None else unpack_text(values[name])
        values["frozen"] = None if values["frozen"] is None else bytes(values["frozen"])
        values["frozen_hash"] = None if values["frozen_hash"] is None else bytes(values["frozen_hash"]).hex()
        values["extra"] = _object(values["extra"])
        return OutboxEntry(**values)

    def _row(self, entry: OutboxEntry, now: datetime) -> tuple[Any, ...]:
        return (
            entry.kind,
            pack_text(entry.id),
            entry.state,
            entry.attempts,
            self._time(entry.created_at),
            self._time(entry.due_at),
            self._time(now),
            None if entry.error is None else pack_text(entry.error),
            entry.frozen,
            None if entry.frozen_hash is None else pack_hash(entry.frozen_hash),
            pack_json(dict(entry.extra)) if entry.extra else None,
            entry.round,
        )

    def _time(self, moment: datetime) -> Any:
        return self._packing.time(moment)

    def _do(self, action: Callable[[Driver], Any], *, rows: int = 1) -> Any:
        from harness.store._group import Job

        job = Job(action=action, rows=rows)
        self._writer().submit(job)
        return job.future.result()


def _object(text: str | None) -> dict[str, Any]:
    found = {} if text is None else unpack_json(text)
    return found if isinstance(found, dict) else {}
