"""Ids of Langfuse made from ours: fixed, so that sending twice is sending the same thing."""

from __future__ import annotations

import uuid
from functools import lru_cache
from hashlib import sha256
from typing import Final, Literal

_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8


def trace_id(run_id: str) -> str:
    """The trace of a run, as 32 lower-case hex digits, never all zero.

    A UUID is its own digits, so that a run is found in Langfuse by its id; anything else is the first 16 bytes of the
    SHA-256 of its UTF-8 text.
    """
    try:
        digits = uuid.UUID(run_id).hex
    except ValueError:
        digits = ""
    if len(run_id) not in {32, 36} or not digits or not int(digits, 16):
        digits = _digest(run_id, _TRACE_BYTES)
    return digits


@lru_cache(maxsize=4096)
def span_id(kind: Literal["step", "message"], row_id: str) -> str:
    """The observation of a step or a message, as 16 lower-case hex digits, never all zero."""
    return _digest(f"{kind}:{row_id}", _SPAN_BYTES)


def _digest(text: str, size: int) -> str:
    digits = sha256(text.encode("utf-8", "surrogatepass")).digest()[:size].hex()
    return digits if int(digits, 16) else f"{'0' * (2 * size - 1)}1"
