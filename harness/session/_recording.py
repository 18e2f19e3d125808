"""A run that has just finished, seen as a recording."""

from __future__ import annotations

from harness.errors import DatasetMissing
from harness.record import Hash, Recording
from harness.session._state import RunState


def recording_of(run: RunState) -> Recording:
    """The recording of a run whose plan said ``keep``.

    Its content is read from memory; call it after the run has finished.
    """
    blobs = run.blobs

    def read(digest: Hash) -> bytes:
        try:
            return blobs[digest]
        except KeyError:
            raise DatasetMissing(f"run {run.id} holds no content {digest!r}") from None

    return Recording(
        run=run.record,
        steps=tuple(sorted(run.steps, key=lambda step: step.seq)),
        messages=tuple(sorted(run.messages, key=lambda message: message.seq)),
        volatile=tuple(run.volatile),
        read=read,
    )
