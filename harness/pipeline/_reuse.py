"""Taking a skipped step's subtree over into the new run, so that a fork is itself a whole recording."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.record import Hash, MessageRecord, Record, StepRecord
from harness.session import Frame, RunState, StepAnswer, new_id


def take_over(frame: Frame, answer: StepAnswer) -> tuple[list[Record], dict[Hash, bytes]]:
    """Copies of everything recorded below a step, as rows of this run, with their content.

    Every copy counts as one occurrence, so that later equal calls keep the place they had in the parent.
    """
    run, recording = frame.run, answer.recording
    ids = {answer.step.id: frame.step.record.id}
    records: list[Record] = []
    below: list[StepRecord | MessageRecord] = [*recording.steps, *recording.messages]
    for item in sorted(below, key=lambda item: item.seq):
        if isinstance(item, StepRecord):
            if item.parent_id in ids and item.id not in ids:
                ids[item.id] = new_id()
                records.append(_step(run, item, ids))
        elif item.step_id in ids:
            records.append(_message(run, item, ids))
    for value in recording.volatile:
        inside = value.scope == frame.scope or value.scope.startswith(f"{frame.scope}/")
        # The scope alone would take over what other visits of an equally named step drew.
        if value.step_id in ids or (inside and value.step_id is None):
            run.occurrence("volatile", value.scope, value.name)
            records.append(replace(value, run_id=run.id, step_id=ids[value.step_id] if value.step_id else None))
    blobs = {digest: recording.read(digest) for record in records for digest in _content(record)}
    return records, blobs


def _step(run: RunState, step: StepRecord, ids: dict[str, str]) -> StepRecord:
    tool = step.kind == "tool"
    run.occurrence("tool" if tool else "step", step.scope, step.key if tool else step.name)
    return replace(
        step,
        id=ids[step.id],
        run_id=run.id,
        parent_id=ids[step.parent_id] if step.parent_id else None,
        seq=run.next_seq(),
        state=("dry" if step.determinism == "side-effect" else "answered") if tool else "reused",
        reused_from=step.id,
        duration_ms=0.0,
    )


def _message(run: RunState, message: MessageRecord, ids: dict[str, str]) -> MessageRecord:
    run.occurrence("message", message.scope, message.exact_key)
    return replace(
        message,
        id=new_id(),
        run_id=run.id,
        step_id=ids[message.step_id] if message.step_id else None,
        seq=run.next_seq(),
        cache_state="recorded",
        replay_of=message.id,
    )


def _content(record: Record) -> Iterator[Hash]:
    if isinstance(record, StepRecord):
        yield from (digest for digest in (record.input_hash, record.output_hash) if digest)
    elif isinstance(record, MessageRecord):
        yield record.request_hash
        yield from (exchange.body_hash for exchange in record.exchanges if exchange.body_hash)
