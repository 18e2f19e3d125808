"""A run as OpenTelemetry spans: run → trace, step → span, message → client span with ``gen_ai`` attributes.

Source: OpenTelemetry semantic conventions for generative AI, version of November 2026 (all of it in development), and
the OTLP/JSON encoding of OTLP 1.x. What the conventions have no name for stands under ``goldfork.``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from harness.errors import CanonicalError, DatasetMissing, StoreError
from harness.mirror._content import GONE, UNKEPT, UNREADABLE
from harness.mirror._ids import span_id, trace_id
from harness.mirror._otel_message_span import message_attributes, message_content, message_name
from harness.mirror._otel_messages import without_media
from harness.pipeline import plain
from harness.record import MessageRecord, Recording, RunRecord, StepRecord
from harness.redact import Redactor

_INTERNAL, _CLIENT, _ERROR = 1, 3, 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT64 = range(-(2**63), 2**63)
_ERROR_TYPE = re.compile(r"(?:HTTP (?P<status>\d{3})\b|(?P<name>[A-Za-z_][\w.]{0,79})(?=:|\Z))", re.ASCII)
_SMALL = 10**6
"""Integers below this are no phone number, card or key."""
_OWN: Final = frozenset(
    {"gen_ai.tool.type", "goldfork.cache_state", "goldfork.cost", "goldfork.determinism"}
    | {"goldfork.fidelity", "goldfork.kind", "goldfork.mode", "goldfork.state", "goldfork.status"}
)
"""Attributes whose words are this house's own; the others are redacted."""
_OWN_IDS: Final = frozenset(
    {"goldfork.message.id", "goldfork.parent_run.id", "goldfork.parent_run.trace_id", "goldfork.replay_of"}
    | {"goldfork.reused_from", "goldfork.run.id", "goldfork.step.id"}
)
_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")


@dataclass(kw_only=True)
class _Span:
    """One span."""

    id: str
    parent: str | None
    kind: int
    start: int
    """Unix nanoseconds, like ``end``."""
    end: int
    name: str
    attributes: dict[str, Any]
    """Scalars and lists of scalars; ``None`` is left out."""
    content: dict[str, Any] = field(default_factory=dict)
    """JSON values, each sent as its text."""
    message: str | None = None
    """What went wrong; ``None`` for nothing."""


def export_head(*, resource: Mapping[str, str], version: str) -> bytes:
    """What stands before the spans in every request.

    Args:
        resource: Attributes of the resource.
        version: Of goldfork, for the scope.
    """
    told = {"attributes": [_pair(name, value) for name, value in sorted(resource.items())]}
    scope = {"name": "goldfork", "version": version}
    return b'{"resourceSpans":[{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[' % (
        orjson.dumps(told),
        orjson.dumps(scope),
    )


def export_request(head: bytes, spans: Iterable[bytes]) -> bytes:
    """The OTLP/JSON request for spans, in order."""
    return head + b",".join(spans) + b"]}]}]}"


def export_spans(recording: Recording, *, content: bool) -> list[bytes]:
    """The spans of a run as OTLP/JSON, the root first; the same recording gives the same bytes.

    Args:
        recording: A finished run.
        content: Whether inputs, outputs and messages go along; without, errors go as their type only.
    """
    return [orjson.dumps(span) for span in spans_of(recording, content=content)]


def spans_of(recording: Recording, *, content: bool) -> list[dict[str, Any]]:
    """The spans of a run as OTLP/JSON objects, redacted, the root first.

    Args:
        recording: A finished run.
        content: Whether inputs, outputs and messages go along.
    """
    spans = _Renderer(recording, content=content).spans()
    foreign = [[name for name, value in span.attributes.items() if _is_foreign(name, value)] for span in spans]
    # Only values: the names of attributes are ours, and each would be scanned for every span.
    told = [
        [span.name, span.message, [span.attributes[name] for name in names], list(span.content.values())]
        for span, names in zip(spans, foreign, strict=True)
    ]
    # All at once: what is recognised as a secret in one place is replaced in the others, earlier ones included.
    clean = Redactor().value(without_media(told))
    for span, names, (name, message, attributes, said) in zip(spans, foreign, clean, strict=True):
        span.name, span.message = name, message
        span.attributes.update(zip(names, attributes, strict=True))
        span.content = dict(zip(span.content, said, strict=True))
    trace = trace_id(recording.run.id)
    return [_encoded(trace, span) for span in spans]


def error_type(error: str) -> str:
    """The kind of an error without its words: an exception's name, an HTTP status, else ``_OTHER``."""
    found = _ERROR_TYPE.match(error)
    return (found["status"] or found["name"]) if found else "_OTHER"


class _Renderer:
    """Makes the spans of one run."""

    def __init__(self, recording: Recording, *, content: bool) -> None:
        self._recording = recording
        self._run = recording.run
        self._content = content
        roots = [step for step in recording.steps if step.parent_id is None]
        self._root: StepRecord | None = roots[0] if roots else None
        self._root_id = span_id("step", self._root.id if self._root else self._run.id)
        self._steps = {step.id for step in recording.steps}
        session = self._run.metadata.get("session_id")
        self._session = session if isinstance(session, str) and session else None

    def spans(self) -> list[_Span]:
        """The root, then everything else in order of ``seq``."""
        rows: list[StepRecord | MessageRecord] = [*self._recording.steps, *self._recording.messages]
        rows.sort(key=lambda row: row.seq)
        others = [
            self._step(row) if isinstance(row, StepRecord) else self._message(row)
            for row in rows
            if row is not self._root
        ]
        root = self._root_span()
        if self._run.status not in {"ok", "error"}:
            # Nobody was there to take the time when it ended.
            root.end = max([root.end, *(span.end for span in others)])
        return [root, *others]

    def _root_span(self) -> _Span:
        run, root = self._run, self._root
        started = root.started_at if root else run.started_at
        ended = run.ended_at or started
        lasted = root.duration_ms if root else (ended - started) / timedelta(milliseconds=1)
        span = self._span(self._root_id, None, f"invoke_workflow {run.workflow}", started=started, lasted=lasted)
        span.attributes |= {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": run.workflow,
            **_run_attributes(run),
            **({"goldfork.step.id": root.id, "goldfork.seq": root.seq, "goldfork.kind": root.kind} if root else {}),
        }
        if self._content:
            span.content = {
                "goldfork.input": self._snapshot(run.input_hash, "input", kept=False),
                "goldfork.output": self._snapshot(run.output_hash, "output", kept=run.status != "ok"),
                "goldfork.change": dict(run.change) if run.change else None,
            }
        self._outcome(span, run.status, run.error)
        return span

    def _step(self, step: StepRecord) -> _Span:
        parent = step.parent_id if step.parent_id in self._steps else None
        name = {"agent": f"invoke_agent {step.name}", "tool": f"execute_tool {step.name}"}.get(step.kind, step.name)
        span = self._span(
            span_id("step", step.id), self._parent(parent), name, started=step.started_at, lasted=step.duration_ms
        )
        span.attributes |= _step_attributes(step)
        names = ("goldfork.input", "goldfork.output")
        if step.kind == "tool":
            names = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
        if self._content:
            given = self._snapshot(step.input_hash, "input", kept=False)
            made = self._snapshot(step.output_hash, "output", kept=step.status != "ok")
            span.content = dict(zip(names, (given, made), strict=True))
        self._outcome(span, step.status, step.error)
        return span

    def _message(self, message: MessageRecord) -> _Span:
        request = self._read(message.request_hash)
        answer = message.answer
        reply = self._read(answer.body_hash) if answer else None
        parent = message.step_id if message.step_id in self._steps else None
        chunks = answer.chunks if answer else ()
        lasted = message.latency_ms if message.latency_ms is not None else chunks[-1][1] if chunks else 0.0
        span = self._span(
            span_id("message", message.id),
            self._parent(parent),
            message_name(message),
            started=message.started_at,
            lasted=lasted,
        )
        span.kind = _CLIENT
        asked, said = (part if isinstance(part, bytes) else b"" for part in (request, reply))
        span.attributes |= message_attributes(message, asked, said)
        if self._content:
            span.content = message_content(message, asked, said)
            notes = (("gen_ai.input.messages", "user", request), ("gen_ai.output.messages", "assistant", reply))
            for name, role, note in notes:
                if isinstance(note, str):
                    span.content[name] = [{"role": role, "parts": [{"type": "text", "content": note}]}]
        self._outcome(span, message.status, message.error)
        return span

    def _span(self, own_id: str, parent: str | None, name: str, *, started: datetime, lasted: float) -> _Span:
        start = (started - _EPOCH) // _MICROSECOND * 1000
        return _Span(
            id=own_id,
            parent=parent,
            kind=_INTERNAL,
            start=start,
            end=start + max(0, round(lasted * 1_000_000)),
            name=name,
            attributes={"goldfork.run.id": self._run.id, "gen_ai.conversation.id": self._session},
        )

    def _parent(self, step: str | None) -> str:
        return span_id("step", step) if step else self._root_id

    def _outcome(self, span: _Span, status: str, error: str | None) -> None:
        if status == "ok":
            return
        kind = error_type(error) if error else status
        span.attributes["error.type"] = kind
        # An exception's words may quote what it failed on.
        span.message = error if error and self._content else kind

    def _snapshot(self, digest: str | None, what: str, *, kept: bool) -> Any:
        """Content by hash; without one there was nothing, or it could not be kept."""
        data = self._read(digest)
        if data is None:
            return None if kept else UNKEPT.format(what)
        try:
            return data if isinstance(data, str) else plain(data)
        except (CanonicalError, ValueError, RecursionError):
            return UNREADABLE.format(digest)

    def _read(self, digest: str | None) -> bytes | str | None:
        """Content by hash; a note where it is gone or damaged, ``None`` where there never was any."""
        if digest is None:
            return None
        try:
            return self._recording.read(digest)
        except DatasetMissing:
            return GONE.format(digest)
        except StoreError:
            return UNREADABLE.format(digest)


def _run_attributes(run: RunRecord) -> dict[str, Any]:
    parent = run.parent_run_id
    change = run.change or {}
    return {
        "goldfork.status": run.status,
        "goldfork.mode": run.mode,
        "goldfork.arm": run.arm,
        "goldfork.trial": run.trial,
        "goldfork.case": run.case,
        "goldfork.experiment": run.experiment,
        "goldfork.fidelity": run.fidelity,
        "goldfork.tags": list(run.tags) or None,
        "goldfork.code_version": run.code_version,
        "goldfork.parent_run.id": parent,
        "goldfork.parent_run.trace_id": trace_id(parent) if parent else None,
        "goldfork.fork_step": run.fork_step,
        "goldfork.change.kind": change.get("kind"),
        "goldfork.change.name": change.get("name") or None,
    }


def _step_attributes(step: StepRecord) -> dict[str, Any]:
    named: dict[str, Any] = {}
    if step.kind == "agent":
        named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": step.name}
        named["gen_ai.agent.version"] = step.version
    elif step.kind == "tool":
        named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": step.name}
        named["gen_ai.tool.type"] = "function"
    return {
        **named,
        "goldfork.step.id": step.id,
        "goldfork.seq": step.seq,
        "goldfork.kind": step.kind,
        "goldfork.scope": step.scope,
        "goldfork.occurrence": step.occurrence,
        "goldfork.state": step.state,
        "goldfork.determinism": step.determinism,
        "goldfork.reused_from": step.reused_from,
    }


def _is_foreign(name: str, value: Any) -> bool:
    """Whether an attribute may hold text that came from outside: all that is neither ours nor a small number."""
    if value is None or isinstance(value, float):
        return False
    if isinstance(value, int):
        return abs(value) >= _SMALL
    return not (name in _OWN or (name in _OWN_IDS and _ID.fullmatch(value)))


def _encoded(trace: str, span: _Span) -> dict[str, Any]:
    """A redacted span as OTLP/JSON."""
    content = {k: _json_text(v) for k, v in span.content.items() if v is not None and v != []}
    attributes = {k: v for k, v in span.attributes.items() if v is not None} | content
    encoded: dict[str, Any] = {"traceId": trace, "spanId": span.id}
    if span.parent is not None:
        encoded["parentSpanId"] = span.parent
    encoded |= {
        "name": _well_formed(span.name),
        "kind": span.kind,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": [_pair(name, value) for name, value in attributes.items()],
        "status": {"code": _ERROR, "message": _well_formed(span.message)} if span.message is not None else {},
    }
    return encoded


def _pair(name: str, value: Any) -> dict[str, Any]:
    return {"key": _well_formed(name), "value": _any_value(value)}


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and value in _INT64:
        return {"intValue": str(value)}
    if isinstance(value, float) and math.isfinite(value):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    return {"stringValue": _well_formed(str(value))}


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _well_formed(text: str) -> str:
    """The text with each lone surrogate, which UTF-8 cannot hold, spelled out as JSON does it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
