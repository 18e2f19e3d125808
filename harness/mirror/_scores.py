"""Scores on their way: fixed id, name and time, so that sending one twice leaves one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from harness.mirror._batch import SMALL
from harness.mirror._experiments import experiment_id, own_arm
from harness.mirror._ids import span_id, trace_id
from harness.mirror._pages import AT_ONCE, FAR, accepted, verified
from harness.mirror._repair import SCORE_KEY
from harness.mirror._verify import SOON, next_look
from harness.mirror._wire import Sent, backoff, bounded
from harness.record import RECORDED
from harness.redact import Redactor

if TYPE_CHECKING:
    from harness.mirror._lane import Lane
    from harness.mirror._progress import Tally
    from harness.mirror._project import Project
    from harness.store import OutboxEntry, Store

_LIST_SINCE = (4, 59)
_PATH = "/api/public/scores"
_READ = "/api/public/v3/scores"
_TOGETHER = 50
_LATER = 30.0
_TRIAL_KEY = ("experiment", "case", "arm", "trial")
_MAX_LABEL = 500


class Scores:
    """Sends and verifies the scores of one store to one project."""

    def __init__(self, store: Store, project: Project, *, lane: Lane, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._outbox = store.outbox
        self._project = project
        self._lane = lane
        self._clock = clock
        self._experiments: dict[str, Mapping[str, Any] | None] = {}
        self._trial: tuple[tuple[Any, ...], dict[str, str] | None] = ((), None)

    def send(self, tally: Tally) -> None:
        """Freeze and send what is due."""
        due = self._outbox.due(("score",), ("pending",), now=self._clock(), limit=AT_ONCE)
        fresh = [self._frozen(entry) if entry.frozen is None else entry for entry in due]
        if changed := [new for new, old in zip(fresh, due, strict=True) if new is not old]:
            self._outbox.update(changed)
            tally.frozen += len(changed)
        # What was looked up for these may have changed by the next round.
        self._trial = ((), None)
        self._experiments = {}
        ready = [entry for entry in fresh if entry.state == "pending" and entry.frozen is not None]
        # One alone when it failed among others: only then is the server's word about it.
        alone = [[entry] for entry in ready if entry.extra.get("alone")]
        others = [entry for entry in ready if not entry.extra.get("alone")]
        size = _TOGETHER if self._takes_lists else 1
        for group in [others[i : i + size] for i in range(0, len(others), size)] + alone:
            if not self._lane.ready:
                return
            self._send_group(group, tally)

    def verify(self, tally: Tally, *, early: bool = False) -> None:
        """Look for what was accepted; ``early`` looks at everything and leaves what is not there yet alone."""
        now = self._clock()
        found = self._outbox.due(("score",), ("accepted",), now=now + FAR if early else now, limit=AT_ONCE)
        self._outbox.update(self._looked(found, tally, now=now))

    def verify_now(self, tally: Tally) -> None:
        """Look once at everything accepted, and act on what is not there."""
        for fresh in accepted(self._outbox, "score", lane=self._lane, clock=self._clock):
            tally.looked += len(fresh)
            self._outbox.update(self._looked(fresh, tally, now=self._clock() + FAR))

    def verify_again(self, tally: Tally) -> None:
        """Look at everything that was verified before; what has gone since is sent again."""
        began = self._clock()
        for some in verified(self._outbox, "score", lane=self._lane, before=began):
            fresh = [self._frozen(replace(entry, frozen=None)) for entry in some]
            sent = [entry for entry in fresh if entry.frozen is not None]
            gone = [entry for entry in fresh if entry.frozen is None]
            tally.looked += len(sent)
            looked = {entry.id: entry for entry in self._looked(sent, tally, now=began + FAR)}
            self._outbox.update([replace(entry, due_at=began) for entry in (*looked.values(), *gone)])
            if len(looked) < len(sent):
                return

    @property
    def _takes_lists(self) -> bool:
        """From 4.59 the server takes a list, before that one object."""
        parts = str(self._lane.notes.get("server_version") or "").split(".")
        numbers = tuple(int(part) for part in parts[:2] if part.isascii() and part.isdigit())
        return numbers >= _LIST_SINCE

    def _frozen(self, entry: OutboxEntry) -> OutboxEntry:
        key = dict(zip(SCORE_KEY, orjson.loads(entry.id), strict=True))
        row = next(iter(self._store.load("scores", **key)), None)
        if row is None or row["status"] != "scored" or row["value"] is None:
            why = "no longer in the store" if row is None else f"{row['status']}: there is no value to send"
            return replace(entry, state="verified", error=why)
        experiment = self._experiment(row["experiment"])
        subject = None if experiment is None else self._subject(row, experiment)
        if experiment is None or subject is None:
            return self._without_subject(entry, experiment)
        began = experiment["started_at"]
        body = {**subject, **score_body(entry.id, row, began)}
        data = orjson.dumps(body)
        return replace(entry, frozen=data, frozen_hash=hashlib.sha256(data).hexdigest())

    def _without_subject(self, entry: OutboxEntry, experiment: Mapping[str, Any] | None) -> OutboxEntry:
        if experiment is not None and experiment["status"] == "running":
            # Whoever writes scores by itself may write the trial later.
            later = self._clock() + timedelta(seconds=_LATER)
            return replace(entry, due_at=later, error="its trial is not in the store yet")
        return replace(entry, state="verified", error="its experiment or its trial's run is not in the store")

    def _experiment(self, name: str) -> Mapping[str, Any] | None:
        if name not in self._experiments:
            rows = self._store.load("experiments", id=name)
            self._experiments = {name: rows[0] if rows else None}
        return self._experiments[name]

    def _subject(self, row: Mapping[str, Any], experiment: Mapping[str, Any]) -> dict[str, str] | None:
        """What the score is about: its trial's run, or the experiment as a whole."""
        if not row["case"]:
            # Scores of an experiment name no arm unless they are about another than its own.
            arm = own_arm(experiment) if row["arm"] == RECORDED else row["arm"]
            return {"datasetRunId": experiment_id(experiment, arm=arm)}
        key = tuple(row[name] for name in _TRIAL_KEY)
        if self._trial[0] != key:
            # Scores of one trial come one after the other.
            self._trial = key, self._run_of(key)
        return self._trial[1]

    def _run_of(self, key: tuple[Any, ...]) -> dict[str, str] | None:
        trial = next(iter(self._store.load("trials", **dict(zip(_TRIAL_KEY, key, strict=True)))), None)
        if trial is None or not trial["run_id"]:
            return None
        roots = self._store.load("steps", run_id=trial["run_id"], parent_step_id=None)
        about = {"traceId": trace_id(trial["run_id"])}
        return {**about, "observationId": span_id("step", roots[0]["id"])} if roots else about

    def _send_group(self, group: Sequence[OutboxEntry], tally: Tally) -> None:
        bodies = [entry.frozen or b"{}" for entry in group]
        body = b"[" + b",".join(bodies) + b"]" if self._takes_lists else bodies[0]
        sent = self._project.post(_PATH, body, headers={"content-type": "application/json"})
        if sent.status == 413 and len(group) == 1 and len(body) < SMALL:
            sent = replace(sent, outcome="denied")
        now = self._clock()
        if sent.status == 207:
            self._lane.heard(sent)
            rows = [self._doubtful(entry, sent, alone=len(group) == 1) for entry in group]
        elif sent.outcome == "refused":
            self._lane.heard(sent)
            rows = [self._refused(entry, sent, alone=len(group) == 1) for entry in group]
        else:
            self._lane.heard(sent)
            rows = [self._answered(entry, sent, now) for entry in group]
        tally.accepted += sum(row.state == "accepted" for row in rows)
        tally.dead += sum(row.state == "dead" for row in rows)
        self._outbox.update(rows)

    def _doubtful(self, entry: OutboxEntry, sent: Sent, *, alone: bool) -> OutboxEntry:
        """Some of the list were rejected and the answer does not say which: read back first."""
        words = sent.words or "HTTP 207"
        if alone:
            return replace(entry, state="dead", attempts=entry.attempts + 1, error=words)
        extra = {**entry.extra, "alone": True}
        due = self._clock() + timedelta(seconds=SOON)
        return replace(entry, state="accepted", attempts=entry.attempts + 1, due_at=due, error=words, extra=extra)

    def _refused(self, entry: OutboxEntry, sent: Sent, *, alone: bool) -> OutboxEntry:
        """The whole list was refused for the sake of one: each goes alone next time."""
        if alone:
            return replace(entry, state="dead", attempts=entry.attempts + 1, error=sent.words)
        return replace(entry, due_at=self._clock(), error=sent.words, extra={**entry.extra, "alone": True})

    def _answered(self, entry: OutboxEntry, sent: Sent, now: datetime) -> OutboxEntry:
        if sent.outcome == "denied":
            return replace(entry, error=sent.words)
        tried = replace(entry, attempts=entry.attempts + 1)
        if sent.outcome == "retry":
            wait = backoff(tried.attempts, asked=sent.retry_after)
            return replace(tried, due_at=now + timedelta(seconds=wait), error=sent.words)
        if sent.outcome == "ambiguous":
            return replace(tried, state="accepted", due_at=now + timedelta(seconds=SOON), error=sent.words)
        due = now + next_look(entry.extra.get("looks", 0))
        return replace(tried, state="accepted", due_at=due, error=None)

    def _looked(self, entries: Sequence[OutboxEntry], tally: Tally, *, now: datetime) -> list[OutboxEntry]:
        rows: list[OutboxEntry] = []
        for start in range(0, len(entries), _TOGETHER):
            some = {langfuse_score_id(entry.id): entry for entry in entries[start : start + _TOGETHER]}
            if not self._lane.ready:
                break
            values = self._values(list(some))
            if values is None:
                break
            rows += [
                looked
                for id_, entry in some.items()
                if (looked := self._judged(entry, values.get(id_), tally, act=entry.due_at <= now)) is not None
            ]
        return rows

    def _values(self, ids: Sequence[str]) -> dict[str, Any] | None:
        """What the server holds under these ids; ``None`` when it cannot be asked."""
        answer = self._project.get(_READ, {"id": ",".join(ids), "limit": str(len(ids))})
        if isinstance(answer, dict) and isinstance(answer.get("data"), list):
            self._lane.heard(Sent(outcome="accepted"))
            return {str(score.get("id")): score.get("value") for score in answer["data"] if isinstance(score, dict)}
        unknown = Sent(outcome="retry", words="the list of scores has an unknown shape")
        self._lane.heard(answer if isinstance(answer, Sent) else unknown)
        return None

    def _judged(self, entry: OutboxEntry, found: Any, tally: Tally, *, act: bool) -> OutboxEntry | None:
        now = self._clock()
        if entry.frozen is None:
            return replace(entry, state="pending", due_at=now)
        if found is not None and _equal(found, orjson.loads(entry.frozen)):
            tally.verified += 1
            return replace(entry, state="verified", due_at=now, error=None, frozen=None, extra={})
        if not act:
            return None
        tally.resent += 1
        extra = {**entry.extra, "looks": entry.extra.get("looks", 0) + 1}
        return replace(entry, state="pending", due_at=now, extra=extra)


def langfuse_score_id(entry: str) -> str:
    """The score's id in Langfuse: SHA-256 of its outbox id."""
    return hashlib.sha256(entry.encode()).hexdigest()


def score_body(entry: str, row: Mapping[str, Any], when: datetime) -> dict[str, Any]:
    """One score as the server takes it, redacted, without its subject.

    Args:
        entry: Its outbox id.
        row: Its row of the scores table, ``scored``.
        when: Start of its experiment; the server tells scores apart by id, name and the day of this time.
    """
    redactor = Redactor()
    kind, value = _typed(row["value"])
    detail = {name: row.get(name) for name in ("version", "low", "high", "n")}
    known = {**{name: row[name] for name in SCORE_KEY}, **{k: v for k, v in detail.items() if v is not None}}
    body = {
        "id": langfuse_score_id(entry),
        "name": redactor.text(row["name"]),
        "value": redactor.text(value) if isinstance(value, str) else value,
        "dataType": kind,
        "timestamp": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "metadata": {"goldfork": redactor.value(known)},
    }
    return {**body, "comment": redactor.text(str(row["reason"]))} if row.get("reason") else body


def _typed(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool):
        return "BOOLEAN", int(value)
    if isinstance(value, int | float):
        return "NUMERIC", value
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return "CATEGORICAL", bounded(text, _MAX_LABEL) if len(text) > _MAX_LABEL else text


def _equal(found: Any, body: Mapping[str, Any]) -> bool:
    """Whether the server holds this value: an earlier one of the same score is not enough."""
    sent = body["value"]
    if isinstance(sent, str):
        return bool(found == sent)
    return isinstance(found, int | float) and float(found) == float(sent)
