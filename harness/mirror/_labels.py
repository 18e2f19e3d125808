"""``import labels``: what people said about our runs in Langfuse comes back as labels.

Langfuse keeps a person's verdict as a score with the source ANNOTATION. Those about a run, or a part of a run, that
this store holds become rows of ``labels``; a score that this mirror sent itself never does.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from harness.mirror._ids import span_id
from harness.mirror._import_run import made_id, root_id
from harness.mirror._import_tree import arrange
from harness.mirror._items import OURS
from harness.mirror._patience import Patient
from harness.mirror._project import ONCE, Project
from harness.mirror._read import ObservationReader

if TYPE_CHECKING:
    from langfuse.api.scores.client import ScoresClient
    from langfuse.api.scores.types.get_scores_v3response import GetScoresV3Response
    from langfuse.api.scores.types.score_v3 import ScoreV3

    from harness.store import Store

PREFIX: Final = "langfuse:"
"""What stands before a score's id in the id of its label."""
_PAGE: Final = 100
_SAVED_AT_ONCE: Final = 500
_PERSON: Final = "ANNOTATION"

Left = Literal["elsewhere", "whole"]
"""Why a verdict became no label: it is about something that this store does not hold, or about a whole session or
experiment, not about one output."""


@dataclass(slots=True, kw_only=True)
class Labelled:
    """What an import of labels did."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    left: Counter[Left] = field(default_factory=Counter)
    """How many verdicts became no label, by reason."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What a verdict is about, in the store's words."""

    run: str
    step: str | None
    """``None`` for the run's output."""
    case: str | None
    output: str | None
    """Hash of what was judged."""


def import_labels(
    store: Store, project: Project, *, since: datetime | None = None, sleep: Callable[[float], None] = time.sleep
) -> Labelled:
    """Take people's verdicts over from Langfuse; running it again changes nothing.

    Args:
        store: Holds the runs, and takes the labels.
        project: Whose scores are read.
        since: Only scores of this time or later; all by default.
        sleep: Waits between tries.

    Raises:
        Unanswered: Langfuse does not answer, or has no list of scores (it is older than version 4).
        ReadError: It does not answer about an imported trace.
    """
    done = Labelled()
    places = _Places(store, ObservationReader(project, sleep=sleep))
    rows: dict[str, dict[str, Any]] = {}
    for score in _scores(Patient(project, sleep=sleep), since):
        place = places.find(score)
        if isinstance(place, str):
            done.left[place] += 1
            continue
        row = _row(score, place)
        known = store.load("labels", id=row["id"])
        if known and all(known[0].get(name) == value for name, value in row.items()):
            done.unchanged += 1
            continue
        done.changed += bool(known)
        done.new += not known
        rows[row["id"]] = row
        if len(rows) >= _SAVED_AT_ONCE:
            store.save("labels", rows.values())
            rows.clear()
    if rows:
        store.save("labels", rows.values())
    return done


def _scores(patient: Patient, since: datetime | None) -> Iterator[ScoreV3]:
    """The scores that people gave, each once."""

    def ask(cursor: str | None) -> GetScoresV3Response:
        api: ScoresClient = patient.project.api.scores
        return api.get_many(
            source=_PERSON,
            fields="subject,details,annotation",
            limit=_PAGE,
            cursor=cursor,
            from_timestamp=since,
            request_options=ONCE,
        )

    seen: set[str] = set()
    cursor: str | None = None
    while True:
        page = patient.ask("the scores cannot be listed", partial(ask, cursor))
        for score in page.data:
            # What the server should have left out is looked at once more: our own scores must not come back.
            if score.source.value == _PERSON and score.id not in seen and OURS not in (score.metadata or {}):
                seen.add(score.id)
                yield score
        following = page.meta.cursor
        if not following or following == cursor or not page.data:
            return
        cursor = following


class _Places:
    """Finds what scores are about; a run is read once."""

    def __init__(self, store: Store, reader: ObservationReader) -> None:
        self._store = store
        self._reader = reader
        self._runs: dict[str, Mapping[str, Any] | None] = {}
        self._parts: dict[str, dict[str, str]] = {}
        self._roots: dict[str, str | None] = {}

    def find(self, score: ScoreV3) -> _Place | Left:
        subject = score.subject
        if subject is None or subject.kind not in {"trace", "observation"}:
            return "whole"
        trace = subject.id if subject.kind == "trace" else getattr(subject, "trace_id", None)
        run = self._run(score.project_id, trace) if trace else None
        if run is None:
            return "elsewhere"
        if subject.kind == "trace":
            return _Place(run["id"], None, run["case"], run["output_hash"])
        if run["fidelity"] == "imported":
            step_id = self._imported(score.project_id, str(trace), subject.id)
        else:
            step_id = self._parts_of(run["id"]).get(subject.id)
        step = next(iter(self._store.load("steps", id=step_id)), None) if step_id else None
        if step is None:
            return "elsewhere"
        if step["parent_step_id"] is None:
            # What the root gave is the run's output.
            return _Place(run["id"], None, run["case"], run["output_hash"])
        return _Place(run["id"], step["id"], run["case"], step["output_hash"])

    def _run(self, project_id: str, trace: str) -> Mapping[str, Any] | None:
        if trace not in self._runs:
            self._runs[trace] = self._load_run(project_id, trace)
        return self._runs[trace]

    def _load_run(self, project_id: str, trace: str) -> Mapping[str, Any] | None:
        try:
            rows = self._store.load("runs", id=str(uuid.UUID(hex=trace)))
        except ValueError:
            rows = []
        if not rows:
            # A trace that was imported has another id here.
            roots = self._store.load("steps", id=root_id(project_id, trace))
            rows = self._store.load("runs", id=roots[0]["run_id"]) if roots else []
        return rows[0] if rows else None

    def _imported(self, project_id: str, trace: str, observation: str) -> str | None:
        """The step behind one observation of a trace that somebody else made."""
        step = made_id(project_id, trace, "step", observation)
        if self._store.load("steps", id=step):
            return step
        message = self._store.load("messages", id=made_id(project_id, trace, "message", observation))
        if message:
            return str(message[0]["step_id"])
        if trace not in self._roots:
            # Which observation became the root step, only the trace itself says.
            root = arrange(self._reader.trace(trace)).root
            self._roots[trace] = root.id if root else None
        return root_id(project_id, trace) if self._roots[trace] == observation else None

    def _parts_of(self, run: str) -> dict[str, str]:
        """The step behind each observation; of a message the step that it was made in."""
        if run not in self._parts:
            parts = {span_id("step", row["id"]): row["id"] for row in self._store.load("steps", run_id=run)}
            for row in self._store.load("messages", run_id=run):
                parts[span_id("message", row["id"])] = row["step_id"]
            self._parts[run] = parts
        return self._parts[run]


def _row(score: ScoreV3, place: _Place) -> dict[str, Any]:
    return {
        "id": f"{PREFIX}{score.id}",
        "run_id": place.run,
        "step_id": place.step,
        "case": place.case,
        "output_hash": place.output,
        "name": score.name,
        "value": score.value,
        "rubric": score.config_id,
        "annotator": score.author_user_id,
        "comment": score.comment,
        "created_at": score.created_at.astimezone(UTC),
    }
