"""Bringing a Langfuse project's traces into the store as runs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from harness.errors import CanonicalError, StoreError
from harness.mirror._import_own import claimed_run, own_run
from harness.mirror._import_run import SOURCE, Built, build, root_id
from harness.mirror._observation import Malformed, Observation
from harness.mirror._read import ObservationReader, Window

if TYPE_CHECKING:
    from harness.mirror._project import Project
    from harness.store import Store

_REASON: Final = 300
_AT_ONCE: Final = 32
_NAME: Final = 16
Word = Literal["imported", "updated", "unchanged", "recorded", "filtered"]
"""What became of a trace: new, newer than before, as it was, recorded here in the first place, or not asked for."""


@dataclass(slots=True, kw_only=True)
class Imported:
    """What an import did."""

    window: Window
    """With the end that was frozen when it began."""
    resumed: bool
    """It went on where an earlier one had stopped."""
    imported: list[str] = field(default_factory=list)
    """Ids of new runs."""
    updated: list[str] = field(default_factory=list)
    """Ids of runs that had changed since an earlier import."""
    unchanged: int = 0
    """Runs that an earlier import brought, and that are as they were."""
    recorded: int = 0
    """Runs that this store recorded itself; they are never overwritten."""
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Traces that could not be made runs, each with the reason."""
    finished: bool = False
    """Whether the whole window is in; false when the limit was reached."""


def import_runs(
    store: Store,
    project: Project,
    window: Window,
    *,
    until_given: bool = True,
    limit: int | None = None,
    progress: Callable[[Imported], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Imported:
    """Import every trace whose root began in a window and passes its filters.

    Where an import of the same window stopped (killed, or at its limit) is kept in the store, page by page; the next
    call goes on from there. A trace that is met twice is written once: its ids are always the same.

    Args:
        store: Where the runs go.
        project: From where they come.
        window: Which ones.
        until_given: Whether the end was asked for, or is only now; then an unfinished import keeps its own.
        limit: At most so many new or updated runs.
        progress: Called after every trace.
        sleep: How to wait for a server that is not ready.

    Raises:
        UsageError: The server has no list of observations, or refuses the keys.
        ReadError: It does not answer; what was read so far is kept.
    """
    state = _State.find(store, project, window, until_given=until_given)
    result = Imported(window=state.window, resumed=state.cursor is not None)
    work = _Import(store, ObservationReader(project, sleep=sleep), result)
    state.save(store)
    while True:
        page = work.reader.roots(state.window, state.cursor)
        for identifier in page.nameless:
            work.leave_out(identifier, "the observation belongs to no trace")
        for trace_id in page.traces:
            if limit is not None and work.taken >= limit:
                work.settle()
                return result
            work.take(trace_id)
            if progress is not None:
                progress(result)
        work.settle()
        if page.cursor is None or page.cursor == state.cursor:
            break
        state.cursor = page.cursor
        state.save(store)
    result.finished = state.finished = True
    state.save(store)
    return result


@dataclass(slots=True)
class _State:
    """How far an import has come; kept in the store's notes."""

    name: str
    window: Window
    cursor: str | None = None
    finished: bool = False

    @classmethod
    def find(cls, store: Store, project: Project, window: Window, *, until_given: bool) -> _State:
        """The unfinished import of this window, or a new one."""
        # Another window is another import: neither loses its place to the other.
        # The end is no part of it: whoever goes on without naming one means the end that was frozen.
        asked = [window.since.isoformat(), _filters(window)]
        named = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:_NAME]
        fresh = cls(f"import:{project.public_key}:{named}", window)
        noted = store.outbox.notes(fresh.name)
        try:
            until = datetime.fromisoformat(str(noted["until"]))
            same = noted["since"] == window.since.isoformat() and noted["filters"] == _filters(window)
            cursor = noted["cursor"]
        except (KeyError, ValueError):
            return fresh
        if noted.get("finished") or not same or (until_given and until != window.until):
            return fresh
        frozen = dataclasses.replace(window, until=until)
        return cls(fresh.name, frozen, cursor if isinstance(cursor, str) else None)

    def save(self, store: Store) -> None:
        """Keep it."""
        values = {
            "since": self.window.since.isoformat(),
            "until": self.window.until.isoformat(),
            "filters": _filters(self.window),
            "cursor": self.cursor,
            "finished": self.finished,
            "at": datetime.now(UTC).isoformat(),
        }
        store.outbox.note(self.name, values)


def _filters(window: Window) -> list[list[str]]:
    return sorted([name, value] for name, value in window.filters)


class _Import:
    """Takes traces in, one after another."""

    def __init__(self, store: Store, reader: ObservationReader, result: Imported) -> None:
        self.reader = reader
        self._store = store
        self._result = result
        self._seen: set[str] = set()
        self._writing: list[tuple[str, Word, str, Future[None]]] = []

    @property
    def taken(self) -> int:
        """New and updated runs, those still being written included."""
        return len(self._result.imported) + len(self._result.updated) + len(self._writing)

    def settle(self) -> None:
        """Wait until everything is committed; what the store refused is left out."""
        for trace_id, word, run, future in self._writing:
            error = future.exception()
            if error is None:
                (self._result.imported if word == "imported" else self._result.updated).append(run)
            elif isinstance(error, StoreError):
                self.leave_out(trace_id, str(error))
            else:
                raise error
        self._writing.clear()

    def take(self, trace_id: str) -> None:
        """Read one trace and write its run; what is wrong with it is kept as a reason."""
        if trace_id in self._seen:
            return
        self._seen.add(trace_id)
        try:
            word = self._take(trace_id)
        except (Malformed, CanonicalError, ValueError, RecursionError) as error:
            # Any of them can be provoked by what a stranger put into a trace.
            self.leave_out(trace_id, str(error) or type(error).__name__)
            return
        if word == "unchanged":
            self._result.unchanged += 1
        elif word == "recorded":
            self._result.recorded += 1
        if len(self._writing) >= _AT_ONCE:
            self.settle()

    def leave_out(self, trace_id: str, reason: str) -> None:
        """Name a trace that stays out."""
        line = " ".join(reason.split())
        self._result.left_out.append((trace_id, line if len(line) <= _REASON else f"{line[: _REASON - 1]}…"))

    def _take(self, trace_id: str) -> Word:
        observations = self.reader.trace(trace_id)
        if not observations:
            raise Malformed("its observations are gone")
        window = self._result.window
        if window.filters and not any(window.holds(one) for one in observations if one.root):
            return "filtered"
        claimed = claimed_run(trace_id, observations)
        known = self._row(claimed) if claimed else None
        if known is not None and known["fidelity"] != "imported":
            return "recorded"
        built = own_run(trace_id, observations)
        own = built is not None
        if built is None and known is not None:
            # It was our mirror's once, and somebody has added to it; the run stays what it was.
            return "unchanged"
        known = known if own else self._imported(trace_id, observations)
        if known is not None and known["fidelity"] != "imported":
            return "recorded"
        if known is not None and not _newer(self._store, str(known["id"]), observations):
            return "unchanged"
        if built is None:
            built = build(trace_id, observations, known=None if known is None else str(known["id"]))
        if own:
            self._require_free(built)
        word: Word = "imported" if known is None else "updated"
        # Committed in groups: waiting for each run's own commit would take most of the time.
        self._writing.append((trace_id, word, built.run.id, self._store.write(*built.records, blobs=built.blobs)))
        return word

    def _imported(self, trace_id: str, observations: list[Observation]) -> dict[str, Any] | None:
        """The row of the run that an earlier import made of a stranger's trace."""
        steps = self._store.load("steps", id=root_id(observations[0].project_id, trace_id))
        return self._row(str(steps[0]["run_id"])) if steps else None

    def _row(self, run_id: str) -> dict[str, Any] | None:
        rows = self._store.load("runs", id=run_id)
        return rows[0] if rows else None

    def _require_free(self, built: Built) -> None:
        """Refuse a trace that claims parts of another run: anybody can write our ids into a trace.

        Raises:
            Malformed: It says which part of which run.
        """
        parts = [("steps", step.id) for step in built.steps] + [("messages", one.id) for one in built.messages]
        for table, identifier in parts:
            for row in self._store.load(table, id=identifier):
                if str(row["run_id"]) != built.run.id:
                    raise Malformed(f"it claims {identifier!r} of {table}, which belongs to run {row['run_id']!r}")


def _newer(store: Store, run_id: str, observations: list[Observation]) -> bool:
    """Whether the server has something newer than what was imported."""
    for row in store.load("volatile", run_id=run_id, name=SOURCE):
        try:
            had = json.loads(row["value"])
            updated = datetime.fromisoformat(had["updated_at"])
            return max(one.touched for one in observations) > updated or len(observations) > had["parts"]
        except (ValueError, TypeError, KeyError):
            return True
    return True
