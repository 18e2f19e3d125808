"""How far the mirror is behind, and what it could not send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.mirror._ids import trace_id
from harness.mirror._lane import LANE
from harness.mirror._sender import KINDS

if TYPE_CHECKING:
    from harness.mirror._project import Project
    from harness.store import OutboxEntry, Store

_MOST_DEAD = 100_000


def _now() -> datetime:
    return datetime.now(UTC)


def status(store: Store, project: Project | None, *, clock: Callable[[], datetime] = _now) -> dict[str, Any]:
    """The mirror's state, in the shape of ``goldfork mirror status --json`` (docs/json.md).

    Returns:
        Counts ``pending``, ``accepted``, ``verified``, ``dead``; ``oldest_unverified_s``, the age in seconds of the
        oldest entry that is not seen yet; ``project``, ``paused``, ``trouble`` and ``lane`` (owner and end of the
        lease), each null when unknown.
    """
    now = clock()
    oldest = store.outbox.oldest_unverified(KINDS)
    notes = {} if project is None else store.outbox.notes(LANE)
    known = None
    if project is not None:
        address = notes.get("address", project.base_url)
        known = {"id": notes.get("project_id"), "name": notes.get("project"), "url": address}
    return {
        **store.outbox.counts(KINDS),
        "oldest_unverified_s": None if oldest is None else max((now - oldest).total_seconds(), 0.0),
        "project": known,
        "server_version": notes.get("server_version"),
        "paused": notes.get("paused"),
        "trouble": notes.get("trouble"),
        "lane": None if project is None else _holder(store, now),
    }


def _holder(store: Store, now: datetime) -> dict[str, Any] | None:
    row = next(iter(store.load("leases", name=LANE)), None)
    if row is None or not row["owner"] or row["expires_at"] is None or row["expires_at"] <= now:
        return None
    return {"owner": row["owner"], "until": row["expires_at"].isoformat()}


def run_link(store: Store, run: str) -> str | None:
    """Address of a run's page in Langfuse; ``None`` when it is not there or the project was never reached."""
    entry = next(iter(store.load("outbox", kind="run", id=run)), None)
    if entry is None or entry["state"] not in {"accepted", "verified"}:
        return None
    notes = store.outbox.notes(LANE)
    address, project = notes.get("address"), notes.get("project_id")
    return f"{address}/project/{project}/traces/{trace_id(run)}" if address and project else None


def dead(store: Store, *, limit: int = _MOST_DEAD) -> list[OutboxEntry]:
    """What the server refused for good, with its words."""
    return store.outbox.entries(KINDS, ("dead",), limit=limit)


def backfill(store: Store, *, again: bool = False) -> int:
    """Enter every finished run and every score of the store.

    Args:
        store: Opened for writing.
        again: What was sent before, too; from then on a sender for another project may begin.

    Returns:
        How many entries became pending.
    """
    made = store.outbox.backfill(again=again)
    if again:
        # Not the project itself: a sender that is at work goes on with it, and links lead there.
        store.outbox.note(LANE, {"any_project": True})
    return made


def retry(store: Store, id_: str, *, clock: Callable[[], datetime] = _now) -> list[OutboxEntry]:
    """Let something dead be sent again.

    Args:
        store: Opened for writing.
        id_: Id of a dead entry, or of a run with dead spans.
        clock: Gives aware UTC times.

    Returns:
        What was revived.

    Raises:
        UsageError: Nothing dead has that id.
    """
    found = [entry for entry in dead(store) if entry.id == id_ or entry.id.startswith(f"{id_}/")]
    if not found:
        raise UsageError(f"nothing dead has the id {id_!r}; `goldfork mirror dead` lists what there is")
    rows = [
        replace(entry, state="pending", attempts=0, due_at=clock(), error=None, extra={})
        for entry in found
        if entry.kind != "span"
    ]
    # A span is sent with its run; its own row only tells what happened.
    rows += [replace(entry, state="verified", error="sent again") for entry in found if entry.kind == "span"]
    # First the runs: killed in between, the spans are still listed as dead.
    runs = {entry.id.rpartition("/")[0] for entry in found if entry.kind == "span"}
    store.outbox.enter("run", sorted(runs), repair=True)
    store.outbox.update(rows)
    return found
