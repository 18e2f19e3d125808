"""How far the mirror is behind, and what it could not send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from harness.errors import UsageError
from harness.mirror import _otel_sender as otel
from harness.mirror._ids import trace_id
from harness.mirror._lane import LANE
from harness.mirror._sender import KINDS
from harness.mirror._worker import now as _now

if TYPE_CHECKING:
    from harness.mirror._project import Project
    from harness.store import OutboxEntry, Store

_LISTED: Final = (*KINDS, otel.KIND)
_SPAN: Final = "span"


def status(store: Store, project: Project | None, *, clock: Callable[[], datetime] = _now) -> dict[str, Any]:
    """The mirror's state, in the shape of ``goldfork mirror status --json`` (docs/json.md).

    Returns:
        Counts ``pending``, ``accepted``, ``verified``, ``dead``; ``oldest_unverified_s``, the age in seconds of the
        oldest entry that is not seen yet; ``project``, ``paused``, ``trouble`` and ``lane`` (owner and end of the
        lease), each null when unknown; ``otel``, the same of the lane to a collector, null where there never was one.
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
        "lane": None if project is None else _holder(store, LANE, now),
        "otel": _collector(store, now),
    }


def _collector(store: Store, now: datetime) -> dict[str, Any] | None:
    if not store.load("leases", name=otel.LANE):
        return None
    notes, counts = store.outbox.notes(otel.LANE), store.outbox.counts((otel.KIND,))
    return {
        **{state: counts[state] for state in ("pending", "verified", "dead")},
        "paused": notes.get("paused"),
        "trouble": notes.get("trouble"),
        "lane": _holder(store, otel.LANE, now),
    }


def _holder(store: Store, lane: str, now: datetime) -> dict[str, Any] | None:
    row = next(iter(store.load("leases", name=lane)), None)
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


def dead(store: Store) -> Iterator[OutboxEntry]:
    """What was refused for good, by Langfuse or a collector, with its words; by kind and id, read a page at a time."""
    return (entry for kind in _LISTED for page in store.outbox.pages(kind, "dead") for entry in page)


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


def retry(
    store: Store, id_: str, *, clock: Callable[[], datetime] = _now, each: Callable[[OutboxEntry], None] | None = None
) -> int:
    """Let something dead be sent again.

    Args:
        store: Opened for writing.
        id_: Id of a dead entry, or of a run with dead spans.
        clock: Gives aware UTC times.
        each: Told of everything that is revived.

    Returns:
        How much was revived.

    Raises:
        UsageError: Nothing dead has that id.
    """
    made, spans = 0, 0
    for kind in _LISTED:
        for page in store.outbox.pages(kind, "dead"):
            found = [entry for entry in page if entry.id == id_ or (kind == _SPAN and entry.id.startswith(f"{id_}/"))]
            if kind == _SPAN:
                _spans_again(store, found, first=not spans)
                spans += len(found)
            else:
                store.outbox.update(
                    [
                        replace(entry, state="pending", attempts=0, due_at=clock(), error=None, extra={})
                        for entry in found
                    ]
                )
            made += len(found)
            if each is not None:
                for entry in found:
                    each(entry)
    if not made:
        raise UsageError(f"nothing dead has the id {id_!r}; `goldfork mirror dead` lists what there is")
    return made


def _spans_again(store: Store, found: list[OutboxEntry], *, first: bool) -> None:
    """A span is sent with its run; its own row only tells what happened."""
    if found and first:
        # First the run: killed in between, the spans are still listed as dead.
        store.outbox.enter("run", [found[0].id.rpartition("/")[0]], repair=True)
    store.outbox.update([replace(entry, state="verified", error="sent again") for entry in found])
