"""Repair: delete a trace, see it gone, let its spans and scores be sent again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from harness.mirror._ids import trace_id
from harness.mirror._project import ONCE
from harness.mirror._verify import rows_of
from harness.mirror._wire import Sent, ask, backoff
from harness.store import score_id

if TYPE_CHECKING:
    from harness.mirror._lane import Lane
    from harness.mirror._progress import Tally
    from harness.mirror._project import Project
    from harness.store import OutboxEntry, Store

SCORE_KEY: Final[tuple[str, ...]] = ("experiment", "case", "arm", "trial", "evaluator", "name")
"""The columns whose values, as a JSON list, are the outbox id of a score."""

_DELETE_SECONDS: Final = 5.0
_DELETE_AGAIN: Final = timedelta(minutes=10)


class Repairs:
    """Clears the way for runs whose spans in Langfuse are not to stay: changed tags, another start time.

    A server never merges rows of different start times and never blends an old version with a new one, so the trace
    goes first. Deleting takes effect some seconds after its answer.
    """

    def __init__(self, store: Store, project: Project, *, lane: Lane, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._outbox = store.outbox
        self._project = project
        self._lane = lane
        self._clock = clock

    def cleared(self, entry: OutboxEntry, tally: Tally) -> bool:
        """Whether the way is free for an entry's spans; else one step of its repair is done."""
        if not entry.extra.get("repair"):
            return True
        if not self._lane.ready:
            return False
        deleted = entry.extra.get("deleted_at")
        now = self._clock()
        if deleted is None or now - datetime.fromisoformat(deleted) > _DELETE_AGAIN:
            self._delete(entry, now)
            return False
        rows = rows_of(self._project, trace_id(entry.id))
        if isinstance(rows, Sent):
            self._lane.heard(rows)
            return False
        if rows:
            self._outbox.update([replace(entry, due_at=now + timedelta(seconds=_DELETE_SECONDS))])
            return False
        kept: dict[str, Any] = {k: v for k, v in entry.extra.items() if k in {"dead", "looks"}}
        # First what the deletion took along: killed in between, the repair is done once more.
        self._scores_again(entry.id)
        self._outbox.update([replace(entry, due_at=now, extra=kept)])
        tally.repaired += 1
        return False

    def _delete(self, entry: OutboxEntry, now: datetime) -> None:
        answer = ask(lambda: self._project.api.trace.delete(trace_id(entry.id), request_options=ONCE), now=now)
        if isinstance(answer, Sent) and answer.status != 404:
            self._lane.heard(answer)
            # Whether it was refused or lost, deleting twice does no harm.
            due = now + timedelta(seconds=backoff(entry.attempts + 1, asked=answer.retry_after))
            self._outbox.update([replace(entry, attempts=entry.attempts + 1, due_at=due, error=answer.words)])
            return
        extra = {**entry.extra, "deleted_at": now.isoformat()}
        self._outbox.update([replace(entry, due_at=now + timedelta(seconds=_DELETE_SECONDS), extra=extra)])

    def _scores_again(self, run: str) -> None:
        """Deleting a trace deletes its scores with it."""
        for trial in self._store.load("trials", run_id=run):
            key = {name: trial[name] for name in ("experiment", "case", "arm", "trial")}
            ids = [score_id(row) for row in self._store.load("scores", **key)]
            self._outbox.enter("score", ids, repair=True)
