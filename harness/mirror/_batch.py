"""Spans into requests: how much travels together, and how one refused span is found among many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.mirror._wire import Sent

MAX_SPANS: Final = 200
"""Most spans in one request."""

MAX_BYTES: Final = 3_000_000
"""Most bytes of JSON in one request, before compression; one larger span travels alone."""

SMALL: Final = 10_000
"""No server that takes spans has a limit below so many bytes: where it seems so, something else stands before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One frozen span on its way."""

    run: str
    """Id of its run."""
    data: bytes
    """The JSON span, byte for byte as frozen."""


def batches(runs: Iterable[Sequence[Piece]], *, spans: int = MAX_SPANS, size: int = MAX_BYTES) -> Iterator[list[Piece]]:
    """Pack runs into requests, in order; only a run that is too large for one request is split."""
    batch: list[Piece] = []
    used = 0
    for pieces in runs:
        total = sum(len(piece.data) for piece in pieces)
        if batch and (len(batch) + len(pieces) > spans or used + total > size):
            yield batch
            batch, used = [], 0
        for piece in pieces:
            if batch and (len(batch) >= spans or used + len(piece.data) > size):
                yield batch
                batch, used = [], 0
            batch.append(piece)
            used += len(piece.data)
    if batch:
        yield batch


def deliver(batch: Sequence[Piece], post: Callable[[Sequence[Piece]], Sent]) -> list[tuple[Piece, Sent]]:
    """Post a batch; when its content is refused, post its halves, by run and then by span.

    Args:
        batch: The spans of one request, not empty.
        post: Sends spans once.

    Returns:
        What became of each span. After trouble that is not the content's fault nothing more is posted, and what was
        not tried shares that answer.
    """
    sent = post(batch)
    if sent.outcome != "refused" or len(batch) == 1:
        return [(piece, sent) for piece in batch]
    cut = _cut(batch)
    first = deliver(batch[:cut], post)
    trouble = next((answer for _, answer in first if answer.outcome in {"retry", "denied"}), None)
    if trouble is not None:
        return [*first, *((piece, trouble) for piece in batch[cut:])]
    return first + deliver(batch[cut:], post)


def blamed(sent: Sent, size: int, probe: Callable[[int], Sent]) -> Sent:
    """Whose fault it is that a single span was refused: its own, or that of whatever answers.

    Args:
        sent: The refusal.
        size: Bytes of the request, before compression.
        probe: Posts a request without spans, once, with at least so many bytes on the wire.

    Returns:
        The refusal, when a request without the span passes; ``denied`` when that is refused too, or when the span is
        too small to be too large; else the trouble that the probe met.
    """
    too_large = sent.status == 413
    if too_large and size < SMALL:
        return replace(sent, outcome="denied")
    tried = probe(SMALL if too_large else 0)
    if tried.outcome == "accepted":
        return sent
    return replace(sent, outcome="denied") if tried.outcome == "refused" else tried


def _cut(batch: Sequence[Piece]) -> int:
    """Where to halve: the boundary between two runs that is nearest to the middle, else the middle."""
    middle = len(batch) // 2
    boundaries = [i for i in range(1, len(batch)) if batch[i].run != batch[i - 1].run]
    return min(boundaries, key=lambda i: abs(i - middle), default=middle)
