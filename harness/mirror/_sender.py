"""The worker: one lane out of one store to one project, in a process of its own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from harness.errors import UsageError
from harness.mirror._lane import LANE, Lane
from harness.mirror._patience import Unanswered
from harness.mirror._prepare import Preparation
from harness.mirror._progress import Progress, Tally
from harness.mirror._runs import Runs
from harness.mirror._scores import Scores
from harness.mirror._upload import Uploads
from harness.mirror._wire import MAX_WORDS, Sent, bounded
from harness.mirror._worker import POLL_SECONDS, Worker, now, silent

if TYPE_CHECKING:
    from harness.mirror._project import Project
    from harness.store import Store

KINDS: Final = ("run", "score", "span")
"""The kinds of outbox entries that belong to this mirror."""

_SWEEP: Final = timedelta(minutes=1)
_CONTACT: Final = timedelta(hours=1)


class Sender(Worker):
    """Sends what the outbox holds, verifies it, repairs it. Usable only in the process that made it."""

    def __init__(
        self,
        store: Store,
        project: Project,
        *,
        clock: Callable[[], datetime] = now,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        run_url: str = "",
        upload_media: bool = False,
        say: Callable[[str], None] = silent,
    ) -> None:
        """Prepare a sender; nothing is sent or leased yet.

        Args:
            store: Opened for writing.
            project: Where to.
            clock: Gives aware UTC times.
            sleep: Waits so many seconds; may return early to end.
            jitter: Gives numbers from 0 to 1 that spread the retries of several senders.
            run_url: Address of a run's page of our own, with ``{run}`` in it; empty for none.
            upload_media: Upload the files that stand in texts; else a note stands in their place alone.
            say: Told in one sentence who else has the lane, or why it is closed.
        """
        lane = Lane(store.outbox, name=LANE, to=project.host, clock=clock, jitter=jitter, advice=_advice)
        super().__init__(lane, clock=clock, sleep=sleep, say=say)
        self.project = project
        """Where to."""
        self._outbox = store.outbox
        uploads = Uploads(project, lane=self._lane, clock=clock) if upload_media else None
        preparation = Preparation(store, project, lane=self._lane, run_url=run_url, uploads=uploads)
        self._runs = Runs(store, project, lane=self._lane, preparation=preparation, clock=clock)
        self._scores = Scores(store, project, lane=self._lane, clock=clock)
        self._swept: datetime | None = None
        self._met: datetime | None = None

    def run_once(self, *, early: bool = False) -> Progress:
        """Do one round: sweep, send, verify; at most two hundred runs and two hundred scores.

        Args:
            early: Look for everything accepted now, whether its time has come or not.

        Raises:
            UsageError: This is a forked child of the process that made the sender, or what the store holds goes to
                another project.
        """
        self._require_own_process("start `goldfork mirror run` instead")
        tally = Tally()
        if not self._lane.open:
            return self._progress(tally)
        if not self._lane.hold():
            return Progress(tally=tally, held=False, wait=POLL_SECONDS)
        if self._swept is None or self._clock() - self._swept >= _SWEEP:
            tally.swept = self._enter()
        for part in (
            self._meet,
            lambda: self._runs.send(tally),
            lambda: self._scores.send(tally),
            lambda: self._runs.verify(tally, early=early),
            lambda: self._scores.verify(tally, early=early),
        ):
            if self._lane.open:
                part()
        return self._progress(tally)

    def verify(self, *, everything: bool = False) -> Tally:
        """Look now, once, for everything accepted, and let what is missing be sent again.

        Args:
            everything: Look for what was verified before, too.

        Raises:
            UsageError: Another sender has the lane, or what the store holds goes to another project.
            Unanswered: The server rejected the keys or did not answer, so that nothing is known of the rest.
        """
        tally = Tally()
        if not self._lane.hold():
            raise UsageError(self._lane.taken or "another sender had the lane a moment ago; try again")
        # What was known an hour ago is no answer now.
        self._met = None
        try:
            self._meet()
            for part in (self._runs, self._scores):
                part.verify_now(tally)
                if everything:
                    part.verify_again(tally)
        finally:
            self._lane.release()
        if self.trouble:
            before = f" after {tally.verified} of {tally.looked} were seen" if tally.looked else ""
            raise Unanswered(f"{self.project.host} could not be asked what it holds{before}: {self.trouble}")
        return tally

    @property
    def left(self) -> int:
        """How many entries are neither verified nor dead."""
        counts = self._outbox.counts(KINDS)
        return counts["pending"] + counts["accepted"]

    def close(self) -> None:
        """Let go of the lane and the connections."""
        self._lane.release()
        self.project.close()

    def _enter(self) -> int:
        self._swept = self._clock()
        return self._outbox.sweep()

    def _finish_within(self, seconds: float | None) -> None:
        self.project.finish_within(seconds)

    def _meet(self) -> None:
        """Learn what the server is and what the project is called; repeated, since servers are upgraded."""
        if self._met is not None and self._clock() - self._met < _CONTACT:
            return
        health = self._read("/api/public/health")
        projects = None if health is None else self._read("/api/public/projects")
        if health is None or projects is None:
            return
        listed, version = projects.get("data"), health.get("version")
        first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
        if not _is_id(first.get("id")):
            self._lane.heard(Sent(outcome="retry", words="the server does not say which project the keys belong to"))
            return
        self._require_same(first["id"])
        met = {
            "server_version": bounded(version) if isinstance(version, str) else None,
            "address": self.project.base_url,
            "project_id": first["id"],
            "project": bounded(first["name"]) if isinstance(first.get("name"), str) else None,
            "any_project": None,
        }
        noted = self._outbox.notes(LANE)
        if any(noted.get(name) != value for name, value in met.items()):
            self._lane.note(**met)
        self._met = self._clock()

    def _require_same(self, project_id: str) -> None:
        """Refuse another project than the one that the store's entries were sent to: they do not say where to."""
        noted = self._outbox.notes(LANE)
        known = noted.get("project_id")
        if known is not None and known != project_id and not noted.get("any_project"):
            raise UsageError(
                f"the store is mirrored to project {known!r} and the keys belong to project {project_id!r}; set the "
                "keys of the first, or run `goldfork mirror backfill --again` to send everything to the second"
            )

    def _read(self, path: str) -> dict[str, Any] | None:
        answer = self.project.get(path, {})
        if not isinstance(answer, dict):
            unknown = Sent(outcome="retry", words=f"{path} answers with something unknown")
            self._lane.heard(answer if isinstance(answer, Sent) else unknown)
            return None
        self._lane.heard(Sent(outcome="accepted"))
        return answer

    def _progress(self, tally: Tally) -> Progress:
        if self._lane.denied:
            # Whoever has better keys need not wait for the lease to run out.
            self._lane.release()
        if (wait := self._lane.wait) > 0:
            return Progress(tally=tally, held=True, wait=wait, trouble=self.trouble)
        return Progress(tally=tally, held=True, wait=0.0 if tally.worked else POLL_SECONDS)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_WORDS and value.isprintable()


def _advice(sent: Sent) -> str:
    if sent.status in {401, 403}:
        return f"Langfuse refuses the keys ({sent.words}); set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY to good ones"
    if sent.status == 413:
        return (
            f"what stands before Langfuse takes no request, however small ({sent.words}); raise its limit for request "
            "bodies to 4 MB (nginx: client_max_body_size)"
        )
    return f"this address does not take what the mirror sends ({sent.words}); check LANGFUSE_BASE_URL"
