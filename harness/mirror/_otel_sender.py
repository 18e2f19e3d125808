"""The lane to an OpenTelemetry collector: finished runs go out once, as the same bytes at every try.

A collector cannot be asked what it holds, so 2xx is all there is: an entry goes from ``pending`` to ``verified``. When
an answer is lost the request is sent again; equal ids let the receiver see that it is the same.
"""

from __future__ import annotations

import json
import random
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from harness.errors import GoldforkError, StoreError
from harness.mirror._batch import Piece, batches, blamed, deliver
from harness.mirror._deadline import Deadline
from harness.mirror._lane import CLOSED, Lane
from harness.mirror._otel import export_head, export_request, export_spans
from harness.mirror._project import zipped
from harness.mirror._wire import Sent, bounded, by_error, by_status
from harness.mirror._worker import POLL_SECONDS, Stop, Worker, now, silent

if TYPE_CHECKING:
    import httpx

    from harness.mirror._otel_settings import OtelSettings
    from harness.record import Recording
    from harness.store import OutboxEntry, Store

KIND: Final = "otel"
"""Kind of the outbox entries that belong to this lane."""

LANE: Final = "mirror:otel"
"""Name of the lease that the one sender holds, and of the notes kept with it."""

_AT_ONCE: Final = 20
"""Runs that are frozen, and runs that are marked as sent, in one transaction."""
_OVERLAP: Final = timedelta(minutes=2)
"""How far behind the last look to look again: a transaction commits after its time stamp, and clocks differ."""
_SEARCH: Final = timedelta(minutes=10)
"""How often to look at everything: it takes a second for a million runs, and finds what a wrong clock hid."""
_MAX_ANSWER: Final = 65_536


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

    @property
    def worked(self) -> bool:
        """Whether anything moved."""
        return bool(self.entered or self.sent or self.dead)


class OtelLane(Worker):
    """Exports finished runs to one OTLP endpoint. Usable only in the process that made it."""

    def __init__(
        self,
        store: Store,
        settings: OtelSettings,
        *,
        clock: Callable[[], datetime] = now,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        say: Callable[[str], None] = silent,
    ) -> None:
        """Prepare a lane; nothing is sent or leased yet.

        Args:
            store: Opened for writing.
            settings: Where to, and what goes along; see ``OtelSettings.from_environment``.
            clock: Gives aware UTC times.
            sleep: Waits so many seconds; may return early to end.
            jitter: Gives numbers from 0 to 1 that spread the retries of several senders.
            say: Told in one sentence who else has the lane, or why it is closed.
        """
        lane = Lane(
            store.outbox,
            name=LANE,
            to=settings.host,
            clock=clock,
            jitter=jitter,
            advice=self._advice,
            longest=settings.timeout,
        )
        super().__init__(lane, clock=clock, sleep=sleep, say=say)
        self.settings = settings
        """Where to, and what goes along."""
        self._store = store
        self._outbox = store.outbox
        self._limit = Deadline()
        self._searched: datetime | None = None
        self._looked: datetime | None = None

    def run_once(self, *, early: bool = False) -> OtelProgress:  # noqa: ARG002 - the base class's parameter
        """Do one round: enter what finished, then send; at most a few runs, so that other lanes have their turn.

        Args:
            early: Changes nothing: a collector cannot be asked what it holds.

        Raises:
            UsageError: This is a forked child of the process that made the lane.
        """
        self._require_own_process("make one there")
        if self.settings.skipped:
            return OtelProgress(skipped=self.settings.skipped, wait=POLL_SECONDS)
        if not self._lane.open:
            return OtelProgress(wait=self._lane.wait, trouble=self.trouble)
        if not self._lane.hold():
            return OtelProgress(held=False, wait=POLL_SECONDS)
        entered = self._enter()
        due = self._outbox.due((KIND,), ("pending",), now=self._clock(), limit=_AT_ONCE)
        ready = self._frozen(due)
        done = self._send([entry for entry in ready if entry.state == "pending"])
        states = [entry.state for entry in (*done, *(entry for entry in ready if entry.state == "dead"))]
        if self._lane.denied:
            self._lane.release()
        return OtelProgress(
            entered=entered,
            sent=states.count("verified"),
            dead=states.count("dead"),
            wait=self._lane.wait or (0.0 if due else POLL_SECONDS),
            trouble=self.trouble,
        )

    def run(self, stop: Stop) -> None:
        """Work until told to stop; the lease is given back at the end. Returns at once when the lane is skipped."""
        if not self.settings.skipped:
            super().run(stop)

    def flush(self, seconds: float) -> bool:
        """Work until everything is sent or dead, or the time is up.

        Returns:
            Whether nothing is left; always when the lane is skipped.
        """
        return bool(self.settings.skipped) or super().flush(seconds)

    @property
    def left(self) -> int:
        """How many runs are still to be sent."""
        return self._outbox.counts((KIND,))["pending"]

    def close(self) -> None:
        """Let go of the lane and the connections."""
        self._lane.release()
        if "_http" in self.__dict__:
            self._http.close()

    def _advice(self, sent: Sent) -> str:
        return (
            f"{self.settings.host} does not take spans ({sent.words}); check the OTLP endpoint and "
            "OTEL_EXPORTER_OTLP_HEADERS"
        )

    def _finish_within(self, seconds: float | None) -> None:
        self._limit.end = None if seconds is None else time.monotonic() + seconds

    def _enter(self) -> int:
        """Enter the runs that finished since the last look; every few minutes, and at first, look at all there are."""
        moment = self._clock()
        if self._searched is None or moment - self._searched >= _SEARCH:
            since, self._searched = None, moment
        else:
            since = (self._looked or moment) - _OVERLAP
        self._looked = moment
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
            spans = export_spans(recording, content=self.settings.content)
        except (GoldforkError, StoreError, ValueError, RecursionError) as error:
            return replace(entry, state="dead", error=bounded(f"cannot be rendered: {error}"))
        head = export_head(resource=self.settings.resource, version=__version__)
        data = zlib.compress(b"\n".join([head, *spans]))
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
                if not self._lane.open:
                    break
        finally:
            if done:
                self._outbox.update(done)
        return done

    def _send_run(self, entry: OutboxEntry) -> OutboxEntry | None:
        """The entry after sending; ``None`` when another sender took over, who goes on with it as it was."""
        head, *spans = zlib.decompress(entry.frozen or b"").split(b"\n")
        sent = _Delivered.noted(entry.extra)
        pieces = [Piece(run=entry.id, data=span) for span in spans]
        tried = replace(entry, attempts=entry.attempts + 1)
        for batch in batches([pieces[sent.done :]]):
            answers = [answer for _, answer in deliver(batch, lambda some: self._post(head, some))]
            trouble = sent.settle(answers)
            if trouble is CLOSED:
                # The time is up, or another sender took over.
                return replace(entry, extra=asdict(sent)) if self._lane.hold() else None
            if trouble is not None:
                due = self._clock() + timedelta(seconds=self._lane.wait)
                return replace(tried, due_at=due, error=trouble.words, extra=asdict(sent))
        if sent.words:
            return replace(tried, state="dead", error=sent.told(len(spans)), extra=asdict(sent))
        return replace(tried, state="verified", error=None, frozen=None, extra={})

    def _post(self, head: bytes, pieces: Sequence[Piece]) -> Sent:
        """Post spans once, and draw the conclusions for everything else."""
        if not self._lane.ready:
            return CLOSED
        body = export_request(head, (piece.data for piece in pieces))
        sent = self._once(body)
        if sent.outcome == "refused" and len(pieces) == 1:
            nothing = export_request(head, ())
            sent = blamed(sent, len(body), lambda size: self._once(nothing, size=size))
        self._lane.heard(sent)
        return sent

    def _once(self, body: bytes, *, size: int = 0) -> Sent:
        """Post one request once; the words of what was accepted say what the collector rejected of it, if it did."""
        import httpx

        headers = {**self.settings.headers, "content-type": "application/json"}
        if self.settings.gzip:
            headers["content-encoding"] = "gzip"
        sent = zipped(body, size=size) if self.settings.gzip else body.ljust(size)
        try:
            answer = self._http.post(self.settings.endpoint, content=sent, headers=headers)
        except httpx.RequestError as error:
            # A collector cannot be asked whether it has them: equal ids let it see that they are the same.
            return replace(by_error(error), outcome="retry")
        found = by_status(answer.status_code, answer.headers, answer.text[:_MAX_ANSWER], now=self._clock())
        return replace(found, words=_rejected(answer.content)) if found.outcome == "accepted" else found

    @cached_property
    def _http(self) -> httpx.Client:
        """The connections: redirects off, every wait bounded, nothing taken from the environment but proxies."""
        import httpx

        return httpx.Client(
            timeout=httpx.Timeout(self.settings.timeout),
            follow_redirects=False,
            event_hooks=self._limit.hooks,
            verify=self.settings.tls(),
        )


@dataclass(slots=True, kw_only=True)
class _Delivered:
    """How far a run has come."""

    done: int = 0
    """Spans that were taken or refused."""
    refused: int = 0
    words: str = ""
    """What was said of the first that were not taken; empty while all were."""

    @classmethod
    def noted(cls, extra: Mapping[str, Any]) -> _Delivered:
        """As it was noted with the entry."""
        return cls(done=extra.get("done", 0), refused=extra.get("refused", 0), words=extra.get("words", ""))

    def settle(self, answers: Sequence[Sent]) -> Sent | None:
        """Count the answers to one batch, a span each; the first that settles nothing comes back."""
        for sent in answers:
            if sent.outcome not in {"accepted", "refused"}:
                return sent
            self.done += 1
            self.refused += sent.outcome == "refused"
            self.words = self.words or sent.words
        return None

    def told(self, spans: int) -> str:
        """What to say of a run of so many spans that did not go through whole."""
        some = self.refused and self.refused < spans
        return f"{self.words} ({self.refused} of {spans} spans; the others were taken)" if some else self.words


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
