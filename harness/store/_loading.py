"""Everything that was recorded of some runs, in one query per table.

Rows come from the driver as they stand on disk and become records at once: going through the column types of the
tables takes several times as long, and a mirror reads whole runs all day.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection

from harness.record import Exchange, MessageRecord, RunRecord, StepRecord, VolatileRecord
from harness.store import _rows
from harness.store._packing import Packing, PostgresPacking, SqlitePacking


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """What was recorded of one run, each list in its own order."""

    run: RunRecord
    rules: str
    """Version of the key rules it was recorded under."""
    heartbeat_at: Any
    """When its process last said that it is alive; ``None`` for never."""
    steps: list[StepRecord] = field(default_factory=list)
    messages: list[MessageRecord] = field(default_factory=list)
    volatile: list[VolatileRecord] = field(default_factory=list)


def load_runs(connection: Connection, ids: Sequence[str]) -> dict[str, RunRows]:
    """The rows of ``runs`` alone (a few hundred at most: each is a parameter), unknown ones left out."""
    to = _packing(connection)
    found: dict[str, RunRows] = {}
    for row in _select(connection, _RUNS, tuple(map(to.id, ids))):
        run = _rows.to_run(row, to)
        found[run.id] = RunRows(run=run, rules=row[_RULES], heartbeat_at=to.unpack_time(row[_HEARTBEAT]))
    return found


def load_rows(connection: Connection, ids: Sequence[str]) -> dict[str, RunRows]:
    """All rows of these runs, as ``load_runs`` takes and leaves them."""
    found, to = load_runs(connection, ids), _packing(connection)
    keys = tuple(map(to.id, found))
    if not keys:
        return found
    for row in _select(connection, _STEPS, keys):
        step = _rows.to_step(row, to)
        found[step.run_id].steps.append(step)
    exchanges = _exchanges(connection, keys)
    for row in _select(connection, _MESSAGES, keys):
        message = _rows.to_message(row, exchanges.get(row[0], ()), to)
        found[message.run_id].messages.append(message)
    for row in _select(connection, _VOLATILE, keys):
        value = _rows.to_volatile(row, to)
        found[value.run_id].volatile.append(value)
    return found


def _exchanges(connection: Connection, runs: Sequence[Any]) -> Mapping[Any, list[Exchange]]:
    """Attempts by message id as the driver has it, in order."""
    attempts: defaultdict[Any, list[Exchange]] = defaultdict(list)
    for row in _select(connection, _EXCHANGES, runs):
        attempts[row[0]].append(_rows.to_exchange(row))
    return attempts


def _packing(connection: Connection) -> Packing:
    return PostgresPacking() if connection.dialect.name == "postgresql" else SqlitePacking()


def _select(connection: Connection, query: str, keys: Sequence[Any]) -> Sequence[Sequence[Any]]:
    mark = "%s" if connection.dialect.name == "postgresql" else "?"
    return connection.exec_driver_sql(query.format(", ".join([mark] * len(keys))), tuple(keys)).fetchall()


def _query(table: str, columns: Sequence[str], *, key: str, order: str, join: str = "") -> str:
    named = ", ".join(f'{table}."{name}"' for name in columns)
    return f"SELECT {named} FROM {table}{join} WHERE {key} IN ({{}}) ORDER BY {order}"  # noqa: S608 - names are constants


_RUNS: Final = _query("runs", _rows.RUN, key="id", order="id")
_STEPS: Final = _query("steps", _rows.STEP, key="run_id", order="run_id, seq")
_MESSAGES: Final = _query("messages", _rows.MESSAGE_TOLD, key="run_id", order="run_id, seq")
_VOLATILE: Final = _query("volatile", _rows.VOLATILE, key="run_id", order="run_id, seq")
_EXCHANGES: Final = _query(
    "exchanges",
    _rows.EXCHANGE,
    key="messages.run_id",
    order="exchanges.message_id, exchanges.attempt",
    join=" JOIN messages ON messages.id = exchanges.message_id",
)
_RULES: Final = _rows.RUN.index("rules")
_HEARTBEAT: Final = _rows.RUN.index("heartbeat_at")
