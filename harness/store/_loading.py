"""Everything that was recorded of some runs, in one query per table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from harness.store._columns import Table

_T = Table.metadata.tables


@dataclass(slots=True)
class RunRows:
    """The rows of one run, each list in its own order."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    exchanges: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By message, attempts in order."""
    volatile: list[dict[str, Any]] = field(default_factory=list)


def load_rows(connection: Connection, ids: Sequence[str]) -> dict[str, RunRows]:
    """The rows of these runs (a few hundred at most: each is a parameter)."""
    found = {id_: RunRows() for id_ in ids}
    for table, name in (("steps", "steps"), ("messages", "messages"), ("volatile", "volatile")):
        rows = _T[table]
        wanted = select(rows).where(rows.c.run_id.in_(ids)).order_by(rows.c.run_id, rows.c.seq)
        for row in connection.execute(wanted):
            getattr(found[row.run_id], name).append(row._asdict())
    messages, exchanges = _T["messages"], _T["exchanges"]
    of_runs = select(exchanges, messages.c.run_id).join(messages, messages.c.id == exchanges.c.message_id)
    of_runs = of_runs.where(messages.c.run_id.in_(ids)).order_by(exchanges.c.message_id, exchanges.c.attempt)
    for row in connection.execute(of_runs):
        found[row.run_id].exchanges.setdefault(row.message_id, []).append(row._asdict())
    return found
