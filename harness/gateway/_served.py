"""A model call that the recording answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from harness.canonical import RequestKeys
from harness.errors import RecordingMissing
from harness.gateway._live import message_record
from harness.gateway._outgoing import Outgoing
from harness.gateway._price import priced, prices_of
from harness.gateway._renamed import with_names
from harness.record import Exchange, Hash, MessageRecord
from harness.session import Answer, Frame, RunState

_RETRY = frozenset({"retry-after", "retry-after-ms", "x-should-retry"})


@dataclass(frozen=True, slots=True)
class Served:
    """The recorded final attempt: status, headers, and the body as received."""

    run: RunState
    message: MessageRecord
    """As written for this run, with ``replay_of`` naming the recorded one."""
    exchange: Exchange
    body: bytes

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The kept headers, without a length that no longer fits the body.

        A failure is the last attempt of its call: an SDK that waits and tries again would get the same answer.
        """
        size = str(len(self.body))
        kept = [pair for pair in self.exchange.headers if pair[0].lower() != "content-length" or pair[1] == size]
        if self.exchange.status is None or self.exchange.status < 400:
            return kept
        return [*(pair for pair in kept if pair[0].lower() not in _RETRY), ("x-should-retry", "false")]

    def error(self) -> tuple[str, str] | None:
        """Type name and message of the recorded transport error, if there was one.

        Raises:
            RecordingMissing: The recorded call was cut off before anything came back, so nothing can be served.
        """
        if self.exchange.error is None:
            return None
        if self.message.status == "interrupted":
            self._cut_off()
        name, _, text = self.exchange.error.partition(": ")
        return name, text

    def chunks(self) -> Iterator[bytes]:
        """The body with the boundaries it was received with.

        Raises:
            RecordingMissing: The caller stopped here when this was recorded, and now reads on.
        """
        start = 0
        for end, _ in self.exchange.chunks:
            yield self.body[start:end]
            start = end
        if start < len(self.body):
            yield self.body[start:]
        if self.message.status == "interrupted":
            self._cut_off()

    def _cut_off(self) -> NoReturn:
        text = (
            f"message {self.message.replay_of!r} was recorded only up to where its caller stopped reading, "
            "and this run reads on; record it again with GOLDFORK_MODE=live"
        )
        self.run.misses.append(text)
        raise RecordingMissing(text)


def serve(
    answer: Answer,
    frame: Frame,
    outgoing: Outgoing,
    keys: RequestKeys,
    occurrence: int,
    *,
    names: Mapping[str, str] | None = None,
) -> Served:
    """Answer a call from the recording, and write that this run got it there.

    Args:
        answer: The recorded message.
        frame: Where the call was made.
        outgoing: Its request.
        keys: Its keys.
        occurrence: Its number among equal ones.
        names: What recorded ids are called here, for an answer that was found by renaming them.
    """
    recorded, run = answer.message, frame.run
    exchange = recorded.answer
    if exchange is None:
        raise RecordingMissing(f"message {recorded.id!r} holds no answer; record its run again")
    begun = run.plan.clock.monotonic()
    body = b"" if exchange.body_hash is None else answer.recording.read(exchange.body_hash)
    if names:
        exchange, body = with_names(exchange, body, names)
    fresh = message_record(frame, outgoing, keys, occurrence)
    known = replace(
        fresh,
        exchanges=(exchange,),
        streamed=recorded.streamed,
        status=recorded.status,
        cache_state="recorded" if names is None else "renamed",
        replay_of=recorded.id,
        model_served=recorded.model_served,
        system_fingerprint=recorded.system_fingerprint,
        usage=recorded.usage,
        cost=recorded.cost,
        currency=recorded.currency,
        finish_reasons=recorded.finish_reasons,
        latency_ms=(run.plan.clock.monotonic() - begun) * 1000,
        error=recorded.error,
    )
    # What is saved is what it would cost now; a price that is no longer known leaves what it cost then.
    message = priced(known, prices_of(run))
    blobs: dict[Hash, bytes] = {message.request_hash: outgoing.stored}
    if exchange.body_hash is not None:
        blobs[exchange.body_hash] = body
    run.emit(message, blobs=blobs)
    return Served(run, message, exchange, body)
