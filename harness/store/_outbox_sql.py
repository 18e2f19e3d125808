"""The statements that enter something into the outbox, for the transaction that writes what they name."""

from __future__ import annotations

from typing import Any, Final

from harness.store._packing import pack_json
from harness.store._sql import insert, insert_new

ENTERED: Final = ("kind", "id", "state", "attempts", "created_at", "due_at", "extra", "round")
"""The columns of the rows that ``entered`` makes."""

REPAIR: Final = pack_json({"repair": True})
"""``extra`` of what the worker is to delete on the other side before it sends it anew."""

_KEY = ("kind", "id")


def entered(kind: str, id_: str, now: Any, *, extra: str | None = None) -> list[Any]:
    """A row for ``enter_new`` and ``enter_anew``: pending, due now.

    Args:
        kind: What the id is of.
        id_: As the database carries it.
        now: As the database carries it.
        extra: JSON text.
    """
    return [kind, id_, "pending", 0, now, now, extra, 0]


def enter_new(mark: str) -> str:
    """Enter what is not known yet."""
    return insert_new("outbox", ENTERED, key=_KEY, mark=mark)


def enter_anew(mark: str, *, unless: str = "") -> str:
    """Enter what is new, and what is known for another round, to be rendered from its rows again.

    Args:
        mark: The driver's parameter mark.
        unless: A query; where it finds a row, what is known is left alone. Its values follow the row's own.
    """
    condition = f" WHERE NOT EXISTS ({unless})" if unless else ""
    return (
        f"{insert('outbox', ENTERED, mark=mark)} ON CONFLICT (kind, id) DO UPDATE SET state = 'pending', "
        "due_at = excluded.due_at, updated_at = excluded.due_at, attempts = 0, error = NULL, frozen = NULL, "
        f"frozen_hash = NULL, extra = excluded.extra, round = outbox.round + 1{condition}"
    )


def enter_again(mark: str) -> str:
    """Send once more, with the bytes it had, what was done with: values are now, now, kind and an id range."""
    return (
        f"UPDATE outbox SET state = 'pending', attempts = 0, due_at = {mark}, updated_at = {mark}, error = NULL, "  # noqa: S608 - marks
        f"round = round + 1 WHERE kind = {mark} AND id > {mark} AND id <= {mark} AND state IN ('verified', 'dead')"
    )


def enter_woken(mark: str) -> str:
    """Enter for repair a run that was swept in and now finishes after all: values are now, now, its id twice.

    It has to stand before the statement that writes the run: that the run still says running, and is entered all the
    same, is what tells it apart.
    """
    return (
        "UPDATE outbox SET state = 'pending', attempts = 0, error = NULL, frozen = NULL, frozen_hash = NULL, "  # noqa: S608 - marks and a constant
        f"extra = '{REPAIR}', round = round + 1, due_at = {mark}, updated_at = {mark} WHERE kind = 'run' "
        f"AND id = {mark} AND EXISTS (SELECT 1 FROM runs WHERE runs.id = {mark} AND runs.status = 'running')"
    )
