"""The lane to an OpenTelemetry collector: finished runs go out once, as the same bytes at every try.

A collector cannot be asked what it holds, so 2xx is all there is: an entry goes from ``pending`` to ``verified``. When
an answer is lost the request is sent again; equal ids let the receiver see that it is the same.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import socket
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from harness.errors import GoldforkError, StoreError, UsageError
from harness.mirror._deadline import Deadline
from harness.mirror._otel import export_requests
from harness.mirror._wire import MAX_WAIT, Sent, backoff, bounded, by_error, by_status

if TYPE_CHECKING:
    import httpx

    from harness.mirror._otel_settings import OtelSettings
    from harness.mirror._sender import Stop
    from harness.record import Recording
    from harness.store import OutboxEntry, Store

KIND: Final = "otel"
"""Kind of the outbox entries that belong to this lane."""

LANE: Final = "mirror:otel"
"""Name of the lease that the one sender holds, and of the notes kept with it."""

_AT_ONCE: Final = 20
"""Runs that are frozen, and runs that are marked as sent, in one transaction."""
_POLL_SECONDS: Final = 1.0
_LEASE_SECONDS: Final = 180.0
"""How long the lane stays taken after its holder has died; longer than any one request."""
_RENEW: Final = timedelta(seconds=20)
_OVERLAP: Final = timedelta(minutes=2)
"""How far behind the last look to look again: a transaction commits after its time stamp, and clocks differ."""
_SEARCH: Final = timedelta(minutes=10)
"""How often to look at everything: it takes a second for a million runs, and finds what a wrong clock hid."""
_MAX_ANSWER: Final = 65_536


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelProgress:
    """What one round did."""

    entered: int = 0
    """Runs that were found finished and entered."""
    sent: int = 0
    """Runs that the collector took."""
    dead: int = 0
    """Runs that it refused for good, or that cannot be rendered."""
    held: bool = True
    """False when another sender has the lane."""
    wait: float = 0.0
    """Seconds until the next round makes sense; 0 when there is more to do at once."""
    trouble: str = ""
    """Why the lane is closed for the moment; empty while it is open."""
    skipped: str = ""
    """Why this lane never sends anything; empty when it does."""


class OtelLane:
    """Exports finished runs to one OTLP endpoint. Usable only in the process that made it."""

    def __init__(
        self,
        store: Store,
        settings: OtelSettings,
        *,
        clock: Callable[[], datetime] = _now,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Prepare a lane; nothing is sent or leased yet.

        Args:
            store: Opened for writing.
            settings: Where to, and what goes along; see ``OtelSettings.from_environment``.
            clock: Gives aware UTC times.
            sleep: Waits so many seconds; may return early to end.
            jitter: Gives numbers from 0 to 1 that spread the retries of several senders.
        """
        self._pid = os.getpid()
        self.settings = settings
        """Where to, and what goes along."""
        self._store = store
        self._outbox = store.outbox
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._owner = f"{socket.gethostname()}:{self._pid}:{os.urandom(4).hex()}"
        self._renewed: datetime | None = None
        self._failures = 0
        self._blocked_until: datetime | None = None
        self._trouble = ""
        self._searched: datetime | None = None
        self._looked: datetime | None = None

    def run_once(self) -> OtelProgress:
        """Do one round: enter what finished, then send; at most a few runs, so that other lanes have their turn.

        Raises:
            UsageError: This is a forked child of the process that made the lane.
        """
        if os.getpid() != self._pid:
            raise UsageError("an OpenTelemetry lane does not live in a forked child; make one there")
        if self.settings.skipped:
            return OtelProgress(skipped=self.settings.skipped, wait=_POLL_SECONDS)
        if (wait := self._closed_for()) > 0:
            return OtelProgress(wait=wait, trouble=self._trouble)
        if not self._hold():
            return OtelProgress(held=False, wait=_POLL_SECONDS)
        entered = self._follow()
        due = self._outbox.due((KIND,), ("pending",), now=self._clock(), limit=_AT_ONCE)
        ready = self._frozen(due)
        done = self._send([entry for entry in ready if entry.state == "pending"])
        states = [entry.state for entry in (*done, *(entry for entry in ready if entry.state == "dead"))]
        return OtelProgress(
            entered=entered,
            sent=states.count("verified"),
            dead=states.count("dead"),
            wait=self._closed_for() or (0.0 if due else _POLL_SECONDS),
            trouble=self._trouble,
        )

    def run(self, stop: Stop) -> None:
        """Work until told to stop; the lease is given back at the end. Returns at once when the lane is skipped."""
        try:
            while not (stop.is_set() or self.settings.skipped):
                progress = self.run_once()
                if progress.wait:
                    self._sleep(progress.wait)
        finally:
            self._release()

    def flush(self, seconds: float) -> bool:
        """Work until everything is sent or dead, or the time is up.

        Returns:
            Whether nothing is left; always when the lane is skipped.
        """
        end = self._clock() + timedelta(seconds=seconds)
        try:
            while True:
                progress = self.run_once()
                if progress.skipped or not self.left:
                    return True
                rest = (end - self._clock()).total_seconds()
                if rest <= 0:
                    return False
                if progress.wait:
                    self._sleep(min(progress.wait, rest))
        finally:
            self._release()

    @property
    def left(self) -> int:
        """How many runs are still to be sent."""
        return self._outbox.counts((KIND,))["pending"]

    def close(self) -> None:
        """Let go of the lane and the connections."""
        self._release()
        if "_http" in self.__dict__:
            self._http.close()

    def _hold(self) -> bool:
        """Take the lease, or renew it where that is due; false when another sender has it."""
        now = self._clock()
        if self._renewed is not None and now - self._renewed < _RENEW:
            return True
        # What one request may take at most comes on top.
        seconds = _LEASE_SECONDS + self.settings.timeout
        held = self._outbox.lease(LANE, self._owner, seconds=seconds, now=now)
        self._renewed = now if held else None
        return held

    def _release(self) -> None:
        self._renewed = None
        self._outbox.release(LANE, self._owner)

    def _closed_for(self) -> float:
        until = self._blocked_until
        return 0.0 if until is None else max(0.0, (until - self._clock()).total_seconds())

    def _follow(self) -> int:
        """Enter the runs that finished since the last look; every few minutes, and at first, look at all there are."""
        now = self._clock()
        if self._searched is None or now - self._searched >= _SEARCH:
            since, self._searched = None, now
        else:
            since = (self._looked or now) - _OVERLAP
        self._looked = now
        return self._outbox.follow(KIND, of="run", since=since)

    def _frozen(self, entries: Sequence[OutboxEntry]) -> list[OutboxEntry]:
        """The entries with their bytes, committed before anything is sent."""
        bare = [entry.id for entry in entries if entry.frozen is None]
        found = {recording.run.id: recording for recording in self._store.recordings(bare)} if bare else {}
        made = [entry if entry.frozen is not None else self._freeze(entry, found.get(entry.id)) for entry in entries]
        if bare:
            self._outbox.update(made)
        return made

    def _freeze(self, entry: OutboxEntry, recording: Recording | None) -> OutboxEntry:
        from harness import __version__

        if recording is None:
            return replace(entry, state="dead", error="the run is no longer in the store")
        try:
            requests = export_requests(
                recording, resource=self.settings.resource, content=self.settings.content, version=__version__
            )
        except (GoldforkError, StoreError, ValueError, RecursionError) as error:
            return replace(entry, state="dead", error=bounded(f"cannot be rendered: {error}"))
        data = zlib.compress(b"\n".join(requests))
        return replace(entry, frozen=data, frozen_hash=sha256(data).hexdigest(), extra={})

    def _send(self, entries: Sequence[OutboxEntry]) -> list[OutboxEntry]:
        """Send runs one after the other until something is wrong with the other end; commit what became of them."""
        done: list[OutboxEntry] = []
        try:
            for entry in entries:
                sent = self._send_run(entry)
                if sent is None:
                    break
                done.append(sent)
                if self._closed_for() > 0:
                    break
        finally:
            if done:
                self._outbox.update(done)
        return done

    def _send_run(self, entry: OutboxEntry) -> OutboxEntry | None:
        """The entry after sending; ``None`` when another sender took over, who goes on with it as it was."""
        requests = zlib.decompress(entry.frozen or b"").split(b"\n")
        sent = int(entry.extra.get("sent", 0))
        rejected = str(entry.extra.get("rejected", ""))
        tried = replace(entry, attempts=entry.attempts + 1)
        for number, body in enumerate(requests[sent:], start=sent):
            if not self._hold():
                return None
            outcome, words = self._post(body)
            self._heard(outcome)
            if outcome.outcome == "refused":
                return replace(tried, state="dead", error=outcome.words, extra={"sent": number})
            if outcome.outcome != "accepted":
                due = self._clock() + timedelta(seconds=self._closed_for())
                extra = {"sent": number, "rejected": rejected}
                return replace(tried, due_at=due, error=outcome.words, extra=extra)
            rejected = rejected or words
        if rejected:
            return replace(tried, state="dead", error=rejected, extra={"sent": len(requests)})
        return replace(tried, state="verified", error=None, frozen=None, extra={})

    def _post(self, body: bytes) -> tuple[Sent, str]:
        """Post one request once; the second value says what the collector rejected of it, if it did."""
        import httpx

        headers = {**self.settings.headers, "content-type": "application/json"}
        if self.settings.gzip:
            headers["content-encoding"] = "gzip"
            body = gzip.compress(body, 6, mtime=0)
        try:
            answer = self._http.post(self.settings.endpoint, content=body, headers=headers)
        except httpx.RequestError as error:
            return by_error(error), ""
        sent = by_status(answer.status_code, answer.headers, answer.text[:_MAX_ANSWER], now=self._clock())
        return sent, _rejected(answer.content) if sent.outcome == "accepted" else ""

    def _heard(self, sent: Sent) -> None:
        """Close the lane for a while when the other end takes nothing at all."""
        if sent.outcome in {"accepted", "refused"}:
            self._failures, self._blocked_until = 0, None
            self._say("")
            return
        self._failures += 1
        denied = sent.outcome == "denied"
        wait = MAX_WAIT if denied else backoff(self._failures, asked=sent.retry_after, jitter=self._jitter)
        self._blocked_until = self._clock() + timedelta(seconds=wait)
        hint = "; check the OTLP endpoint and OTEL_EXPORTER_OTLP_HEADERS" if denied else ""
        self._say(f"{self.settings.host} does not take spans ({sent.words}){hint}")

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._outbox.note(LANE, {"trouble": trouble or None})

    @cached_property
    def _http(self) -> httpx.Client:
        """The connections: redirects off, every wait bounded, nothing taken from the environment but proxies."""
        import httpx

        timeout = httpx.Timeout(self.settings.timeout)
        return httpx.Client(timeout=timeout, follow_redirects=False, event_hooks=Deadline().hooks)


def _rejected(answer: bytes) -> str:
    """What a collector that took the request says of the spans that it did not take; empty when it took all.

    Source: OTLP 1.x, ``ExportTracePartialSuccess``; a warning without rejected spans is no rejection.
    """
    try:
        value: Any = json.loads(answer[:_MAX_ANSWER])
    except (ValueError, RecursionError):
        return ""
    partial = value.get("partialSuccess") if isinstance(value, Mapping) else None
    if not isinstance(partial, Mapping):
        return ""
    count = str(partial.get("rejectedSpans", 0))
    if not (count.isascii() and count.isdigit()) or int(count[:12]) == 0:
        return ""
    words = partial.get("errorMessage") or "without saying why"
    return bounded(f"the collector rejected {count[:12]} spans: {words}")
