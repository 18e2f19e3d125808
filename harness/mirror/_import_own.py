"""A trace that our own mirror made, as the run that it was made from."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from harness.mirror import _dictionary as words
from harness.mirror import _ids
from harness.mirror._import_body import parsed, request_again, response_again
from harness.mirror._import_run import Built, source_record
from harness.mirror._observation import Observation
from harness.record import Exchange, Hash, MessageRecord, RunRecord, Status, StepRecord

_JSON = (("content-type", "application/json"),)


Row = TypeVar("Row", RunRecord, StepRecord, MessageRecord)


@dataclass(slots=True)
class _Rows:
    """The rows that a trace's observations carry, each beside its observation."""

    run: RunRecord | None = None
    top: Observation | None = None
    """The observation that carries the run."""
    steps: list[tuple[StepRecord, Observation]] = field(default_factory=list)
    messages: list[tuple[MessageRecord, Observation]] = field(default_factory=list)

    def take(self, one: Observation, run_id: str) -> bool:
        """Add what an observation carries; false when that is nothing, malformed, of another run, or another's."""
        meta = _meta(one)
        if meta.get("run") != run_id:
            return False
        if "root" in meta:
            self.run, again = _read(words.run_record, one), self.run
            self.top = one
            if self.run is None or self.run.id != run_id or again is not None:
                return False
            if "kind" not in meta:
                # The run's root step was never written; the observation stands for the run alone.
                return _ids.span_id("step", run_id) == one.id
        if meta.get("kind") == "message":
            message = _read(words.message_record, one)
            if message is None or not _fits(message, run_id, one):
                return False
            self.messages.append((message, one))
            return True
        step = _read(words.step_record, one)
        if step is None or not _fits(step, run_id, one):
            return False
        self.steps.append((step, one))
        return True

    @property
    def one_tree(self) -> bool:
        """One root at most, and no place taken twice."""
        places = [step.seq for step, _ in self.steps] + [message.seq for message, _ in self.messages]
        roots = [step for step, _ in self.steps if step.parent_id is None]
        return len(places) == len(set(places)) and len(roots) == (1 if self.steps else 0)


def claimed_run(trace_id: str, observations: Iterable[Observation]) -> str | None:
    """Id of the run that a trace says it is the mirror of; ``None`` when it says nothing, or cannot be."""
    for one in observations:
        run = _meta(one).get("run")
        if isinstance(run, str) and _is_id(run) and _ids.trace_id(run) == trace_id:
            return run
    return None


def own_run(trace_id: str, observations: list[Observation]) -> Built | None:
    """The run that our mirror made the trace from, with its ids, its order and everything that was measured.

    Content is what the trace tells of it: redacted, and without the bytes that went over the wire.

    Returns:
        ``None`` when it is not our mirror's, or something in it does not agree: then it is a stranger's trace.
    """
    run_id = claimed_run(trace_id, observations)
    if run_id is None:
        return None
    rows = _Rows()
    if not all(rows.take(one, run_id) for one in observations) or rows.run is None or not rows.one_tree:
        return None
    built = Built(replace(rows.run, fidelity="imported", owner="", status=_ended(rows.run.status)))
    known = {step.id for step, _ in rows.steps}
    root = next((step.id for step, _ in rows.steps if step.parent_id is None), None)
    for step, one in sorted(rows.steps, key=lambda pair: pair[0].seq):
        above = step.parent_id if step.parent_id in known or step.parent_id is None else root
        built.steps.append(_step(built, replace(step, parent_id=above), one))
    for message, one in sorted(rows.messages, key=lambda pair: pair[0].seq):
        holder = message.step_id if message.step_id in known or message.step_id is None else root
        built.messages.append(_message(built, replace(message, step_id=holder), one))
    if rows.top is not None:
        _lend(built, rows.top)
    built.source = source_record(run_id, observations)
    return built


def _meta(one: Observation) -> Mapping[str, Any]:
    found = one.metadata.get(words.KEY)
    return found if isinstance(found, Mapping) else {}


def _read(read: Callable[..., Row], one: Observation) -> Row | None:
    """The record that an observation's metadata tells of; ``None`` when it tells of none."""
    try:
        return read(_meta(one), status_message=one.status_message)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        # Written by anybody who can write into the project.
        return None


def _fits(record: StepRecord | MessageRecord, run_id: str, one: Observation) -> bool:
    kind: Literal["step", "message"] = "step" if isinstance(record, StepRecord) else "message"
    above = record.parent_id if isinstance(record, StepRecord) else record.step_id
    ids = [record.id, *([above] if above is not None else [])]
    in_range = 0 <= record.seq < 2**31 and 0 <= record.occurrence < 2**31
    return record.run_id == run_id and in_range and all(map(_is_id, ids)) and _ids.span_id(kind, record.id) == one.id


def _step(built: Built, step: StepRecord, one: Observation) -> StepRecord:
    given, _ = _kept(built, step.input_hash, one.input)
    made, order = _kept(built, step.output_hash, one.output)
    return replace(step, status=_ended(step.status), input_hash=given, output_hash=made, output_order=order)


def _lend(built: Built, top: Observation) -> None:
    """Give the run its input and output: those of its root."""
    run = built.run
    given, order = _kept(built, run.input_hash, top.input)
    made, _ = _kept(built, run.output_hash, top.output)
    built.run = replace(run, input_hash=given, input_order=order, output_hash=made)


def _kept(built: Built, had: Hash | None, told: Any) -> tuple[Hash | None, Hash | None]:
    """A snapshot of what the trace tells, where the row had one; null is told by telling nothing."""
    return (None, None) if had is None else built.snap_any(parsed(told))


def _message(built: Built, message: MessageRecord, one: Observation) -> MessageRecord:
    exchanges: tuple[Exchange, ...] = ()
    if message.answer is not None:
        body = response_again(message, parsed(one.output))
        digest = None if body is None else built.keep(body)
        exchanges = (replace(message.answer, headers=_JSON if digest else (), body_hash=digest, chunks=()),)
    return replace(
        message,
        status=_ended(message.status),
        request_hash=built.keep(request_again(message, parsed(one.input), _beside(one))),
        request_type="application/json",
        exchanges=exchanges,
    )


def _beside(one: Observation) -> Any:
    """The members of a request that are neither its input nor scalars."""
    return parsed(_meta(one).get("request", one.metadata.get("request")))


def _ended(status: Status) -> Status:
    """What still ran when it was mirrored had been left by its process."""
    return "interrupted" if status == "running" else status


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
