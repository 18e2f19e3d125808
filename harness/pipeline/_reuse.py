"""Taking a skipped step's subtree over into the new run, so that a fork is itself a whole recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from harness.pipeline._rekey import rekeyed
from harness.record import Hash, MessageRecord, Record, Recording, StepRecord, VolatileRecord
from harness.session import FetchedPrompt, Frame, RunState, StepAnswer, new_id


def take_over(frame: Frame, answer: StepAnswer) -> tuple[list[Record], dict[Hash, bytes]]:
    """Copies of everything recorded below a step, as rows of this run, with their content.

    Every copy is numbered by this run's own count, as if its body had run here.
    """
    run, recording = frame.run, answer.recording
    ids = {answer.step.id: frame.step.record.id}
    all_of_it: list[StepRecord | MessageRecord] = [*recording.steps, *recording.messages]
    below: list[StepRecord | MessageRecord] = []
    for item in sorted(all_of_it, key=lambda item: item.seq):
        if isinstance(item, MessageRecord):
            if item.step_id in ids:
                below.append(item)
        elif item.parent_id in ids and item.id not in ids:
            ids[item.id] = new_id()
            below.append(item)
    before = list(run.volatile)
    drawn = _volatile(frame, recording, ids)
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
    blobs = {digest: recording.read(digest) for record in (answer.step, *records) for digest in _content(record)}
    return records, blobs


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


def _volatile(frame: Frame, recording: Recording, ids: dict[str, str]) -> dict[int, VolatileRecord]:
    """Copies of the values that were drawn in these steps, by their place in the recording."""
    run, below = frame.run, f"{frame.scope}/"
    values = [
        (place, value)
        for place, value in enumerate(recording.volatile)
        # The scope alone would take over what other visits drew; it stands in where no step was recorded.
        if value.step_id in ids or (value.step_id is None and f"{value.scope}/".startswith(below))
    ]
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
