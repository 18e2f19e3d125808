"""Taking a skipped step's subtree over into the new run, so that a fork is itself a whole recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from harness.pipeline._rekey import rekeyed
from harness.pipeline._snapshot import plain
from harness.record import Hash, MessageRecord, Record, Recording, StepRecord, VolatileRecord
from harness.session import FetchedPrompt, Frame, RunState, StepAnswer, Subtrees, new_id


def take_over(frame: Frame, answer: StepAnswer) -> tuple[list[Record], dict[Hash, bytes]]:
    """Copies of everything recorded below a step, as rows of this run, with their content.

    Every copy is numbered by this run's own count, as if its body had run here.
    """
    run, recording = frame.run, answer.recording
    index = answer.subtrees or Subtrees(recording)
    below = index.below(answer.step)
    ids = {answer.step.id: frame.step.record.id}
    ids |= {item.id: new_id() for item in below if isinstance(item, StepRecord)}
    before = list(run.volatile) if below else []
    drawn = _volatile(frame, index, ids)
    _freeze_prompts(run, recording, drawn.values())

    def taken(count: int) -> list[VolatileRecord]:
        return [*before, *(value for place, value in drawn.items() if place < count)]

    records: list[Record] = [*drawn.values()]
    for item in below:
        if isinstance(item, StepRecord):
            records.append(_step(run, item, ids))
        else:
            body = recording.read(item.request_hash)
            records.append(_message(run, rekeyed(item, body, recording.volatile, taken), ids))
    run.blocked.extend(_kept_dry(recording, records))
    # The step's own input is the one it is given here.
    made = [digest for digest in (answer.step.output_hash, answer.step.output_order) if digest]
    made += [digest for record in records for digest in _content(record)]
    return records, {digest: recording.read(digest) for digest in made}


def pass_over(run: RunState, answer: StepAnswer) -> None:
    """Count what was recorded below a step whose output is dictated, so that what comes later is not taken for it."""
    index = answer.subtrees or Subtrees(answer.recording)
    below = index.below(answer.step)
    for item in below:
        if isinstance(item, MessageRecord):
            run.occurrence("message", item.scope, item.exact_key)
        else:
            tool = item.kind == "tool"
            run.occurrence("tool" if tool else "step", item.scope, item.key if tool else item.name)
    ids = {answer.step.id, *(item.id for item in below if isinstance(item, StepRecord))}
    for _, value in index.drawn(ids, f"{answer.step.scope}/{answer.step.name}".lstrip("/")):
        run.occurrence("volatile", value.scope, value.name)


def _kept_dry(recording: Recording, records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """The side effects in a skipped body: they were not repeated either, and the recording answered."""
    for record in records:
        if isinstance(record, StepRecord) and record.state == "dry":
            arguments = plain(recording.read(record.input_hash)) if record.input_hash else None
            yield {"tool": record.name, "step": record.address, "arguments": arguments, "answered_by": "recording"}


def _step(run: RunState, step: StepRecord, ids: dict[str, str]) -> StepRecord:
    tool = step.kind == "tool"
    return replace(
        step,
        id=ids[step.id],
        run_id=run.id,
        parent_id=ids[step.parent_id] if step.parent_id else None,
        seq=run.next_seq(),
        occurrence=run.occurrence("tool" if tool else "step", step.scope, step.key if tool else step.name),
        state=("dry" if step.determinism == "side-effect" else "answered") if tool else "reused",
        reused_from=step.id,
        duration_ms=0.0,
    )


def _message(run: RunState, message: MessageRecord, ids: dict[str, str]) -> MessageRecord:
    return replace(
        message,
        id=new_id(),
        run_id=run.id,
        step_id=ids[message.step_id] if message.step_id else None,
        seq=run.next_seq(),
        occurrence=run.occurrence("message", message.scope, message.exact_key),
        cache_state="recorded",
        replay_of=message.id,
    )


def _volatile(frame: Frame, index: Subtrees, ids: dict[str, str]) -> dict[int, VolatileRecord]:
    """Copies of the values that were drawn in these steps, by their place in the recording."""
    run = frame.run
    values = index.drawn(set(ids), frame.scope)
    # Parallel steps of one scope may have been written in another order than they were numbered in.
    values.sort(key=lambda entry: entry[1].occurrence)
    return {
        place: replace(
            value,
            run_id=run.id,
            step_id=ids[value.step_id] if value.step_id else None,
            occurrence=run.occurrence("volatile", value.scope, value.name),
        )
        for place, value in values
    }


def _freeze_prompts(run: RunState, recording: Recording, drawn: Iterable[VolatileRecord]) -> None:
    """The texts of sourced prompts that skipped steps used hold for this run, which is to be a recording itself."""
    used = {f"prompt-source:{value.name.removeprefix('prompt:')}" for value in drawn}
    for value in recording.volatile:
        if value.name in used:
            run.freeze_prompt(value.name.removeprefix("prompt-source:"), FetchedPrompt.from_recorded(value.value))


def _content(record: Record) -> Iterator[Hash]:
    if isinstance(record, StepRecord):
        yield from (digest for digest in (record.input_hash, record.output_hash, record.output_order) if digest)
    elif isinstance(record, MessageRecord):
        yield record.request_hash
        yield from (exchange.body_hash for exchange in record.exchanges if exchange.body_hash)
