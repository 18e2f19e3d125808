"""Snapshots: any value as canonical JSON with type tags, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from harness.canonical import canonical_json, content_hash, from_canonical
from harness.pipeline._codec import TAG, Encoder, NotReusable, decode, without_tags
from harness.session import RunState, masked

T = TypeVar("T")

_TAG = f'"{TAG}"'.encode()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Canonical bytes of a value and their hash."""

    data: bytes
    hash: str
    order: bytes | None = None
    """The same with dicts in the order they had; ``None`` when that is the sorted order of ``data``."""
    order_hash: str | None = None
    masked: bool = False
    """A credential was starred out, so this is not the value."""

    @property
    def blobs(self) -> dict[str, bytes]:
        """The content by hash."""
        ordered = {} if self.order is None or self.order_hash is None else {self.order_hash: self.order}
        return {self.hash: self.data, **ordered}


def snapshot(value: Any, run: RunState | None = None, *, ordered: bool = True) -> Snapshot | None:
    """Take a snapshot, or return ``None`` when the value cannot be serialised.

    Args:
        value: Any value.
        run: The run it is taken in, whose credentials are starred out: a provider may have echoed one.
        ordered: Keep the order of dicts too.
    """
    try:
        return guarded(lambda: _take(value, run, ordered=ordered))
    except NotReusable:
        return None


_FIXED = {bool, int, float, complex, str, bytes, type(None), date, datetime, time, timedelta, Decimal, UUID}


def fixed(value: Any) -> bool:
    """Whether a value is of a kind that cannot be changed; a cheap check that misses some."""
    return type(value) in _FIXED or (type(value) is tuple and all(map(fixed, value)))


def snapshot_arguments(arguments: Mapping[str, Any], run: RunState | None = None) -> Snapshot | None:
    """A snapshot of bound arguments; the order of dicts in them counts, that of the parameters does not."""
    return snapshot(dict(sorted(arguments.items())), run)


def output_snapshot(value: Any, run: RunState | None = None, *, ordered: bool = True) -> Snapshot | None:
    """A snapshot that says of itself whether it decodes to an equal value of the same type."""
    taken = snapshot(value, run, ordered=ordered)
    if taken is None or taken.masked or _TAG not in taken.data:
        return taken
    try:
        exact = guarded(lambda: _comes_back(value, taken))
    except NotReusable:
        exact = False
    if exact:
        return taken
    data = canonical_json({TAG: "inexact", "v": from_canonical(taken.data)})
    return Snapshot(data, content_hash(data))


def restore(data: bytes) -> Any:
    """The value a snapshot was taken of.

    Raises:
        NotReusable: Its type is not imported here or refuses the content, or it never decoded to an equal value.
    """
    return guarded(lambda: decode(from_canonical(data)))


def plain(data: bytes) -> Any:
    """A snapshot as plain JSON values, type tags dropped: what evaluators and reports see."""
    return without_tags(from_canonical(data))


def _take(value: Any, run: RunState | None, *, ordered: bool) -> Snapshot:
    encoder = Encoder()
    written = canonical_json(encoder.encode(value))
    mask = masked if run is None else run.masked
    data = mask(written)
    taken = Snapshot(data, content_hash(data), masked=data != written)
    if not (ordered and encoder.unsorted):
        return taken
    order = mask(canonical_json(Encoder(ordered=True).encode(value)))
    return Snapshot(data, taken.hash, order, content_hash(order), taken.masked)


def _comes_back(value: Any, taken: Snapshot) -> bool:
    again = restore(taken.data)
    if type(again) is not type(value) or not bool(again == value):
        return False
    # What `==` of the application overlooks counts as well.
    return content_hash(canonical_json(Encoder().encode(again))) == taken.hash


def guarded(act: Callable[[], T]) -> T:
    """The result of code that calls into the application's classes: codecs, constructors, properties, ``==``.

    Raises:
        NotReusable: Whatever they raised.
    """
    try:
        return act()
    except NotReusable:
        raise
    except Exception as error:
        # Classes of the application may raise anything, and its run must go on.
        raise NotReusable(f"snapshot cannot be taken or read: {type(error).__name__}") from error
