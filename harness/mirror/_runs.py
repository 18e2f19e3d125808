"""The life of a run's outbox entry: frozen, sent, seen, and repaired where the server holds something else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import orjson

from harness.mirror._batch import Piece, batches, blamed, deliver
from harness.mirror._freeze import envelope, thaw
from harness.mirror._ids import trace_id
from harness.mirror._lane import CLOSED
from harness.mirror._pages import AT_ONCE, FAR, accepted, verified
from harness.mirror._repair import Repairs
from harness.mirror._verify import SOON, Seen, compare, expected, next_look, rows_of
from harness.mirror._wire import Sent, backoff

if TYPE_CHECKING:
    from harness.mirror._lane import Lane
    from harness.mirror._prepare import Preparation
    from harness.mirror._progress import Tally
    from harness.mirror._project import Project
    from harness.store import OutboxEntry, Store

_ALONE_AFTER: Final = 5


class Runs:
    """Sends and verifies the runs of one store to one project."""

    def __init__(
        self, store: Store, project: Project, *, lane: Lane, preparation: Preparation, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._outbox = store.outbox
        self._project = project
        self._lane = lane
        self._preparation = preparation
        self._clock = clock
        self._repairs = Repairs(store, project, lane=lane, clock=clock)

    def send(self, tally: Tally) -> None:
        """Freeze and send what is due. The bytes are committed before they leave, so that a kill repeats them."""
        due = self._outbox.due(("run",), ("pending",), now=self._clock(), limit=AT_ONCE)
        ready = [entry for entry in due if self._repairs.cleared(entry, tally)]
        known = {entry.id: entry for entry in ready}
        for some in self._preparation.frozen([entry for entry in ready if entry.frozen is None]):
            # What is given back as it came was not looked at; another sender may have been at it.
            self._outbox.update([entry for entry in some if entry is not known[entry.id]])
            tally.frozen += sum(entry.frozen is not None for entry in some)
            tally.dead += sum(entry.state == "dead" for entry in some)
            self._post_all([entry for entry in some if entry.state == "pending" and entry.frozen is not None], tally)
            if not self._lane.open:
                return
        self._post_all([entry for entry in ready if entry.frozen is not None], tally)

    def _post_all(self, entries: Sequence[OutboxEntry], tally: Tally) -> None:
        # A run that has failed often may be what the server stumbles over: it must not hold up others.
        alone = [[entry] for entry in entries if entry.attempts >= _ALONE_AFTER]
        together = [entry for entry in entries if entry.attempts < _ALONE_AFTER]
        for group in ([together] if together else []) + alone:
            if not self._lane.ready:
                return
            self._post(group, tally)

    def _post(self, entries: Sequence[OutboxEntry], tally: Tally) -> None:
        waiting = {entry.id: entry for entry in entries}
        answers: dict[str, list[tuple[Piece, Sent]]] = defaultdict(list)
        counts = {entry.id: 0 for entry in entries}
        packed = []
        for entry in entries:
            pieces = _pieces(entry)
            counts[entry.id] = len(pieces)
            packed.append(pieces)
        for batch in batches(packed):
            for piece, sent in deliver(batch, lambda pieces: self._post_once(pieces, tally)):
                answers[piece.run].append((piece, sent))
            # A run of several requests is settled by its last one, or by the first that did not go through; one that
            # the lane closed before stays as it is.
            cut = {run for run, found in answers.items() if any(sent is CLOSED for _, sent in found)}
            done = [r for r, found in answers.items() if r not in cut and (len(found) == counts[r] or _stuck(found))]
            self._settle([(waiting.pop(run), answers.pop(run)) for run in done if run in waiting], tally)
            if cut or not self._lane.ready:
                return
        # A run whose spans are all dead has nothing left to send.
        self._settle([(entry, []) for entry in waiting.values()], tally)

    def _post_once(self, pieces: Sequence[Piece], tally: Tally) -> Sent:
        if not self._lane.ready:
            # Requests may have taken so long that another sender took over, or that the time is up.
            return CLOSED
        key = self._project.public_key
        body = envelope((piece.data for piece in pieces), public_key=key)
        sent = self._project.post_spans(body)
        if sent.outcome == "refused" and len(pieces) == 1:
            nothing = envelope((), public_key=key)
            sent = blamed(sent, len(body), lambda size: self._project.post_spans(nothing, size=size))
        self._lane.heard(sent)
        if sent.outcome == "accepted":
            tally.spans += len(pieces)
        return sent

    def _settle(self, settled: Iterable[tuple[OutboxEntry, list[tuple[Piece, Sent]]]], tally: Tally) -> None:
        rows: list[OutboxEntry] = []
        for entry, answers in settled:
            refused = [(piece, sent) for piece, sent in answers if sent.outcome == "refused"]
            rows += [self._dead_span(entry, piece, sent) for piece, sent in refused]
            tally.dead += len(refused)
            rows.append(self._sent(entry, answers, [_span(piece.data) for piece, _ in refused]))
            tally.accepted += rows[-1].state == "accepted"
        if rows:
            self._outbox.update(rows)

    def _sent(self, entry: OutboxEntry, answers: Sequence[tuple[Piece, Sent]], refused: Sequence[str]) -> OutboxEntry:
        now = self._clock()
        extra = dict(entry.extra)
        if refused:
            extra["dead"] = [*extra.get("dead", ()), *refused]
        tried = replace(entry, attempts=entry.attempts + 1, extra=extra)
        outcomes = {sent.outcome: sent for _, sent in answers}
        if "denied" in outcomes:
            return replace(entry, extra=extra, error=outcomes["denied"].words)
        if "retry" in outcomes:
            sent = outcomes["retry"]
            wait = backoff(tried.attempts, asked=sent.retry_after)
            return replace(tried, due_at=now + timedelta(seconds=wait), error=sent.words)
        extra.pop("only", None)
        if "ambiguous" in outcomes:
            due = now + timedelta(seconds=SOON)
            return replace(tried, state="accepted", due_at=due, error=outcomes["ambiguous"].words)
        due = now + next_look(extra.get("looks", 0))
        return replace(tried, state="accepted", due_at=due, error=None)

    def _dead_span(self, entry: OutboxEntry, piece: Piece, sent: Sent) -> OutboxEntry:
        return replace(
            entry,
            kind="span",
            id=f"{entry.id}/{_span(piece.data)}",
            state="dead",
            attempts=entry.attempts + 1,
            error=sent.words,
            frozen=None,
            frozen_hash=None,
            extra={},
            round=0,
        )

    def verify(self, tally: Tally, *, early: bool = False) -> None:
        """Look for what was accepted.

        Args:
            tally: Counts what was found.
            early: Look at everything accepted, due or not; what is not there yet keeps its time.
        """
        now = self._clock()
        entries = self._outbox.due(("run",), ("accepted",), now=now + FAR if early else now, limit=AT_ONCE)
        self._outbox.update(self._looked(entries, tally, now=now))

    def verify_now(self, tally: Tally) -> None:
        """Look once at everything accepted, and act on what is not there."""
        for fresh in accepted(self._outbox, "run", lane=self._lane, clock=self._clock):
            tally.looked += len(fresh)
            self._outbox.update(self._looked(fresh, tally, now=self._clock() + FAR))

    def verify_again(self, tally: Tally) -> None:
        """Look at everything that was verified before; what has gone since is sent again."""
        began = self._clock()
        for some in verified(self._outbox, "run", lane=self._lane, before=began):
            known = {entry.id: entry for entry in some}
            for made in self._preparation.frozen([replace(entry, frozen=None) for entry in some]):
                # A run that the store no longer holds has nothing to be compared with, and stays as it is.
                fresh = [entry for entry in made if entry.frozen is not None]
                tally.looked += len(fresh)
                looked = {entry.id: entry for entry in self._looked(fresh, tally, now=began + FAR)}
                gone = [known[entry.id] for entry in made if entry.state == "dead"]
                self._outbox.update([replace(entry, due_at=began) for entry in (*looked.values(), *gone)])
                if len(looked) + len(gone) < len(made):
                    return

    def _looked(self, entries: Sequence[OutboxEntry], tally: Tally, *, now: datetime) -> list[OutboxEntry]:
        rows = []
        for entry in entries:
            if not self._lane.ready:
                break
            looked = self._look(entry, tally, act=entry.due_at <= now)
            if looked is not None:
                rows.append(looked)
        return rows

    def _look(self, entry: OutboxEntry, tally: Tally, *, act: bool) -> OutboxEntry | None:
        """The entry after one look, ``None`` when there is nothing to change."""
        if entry.frozen is None:
            return replace(entry, state="pending", due_at=self._clock())
        starts = expected(entry.frozen, without=entry.extra.get("dead", ()))
        rows = rows_of(self._project, trace_id(entry.id))
        if isinstance(rows, Sent):
            self._lane.heard(rows)
            return None
        self._lane.heard(Sent(outcome="accepted"))
        seen = compare(starts, rows)
        if seen.whole:
            tally.verified += 1
            return _verified(entry, self._clock())
        return self._act(entry, seen, tally) if act else None

    def _act(self, entry: OutboxEntry, seen: Seen, tally: Tally) -> OutboxEntry:
        now = self._clock()
        extra = {**entry.extra, "looks": entry.extra.get("looks", 0) + 1}
        if seen.moved:
            tally.repaired += 1
            return replace(entry, state="pending", due_at=now, extra={**extra, "repair": True})
        if seen.missing:
            tally.resent += 1
            return replace(entry, state="pending", due_at=now, extra={**extra, "only": sorted(seen.missing)})
        return replace(entry, due_at=now + next_look(extra["looks"]), extra=extra)


def _stuck(answers: Iterable[tuple[Piece, Sent]]) -> bool:
    return any(sent.outcome in {"retry", "denied"} for _, sent in answers)


def _verified(entry: OutboxEntry, now: datetime) -> OutboxEntry:
    kept = {"dead": entry.extra["dead"]} if entry.extra.get("dead") else {}
    return replace(entry, state="verified", due_at=now, error=None, frozen=None, extra=kept)


def _pieces(entry: OutboxEntry) -> list[Piece]:
    """The spans of an entry that are to be sent: all but the refused, or only those found missing."""
    pieces = [Piece(run=entry.id, data=span) for span in thaw(entry.frozen or b"")]
    dead, only = frozenset(entry.extra.get("dead", ())), frozenset(entry.extra.get("only", ()))
    if not dead and not only:
        return pieces
    return [p for p in pieces if (span := _span(p.data)) not in dead and (not only or span in only)]


def _span(data: bytes) -> str:
    return str(orjson.loads(data)["spanId"])
