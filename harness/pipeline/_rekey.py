"""The keys of a request that is taken over into another run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.canonical import RequestKeys, request_keys
from harness.gateway import declared, is_declared
from harness.record import MessageRecord, VolatileRecord


def rekeyed(
    message: MessageRecord,
    body: bytes,
    recorded: Sequence[VolatileRecord],
    taken: Callable[[int], Sequence[VolatileRecord]],
) -> MessageRecord:
    """The message under the keys that its request has in the run it is taken over into.

    In a key, a declared value is replaced by its number, and in another run it may have another number. A recording
    does not say which values came before a request; what gives its key again did. Where nothing does (headers or
    a query counted), the keys stay.

    Args:
        message: The recorded message.
        body: Its request.
        recorded: All declared values of the recording, in order.
        taken: The values of the new run by the time that so many of the recorded ones were drawn.
    """
    text = body.decode("utf-8", "replace")
    first: dict[str, int] = {}
    for place, value in enumerate(recorded, 1):
        if str(value.value) in text and is_declared(value, message.scope):
            first.setdefault(str(value.value), place)
    if not first:
        return message
    # Most often a request is made right after what it holds was drawn.
    last = max(first.values())
    for count in (*range(last, len(recorded) + 1), *range(last - 1, 0, -1)):
        if not is_declared(recorded[count - 1], message.scope):
            continue
        if _keys(message, body, recorded[:count]).exact == message.exact_key:
            keys = _keys(message, body, taken(count))
            return replace(message, exact_key=keys.exact, semantic_key=keys.semantic)
    return message


def _keys(message: MessageRecord, body: bytes, volatile: Sequence[VolatileRecord]) -> RequestKeys:
    return request_keys(
        message.method,
        message.endpoint,
        body,
        content_type=message.request_type,
        volatile=declared(volatile, message.scope),
    )
