"""``annotate``: what a run says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.canonical import canonical_json, parse_json
from harness.errors import CanonicalError, UsageError
from harness.session import Frame, current


def annotate(*, tags: Sequence[str] = (), **metadata: Any) -> None:
    """Add tags and metadata to the run that this code belongs to.

    ``session_id``, ``user_id``, ``environment`` and ``release`` are understood by Langfuse and OpenTelemetry::

        harness.annotate(session_id=conversation.id, user_id=user.id, tags=["beta"])

    Args:
        tags: Added to those that the run has.
        **metadata: JSON values; one given again replaces the earlier one.

    Raises:
        UsageError: There is no run here, or a value is not JSON.
    """
    frame = current()
    if frame is None:
        raise UsageError("annotate() says something about a run, and there is none here; call it inside a workflow")
    try:
        # Credentials of the run are starred out like everywhere else.
        known = parse_json(frame.run.masked(canonical_json(metadata)))
        words = parse_json(frame.run.masked(canonical_json(list(tags))))
    except CanonicalError as error:
        raise UsageError(f"annotate() takes JSON values: {error}") from error
    if not all(isinstance(word, str) and word and word.isprintable() for word in words):
        raise UsageError("annotate() takes tags of printable text, none of them empty")
    frame.run.annotate(words, known)
    around: Frame | None = frame
    while around is not None:
        around.step.annotated = True
        around = around.outer
