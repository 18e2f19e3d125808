"""A trace that somebody else made, as a run with its steps and messages."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from harness.canonical import canonical_json, content_hash, request_keys, tool_key
from harness.errors import CanonicalError
from harness.mirror._import_body import CHAT, EMBEDDINGS, parsed, request_body, response_body, usage_of
from harness.mirror._import_tree import MESSAGES, Tree, arrange
from harness.mirror._observation import Malformed, Observation
from harness.pipeline import snapshot
from harness.record import (
    Exchange,
    Hash,
    MessageRecord,
    Record,
    RunRecord,
    Status,
    StepKind,
    StepRecord,
    VolatileRecord,
    request_view,
    view_response,
)

SOURCE: Final = "import"
"""Name of the value kept with an imported run: from where it came, and in which state."""
_PROVIDER: Final = "imported"
_KINDS: Final[Mapping[str, StepKind]] = {"AGENT": "agent", "TOOL": "tool", "RETRIEVER": "tool"}
_JSON: Final = (("content-type", "application/json"),)
_SCOPE: Final = 1_000
"""Characters beyond which a scope grows no longer."""
_NAMED: Final = ("environment", "release", "version")


@dataclass(slots=True)
class Built:
    """A run that is ready to be written."""

    run: RunRecord
    steps: list[StepRecord] = field(default_factory=list)
    messages: list[MessageRecord] = field(default_factory=list)
    blobs: dict[Hash, bytes] = field(default_factory=dict)
    source: VolatileRecord | None = None

    @property
    def records(self) -> list[Record]:
        """Everything, the run last."""
        return [*self.steps, *self.messages, *([self.source] if self.source else []), self.run]

    def keep(self, data: bytes) -> Hash:
        """Keep content and return its hash."""
        digest = content_hash(data)
        self.blobs[digest] = data
        return digest

    def snap(self, value: Any) -> tuple[Hash | None, Hash | None]:
        """Keep a snapshot of a value; its hash, and that of the order its dicts had. Nothing is kept as nothing."""
        return (None, None) if value is None else self.snap_any(value)

    def snap_any(self, value: Any) -> tuple[Hash | None, Hash | None]:
        """Like ``snap``, but null is a value like any other."""
        taken = snapshot(value)
        if taken is None:
            # It has a form that no snapshot takes; its text has one.
            taken = snapshot(json.dumps(value))
        if taken is None:
            return None, None
        self.blobs.update(taken.blobs)
        return taken.hash, taken.order_hash


def made_id(project_id: str, trace_id: str, kind: str, identifier: str = "") -> str:
    """The id of a foreign thing's record: the same each time, and nobody else's."""
    text = json.dumps([project_id, trace_id, kind, identifier])
    return _uuid(sha256(text.encode()).digest()[:16], version=8)


def run_id(project_id: str, trace_id: str, start: datetime) -> str:
    """Id of a foreign trace's run, sorted by start among the runs that were recorded here."""
    milliseconds = max(0, min(int(start.timestamp() * 1000), 2**48 - 1))
    rest = sha256(json.dumps([project_id, trace_id]).encode()).digest()[:10]
    return _uuid(milliseconds.to_bytes(6, "big") + rest, version=7)


def _uuid(data: bytes, *, version: int) -> str:
    """The bytes as a UUID of a version (RFC 9562) that this Python's own constructor does not know."""
    number = int.from_bytes(data, "big") & ~(0xF000 << 64) & ~(0xC000 << 48)
    return str(uuid.UUID(int=number | version << 76 | 0x8000 << 48))


def source_record(run: str, observations: Iterable[Observation]) -> VolatileRecord:
    """From where a run was imported, and in which state: its newest part decides."""
    listed = list(observations)
    newest = max(one.touched for one in listed)
    text = json.dumps({"trace": listed[0].trace_id, "updated_at": newest.isoformat(), "parts": len(listed)})
    return VolatileRecord(run_id=run, scope="", name=SOURCE, occurrence=0, value=text)


def build(trace_id: str, observations: list[Observation], *, known: str | None = None) -> Built:
    """Make a run of a trace.

    Args:
        trace_id: Its id, any text.
        observations: All of them, each once.
        known: Id of the run that an earlier import made of it.

    Raises:
        Malformed: There is nothing in it.
    """
    if not observations:
        raise Malformed("it holds no observation")
    tree = arrange(observations)
    project = observations[0].project_id
    start = min(one.start for one in observations)
    first = tree.root or tree.tops[0]
    identifier = known or run_id(project, trace_id, start)
    name = first.trace_name or first.name or "imported"
    ended = max([start, *(one.end or one.start for one in observations)])
    failed = tree.root.failed if tree.root else any(top.failed for top in tree.tops)
    error = (first.status_message or "it says that it failed") if failed else None
    run = RunRecord(
        id=identifier,
        workflow=name,
        status="error" if failed else "ok",
        mode="live",
        started_at=start,
        ended_at=ended,
        error=error,
        tags=first.tags,
        metadata=_metadata(first, trace_id),
        fidelity="imported",
    )
    built = Built(run)
    _fill(built, tree, root_id(project, trace_id))
    built.source = source_record(identifier, observations)
    return built


def root_id(project_id: str, trace_id: str) -> str:
    """Id of the root step of a foreign trace's run; by it an earlier import is found again."""
    return made_id(project_id, trace_id, "root")


def _metadata(first: Observation, trace_id: str) -> dict[str, Any]:
    named = {name: getattr(first, name) for name in _NAMED}
    ours = {**named, "user_id": first.user_id, "session_id": first.session_id, "trace": trace_id}
    return {**first.metadata, **{name: value for name, value in ours.items() if value is not None}}


def _fill(built: Built, tree: Tree, root: str) -> None:
    """Add the root step, then everything else in order."""
    run = built.run
    top, last = tree.root or tree.tops[0], tree.root or tree.tops[-1]
    # A single model interaction that is the whole run lends the run its input and output.
    given, given_order = built.snap(parsed(top.input, scalars=tree.root is not None))
    made, made_order = built.snap(parsed(last.output, scalars=tree.root is not None))
    built.run = run = replace(run, input_hash=given, input_order=given_order, output_hash=made)
    ended = run.ended_at or run.started_at
    name = (tree.root.name if tree.root else "") or run.workflow
    built.steps.append(
        StepRecord(
            id=root,
            run_id=run.id,
            parent_id=None,
            seq=0,
            name=name,
            kind="job" if tree.root is None else _KINDS.get(tree.root.type, "job"),
            scope="",
            occurrence=0,
            key=content_hash(name.encode()),
            status=run.status,
            input_hash=given,
            output_hash=made,
            output_order=made_order,
            error=run.error,
            started_at=run.started_at,
            duration_ms=(ended - run.started_at).total_seconds() * 1000,
        )
    )
    places = _Places(built, tree, root)
    for one in tree.order:
        if one is not tree.root:
            places.add(one)


class _Places:
    """Gives each part its record, its place in the sequence and its scope."""

    def __init__(self, built: Built, tree: Tree, root: str) -> None:
        self._built = built
        self._tree = tree
        self._ids: dict[str, str] = {tree.root.id: root} if tree.root else {}
        self._scopes: dict[str, str] = {tree.root.id: ""} if tree.root else {}
        self._root = root
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._seq = 0

    def add(self, one: Observation) -> None:
        self._seq += 1
        above = self._tree.steps[one.id]
        parent = self._root if above is None else self._ids[above]
        scope = "" if above is None else self._scopes[above]
        if one.type in MESSAGES:
            self._built.messages.append(self._message(one, parent, scope))
        else:
            step = self._step(one, parent, scope)
            self._built.steps.append(step)
            self._ids[one.id] = step.id
            # Each row holds its scope: in a trace that nests without end they would take the square of its length.
            self._scopes[one.id] = scope if len(scope) > _SCOPE else f"{scope}/{step.name}" if scope else step.name

    def _step(self, one: Observation, parent: str, scope: str) -> StepRecord:
        built = self._built
        kind = _KINDS.get(one.type, "job")
        name = one.name or one.type.lower()
        given = parsed(one.input)
        input_hash, _ = built.snap(given)
        output_hash, output_order = built.snap(parsed(one.output))
        key = _key(kind, name, one.version, given, input_hash)
        return StepRecord(
            id=made_id(one.project_id, one.trace_id, "step", one.id),
            run_id=built.run.id,
            parent_id=parent,
            seq=self._seq,
            name=name,
            kind=kind,
            scope=scope,
            occurrence=self._count("tool", scope, key) if kind == "tool" else self._count("step", scope, name),
            key=key,
            status=_status(one),
            state="called" if kind == "tool" else "run",
            version=one.version if kind == "tool" else None,
            input_hash=input_hash,
            output_hash=output_hash,
            output_order=output_order,
            error=(one.status_message or "it says that it failed") if one.failed else None,
            started_at=one.start,
            duration_ms=_milliseconds(one.start, one.end) or 0.0,
        )

    def _message(self, one: Observation, parent: str, scope: str) -> MessageRecord:
        built = self._built
        endpoint = EMBEDDINGS if one.type == "EMBEDDING" else CHAT
        request = request_body(one)
        keys = request_keys("POST", endpoint, request)
        view = request_view(endpoint, request)
        usage = usage_of(one.usage)
        exchange, finish = _exchange(built, one, endpoint, response_body(one, usage))
        return MessageRecord(
            id=made_id(one.project_id, one.trace_id, "message", one.id),
            run_id=built.run.id,
            step_id=parent,
            seq=self._seq,
            scope=scope,
            method="POST",
            endpoint=endpoint,
            provider=_PROVIDER,
            exact_key=keys.exact,
            semantic_key=keys.semantic,
            occurrence=self._count("message", scope, keys.exact),
            request_hash=built.keep(request),
            exchanges=(exchange,) if exchange else (),
            status=_status(one),
            model=one.model,
            prompt_name=one.prompt_name,
            prompt_version=one.prompt_version,
            params={**view.params, **{name: value for name, value in one.params.items() if _is_scalar(value)}},
            usage=usage,
            cost=one.total_cost,
            finish_reasons=finish,
            latency_ms=_milliseconds(one.start, one.end),
            first_chunk_ms=_milliseconds(one.start, one.first_token),
            error=(one.status_message or "it says that it failed") if one.failed else None,
            started_at=one.start,
        )

    def _count(self, kind: str, scope: str, key: str) -> int:
        self._counts[kind, scope, key] += 1
        return self._counts[kind, scope, key] - 1


def _exchange(
    built: Built, one: Observation, endpoint: str, body: bytes | None
) -> tuple[Exchange | None, tuple[str, ...]]:
    """The answer, if any came, and why it ended."""
    if body is None:
        failed = Exchange(status=None, error=one.status_message or "it says that it failed")
        return (failed if one.failed else None), ()
    exchange = Exchange(status=200, headers=_JSON, body_hash=built.keep(body))
    return exchange, view_response(endpoint, exchange, body).finish_reasons


def _key(kind: StepKind, name: str, version: str | None, given: Any, input_hash: Hash | None) -> str:
    if kind == "tool":
        try:
            return tool_key(name, version, given if isinstance(given, dict) else {"input": given})
        except CanonicalError:
            # A value that no tool takes; the plain key tells calls apart as well.
            return content_hash(canonical_json({"tool": name, "inputs": input_hash or "unserialisable"}))
    return content_hash(canonical_json({"step": name, "inputs": input_hash or "unserialisable"}))


def _status(one: Observation) -> Status:
    return "error" if one.failed else "ok"


def _milliseconds(start: datetime, end: datetime | None) -> float | None:
    """Between two wall clocks; never negative."""
    return None if end is None else max(0.0, (end - start).total_seconds() * 1000)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)
