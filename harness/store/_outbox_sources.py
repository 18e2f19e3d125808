"""Where the outbox's ids come from when they are not entered one by one: a page at a time, whatever there is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from harness.store._liveness import abandoned
from harness.store._packing import Packing, unpack_text, unpack_time_text

if TYPE_CHECKING:
    from harness.store._database import Database

PAGE: Final = 1000
"""Rows in hand at once, and rows of one transaction: nobody else can write while it lasts on SQLite."""

_SCORE_KEY = ("experiment", "case", "arm", "trial", "evaluator", "name")
_FIRST_ID = "00000000-0000-0000-0000-000000000000"


def score_id(score: Mapping[str, Any]) -> str:
    """The outbox id of a row of the scores table: its key as a JSON list."""
    defaults = {"case": "", "arm": "recorded", "trial": 0, "evaluator": ""}
    key = [score.get(name, defaults.get(name)) for name in _SCORE_KEY]
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def finished_runs(database: Database, packing: Packing) -> Iterator[str]:
    """Ids of the finished runs that were recorded here."""
    last = _FIRST_ID
    while True:
        rows = database.rows(
            "SELECT id FROM runs WHERE id > ? AND status <> 'running' AND fidelity <> 'imported' ORDER BY id LIMIT ?",
            (packing.id(last), PAGE),
        )
        if not rows:
            return
        found = [_id(value) for (value,) in rows]
        yield from found
        last = found[-1]


def all_scores(database: Database) -> Iterator[str]:
    """Outbox ids of all scores."""
    names = ", ".join(f'"{name}"' for name in _SCORE_KEY)
    at: tuple[Any, ...] = ("", "", "", -1, "", "")
    while True:
        rows = database.rows(
            f"SELECT {names} FROM scores WHERE ({names}) > (?, ?, ?, ?, ?, ?) ORDER BY {names} LIMIT ?",  # noqa: S608 - names are constants
            (*at, PAGE),
        )
        if not rows:
            return
        for row in rows:
            values = [unpack_text(value) if isinstance(value, str) else value for value in row]
            yield score_id(dict(zip(_SCORE_KEY, values, strict=True)))
        at = rows[-1]


def unfollowed(database: Database, kind: str, of: str) -> Iterator[str]:
    """Ids that stand in the outbox under ``of`` and not under ``kind``."""
    last = ""
    while True:
        rows = database.rows(
            "SELECT id FROM outbox AS led WHERE kind = ? AND id > ? AND NOT EXISTS "
            "(SELECT 1 FROM outbox AS own WHERE own.kind = ? AND own.id = led.id) ORDER BY id LIMIT ?",
            (of, last, kind, PAGE),
        )
        if not rows:
            return
        yield from (unpack_text(value) for (value,) in rows)
        last = rows[-1][0]


def abandoned_runs(database: Database) -> Iterator[str]:
    """Ids of the runs that say running, that nobody runs any more, and that are not in the outbox."""
    now = datetime.now(UTC)
    rows = database.rows("SELECT id, owner, heartbeat_at FROM runs WHERE status = 'running' AND fidelity <> 'imported'")
    gone = [_id(id_) for id_, owner, beat in rows if abandoned(unpack_text(owner), moment(beat), now)]
    for page in pages(gone):
        known = set(database.rows(f"SELECT id FROM outbox WHERE kind = 'run' AND id IN ({marks(page)})", page))  # noqa: S608 - marks
        yield from (id_ for id_ in page if (id_,) not in known)


def ranges(database: Database, kind: str) -> Iterator[tuple[str, str]]:
    """The ids of a kind in the outbox, as ranges (after, up to) of a page each."""
    last = ""
    while True:
        rows = database.rows(
            "SELECT max(id) FROM (SELECT id FROM outbox WHERE kind = ? AND id > ? ORDER BY id LIMIT ?) AS page",
            (kind, last, PAGE),
        )
        if rows[0][0] is None:
            return
        yield last, rows[0][0]
        last = rows[0][0]


def pages(ids: Iterable[str]) -> Iterator[list[str]]:
    """The ids in lists of at most a page."""
    page: list[str] = []
    for id_ in ids:
        page.append(id_)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page


def moment(value: Any) -> datetime | None:
    """A time as either database gives it."""
    if value is None:
        return None
    found: datetime = unpack_time_text(value) if isinstance(value, str) else value.astimezone(UTC)
    return found


def marks(values: Sequence[Any]) -> str:
    """A parameter mark for each value."""
    return ", ".join("?" * len(values))


def _id(value: Any) -> str:
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value))
