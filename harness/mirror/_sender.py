"""The worker: one lane out of one store to one project, in a process of its own."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.errors import UsageError
from harness.mirror._lane import LANE, Lane
from harness.mirror._prepare import Preparation
from harness.mirror._progress import Progress, Tally
from harness.mirror._runs import Runs
from harness.mirror._scores import Scores
from harness.mirror._upload import Uploads
from harness.mirror._wire import Sent

if TYPE_CHECKING:
    from harness.mirror._project import Project
    from harness.store import Store

KINDS: Final = ("run", "score", "span")
"""The kinds of outbox entries that belong to this mirror."""

_POLL_SECONDS: Final = 1.0
_SWEEP: Final = timedelta(minutes=1)
_CONTACT: Final = timedelta(hours=1)
_LEAST_WAIT: Final = 0.05


class Stop(Protocol):
    """Says when to end; ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """Whether to end after this round."""
        ...


def _now() -> datetime:
    return datetime.now(UTC)


class Sender:
    """Sends what the outbox holds, verifies it, repairs it. Usable only in the process that made it."""

    def __init__(
        self,
        store: Store,
        project: Project,
        *,
        clock: Callable[[], datetime] = _now,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        run_url: str = "",
        upload_media: bool = False,
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
        """
        self._pid = os.getpid()
        self.project = project
        """Where to."""
        self._outbox = store.outbox
        self._clock = clock
        self._sleep = sleep
        self.owner = f"{socket.gethostname()}:{self._pid}:{os.urandom(4).hex()}"
        """Who holds the lease."""
        self._lane = Lane(store.outbox, owner=self.owner, clock=clock, jitter=jitter)
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
        if os.getpid() != self._pid:
            raise UsageError("a mirror sender does not live in a forked child; start `goldfork mirror run` instead")
        tally = Tally()
        if not self._lane.open:
            return self._progress(tally, held=True)
        if not self._lane.hold():
            return Progress(tally=tally, held=False, wait=_POLL_SECONDS)
        if self._swept is None or self._clock() - self._swept >= _SWEEP:
            tally.swept = self._outbox.sweep()
            self._swept = self._clock()
        for part in (
            self._meet,
            lambda: self._runs.send(tally),
            lambda: self._scores.send(tally),
            lambda: self._runs.verify(tally, early=early),
            lambda: self._scores.verify(tally, early=early),
        ):
            if self._lane.open:
                part()
        return self._progress(tally, held=True)

    def run(self, stop: Stop) -> None:
        """Work until told to stop; the lease is given back at the end."""
        try:
            while not stop.is_set():
                progress = self.run_once()
                if progress.wait:
                    self._sleep(progress.wait)
        finally:
            self._lane.release()

    def flush(self, seconds: float) -> bool:
        """Send and look until everything is verified or dead, or the time is up.

        Returns:
            Whether nothing is left.
        """
        end = self._lane.deadline = self._clock() + timedelta(seconds=seconds)
        self.project.finish_within(seconds)
        pause = _LEAST_WAIT
        try:
            while self.left:
                progress = self.run_once(early=True)
                rest = (end - self._clock()).total_seconds()
                if rest <= 0:
                    break
                pause = _LEAST_WAIT if progress.tally.worked else min(pause * 2, _POLL_SECONDS)
                self._sleep(min(max(progress.wait if progress.trouble else 0.0, pause), rest))
            return not self.left
        finally:
            self._lane.deadline = None
            self.project.finish_within(None)
            self._lane.release()

    def verify(self, *, everything: bool = False) -> Tally:
        """Look now, once, for everything accepted, and let what is missing be sent again.

        Args:
            everything: Look for what was verified before, too.

        Raises:
            UsageError: Another sender has the lane, or what the store holds goes to another project.
        """
        tally = Tally()
        if not self._lane.hold():
            raise UsageError("another sender has the lane and verifies by itself; `goldfork mirror status` names it")
        try:
            self._meet()
            for part in (self._runs, self._scores):
                part.verify_now(tally)
                if everything:
                    part.verify_again(tally)
        finally:
            self._lane.release()
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
        if not isinstance(first.get("id"), str):
            self._lane.heard(Sent(outcome="retry", words="the server does not say which project the keys belong to"))
            return
        self._require_same(first["id"])
        met = {
            "server_version": version if isinstance(version, str) else None,
            "address": self.project.base_url,
            "project_id": first["id"],
            "project": first.get("name"),
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

    def _progress(self, tally: Tally, *, held: bool) -> Progress:
        trouble = self._lane.trouble
        until = self._lane.blocked_until
        if until is not None and (wait := (until - self._clock()).total_seconds()) > 0:
            return Progress(tally=tally, held=held, wait=wait, trouble=trouble.words if trouble else "")
        return Progress(tally=tally, held=held, wait=0.0 if tally.worked else _POLL_SECONDS)
