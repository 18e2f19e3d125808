"""A run as spans: run → trace, its root step → the parentless span, step → span, message → generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from harness.errors import CanonicalError, DatasetMissing, StoreError
from harness.mirror import _dictionary as words
from harness.mirror._content import GONE, UNKEPT, UNREADABLE, billed, prompt_origins, quick
from harness.mirror._content import asked as asked_of
from harness.mirror._content import said as said_of
from harness.mirror._ids import span_id, trace_id
from harness.mirror._media import Extraction, Field, Media
from harness.mirror._spans import Span, ended, milliseconds, settle
from harness.pipeline import plain
from harness.record import MessageRecord, Recording, RunRecord, StepRecord

_SOURCE = "prompt-source:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a run's spans say beyond its own rows."""

    environment: str
    """Of the project; an experiment's runs have one of their own."""
    release: str | None
    run_url: str
    """Where runs are shown, with ``{run}`` for the id; empty for nowhere."""
    experiment: Mapping[str, Any] | None = None
    """The run's row of the experiments table."""
    dataset_id: str | None = None
    """Of Langfuse, as pushed; so are the next two."""
    item_id: str | None = None
    item_version: str | None = None
    """ISO time."""
    expected_output: Any = None
    """Of the run's case, a JSON value; ``None`` when it has none or none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The spans of a run, not yet redacted."""

    run: RunRecord
    spans: tuple[Span, ...]
    """In order of ``seq``, the root first."""
    media: tuple[Media, ...]
    meta: dict[str, Any]
    """What the ``goldfork`` object of each says of the run."""


def render(recording: Recording, context: Context) -> Rendered:
    """The spans of a run. Content that is gone or damaged becomes a note in its place.

    Args:
        recording: A run that has ended, one way or the other.
        context: What else there is to say.
    """
    return _Renderer(recording, context).rendered()


def marks(run: RunRecord) -> tuple[str, ...]:
    """The tags that tell a replay or fork from the real thing."""
    if run.change or run.fork_step is not None or run.arm.startswith("fork:"):
        return (words.FORK_TAG,)
    return (words.REPLAY_TAG,) if run.mode == "replay" else ()


class _Renderer:
    def __init__(self, recording: Recording, context: Context) -> None:
        self._recording = recording
        self._run = run = recording.run
        self._steps = {step.id for step in recording.steps}
        self._root: StepRecord | None = next(
            (step for step in sorted(recording.steps, key=lambda step: step.seq) if step.parent_id is None), None
        )
        self._root_id = span_id("step", self._root.id if self._root else run.id)
        self._media: list[Media] = []
        self._read: dict[str, Any] = {}
        url = context.run_url.replace("{run}", run.id)
        named = {
            "v": words.VERSION,
            "run": run.id,
            "workflow": run.workflow,
            "mode": run.mode,
            "arm": run.arm,
            "trial": run.trial,
            "case": run.case,
            "experiment": run.experiment,
            "parent_run": run.parent_run_id,
            "parent_trace": trace_id(run.parent_run_id) if run.parent_run_id else None,
            "fork_step": run.fork_step,
            "url": url or None,
        }
        self._shared = {name: value for name, value in named.items() if value is not None}
        self._prompts = prompt_origins(
            (record.name.removeprefix(_SOURCE), record.value)
            for record in recording.volatile
            if record.name.startswith(_SOURCE)
        )

    def rendered(self) -> Rendered:
        rows: list[StepRecord | MessageRecord] = [*self._recording.steps, *self._recording.messages]
        rows.sort(key=lambda row: row.seq)
        others = [
            self._step(row) if isinstance(row, StepRecord) else self._message(row)
            for row in rows
            if row is not self._root
        ]
        spans = (self._root_span(), *others)
        settle(spans)
        return Rendered(run=self._run, spans=spans, media=tuple(self._media), meta=self._shared)

    def _root_span(self) -> Span:
        run, root = self._run, self._root
        if root is not None:
            span = self._step(root)
            span.parent = None
        else:
            span = self._bare_root()
        span.open = span.open or run.status not in {"ok", "error"}
        span.meta["root"] = words.own_row(run)
        if run.status != "ok":
            span.level, span.status = words.LEVELS[run.status], _said(run.status, run.error or span.status)
        place = Extraction(span.id)
        # A run's own input and output are those of its root step, unless it has none.
        if root is None or root.input_hash is None:
            span.input = self._snapshot(run.input_hash, place, "input", kept=False)
        if root is None or root.output_hash is None:
            span.output = self._snapshot(run.output_hash, place, "output", kept=run.status != "ok")
        self._media += place.found
        return span

    def _bare_root(self) -> Span:
        """The root of a run whose root step was never written."""
        run = self._run
        lasted = 0.0 if run.ended_at is None else (words.utc(run.ended_at) - words.utc(run.started_at)) / _MILLISECOND
        return Span(
            id=self._root_id,
            parent=None,
            seq=-1,
            type=words.TYPES["job"],
            name=run.workflow,
            start=milliseconds(run.started_at),
            end=ended(run.started_at, lasted),
            open=False,
            level=words.LEVELS[run.status],
            status=_said(run.status, run.error),
        )

    def _step(self, step: StepRecord) -> Span:
        own = span_id("step", step.id)
        place = Extraction(own)
        span = Span(
            id=own,
            parent=self._parent(step.parent_id if step.parent_id != step.id else None),
            seq=step.seq,
            type=words.TYPES.get(step.kind, "span"),
            name=step.name,
            start=milliseconds(step.started_at),
            end=ended(step.started_at, step.duration_ms),
            open=step.status not in {"ok", "error"},
            level=words.LEVELS[step.status],
            status=_said(step.status, step.error),
            input=self._snapshot(step.input_hash, place, "input", kept=False),
            output=self._snapshot(step.output_hash, place, "output", kept=step.status != "ok"),
            meta=self._meta("step", step, step=step.id, state=step.state, determinism=step.determinism),
            texts={"langfuse.version": step.version} if step.kind == "tool" and step.version else {},
        )
        self._media += place.found
        return span

    def _message(self, message: MessageRecord) -> Span:
        own = span_id("message", message.id)
        place = Extraction(own)
        asked, request = asked_of(self._bytes(message.request_hash))
        answer = message.answer
        said = said_of(message, self._bytes(answer.body_hash) if answer and answer.body_hash else None)
        chunks = answer.chunks if answer else ()
        lasted = message.latency_ms if message.latency_ms is not None else chunks[-1][1] if chunks else 0.0
        replayed = message.cache_state != "live"
        span = Span(
            id=own,
            parent=self._parent(message.step_id),
            seq=message.seq,
            type=words.MESSAGE_TYPES.get(message.endpoint, "generation"),
            name=message.prompt_name or message.model or message.endpoint.strip("/") or "message",
            start=milliseconds(message.started_at),
            end=ended(message.started_at, lasted),
            open=message.status not in {"ok", "error"},
            level=words.LEVELS[message.status],
            status=_said(message.status, message.error),
            input=place.value(asked, "input"),
            output=place.value(said, "output"),
            meta=self._meta("message", message, step=message.step_id, message=message.id, cache=message.cache_state),
            request=place.value(request, "metadata") or None,
            params=dict(message.params) or None,
            fixed=billed(message, replayed=replayed),
            first_chunk_ms=message.first_chunk_ms,
        )
        model = message.model or message.model_served
        if model:
            span.texts["langfuse.observation.model.name"] = model
        origin = self._prompts.get(message.prompt_name or "")
        if origin is not None:
            span.texts["langfuse.observation.prompt.name"], span.fixed["langfuse.observation.prompt.version"] = origin
        self._media += place.found
        return span

    def _meta(self, kind: str, row: StepRecord | MessageRecord, **more: str | None) -> dict[str, Any]:
        place = {"kind": kind, "seq": row.seq, "scope": row.scope, "occurrence": row.occurrence}
        named = {name: value for name, value in more.items() if value is not None}
        return {**place, **named, "row": words.own_row(row)}

    def _parent(self, step: str | None) -> str:
        return span_id("step", step) if step in self._steps and step is not None else self._root_id

    def _snapshot(self, digest: str | None, place: Extraction, field: Field, *, kept: bool) -> Any:
        """Content by hash; without one there was nothing, or it could not be kept."""
        if digest is None:
            return None if kept else UNKEPT.format(field)
        if digest not in self._read:
            self._read[digest] = self._plain(digest)
        return place.value(self._read[digest], field)

    def _plain(self, digest: str) -> Any:
        data = self._bytes(digest)
        if isinstance(data, str):
            return data
        try:
            return quick(data) if b"$goldfork" not in data else plain(data)
        except (CanonicalError, ValueError, TypeError, KeyError, RecursionError):
            return UNREADABLE.format(digest)

    def _bytes(self, digest: str) -> bytes | str:
        """Content by hash, or a note that there is none."""
        try:
            return self._recording.read(digest)
        except DatasetMissing:
            return GONE.format(digest)
        except (StoreError, KeyError, OSError):
            return UNREADABLE.format(digest)


def _said(status: str, error: str | None) -> str | None:
    if status == "ok":
        return None
    return error or (words.INTERRUPTED if status != "error" else "error: it did not say why")


_MILLISECOND = timedelta(milliseconds=1)
