"""A model call that goes to the provider, and the record made of it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from harness.canonical import RequestKeys, content_hash
from harness.gateway._flusher import FLUSHER
from harness.gateway._outgoing import MODEL_ENDPOINTS, Outgoing
from harness.gateway._price import priced, prices_of
from harness.gateway._secrets import Credentials, kept_headers
from harness.record import (
    ChunkRecord,
    Exchange,
    MessageRecord,
    ResponseView,
    Status,
    StreamView,
    decode_body,
    is_event_stream,
    request_view,
    view_response,
)
from harness.session import Frame, new_id


def message_record(frame: Frame, outgoing: Outgoing, keys: RequestKeys, occurrence: int) -> MessageRecord:
    """The record of a call that has just started."""
    view = request_view(keys.endpoint, outgoing.stored)
    prompt = frame.step.prompt or (None, None)
    return MessageRecord(
        id=new_id(),
        run_id=frame.run.id,
        step_id=frame.step.record.id,
        seq=frame.run.next_seq(),
        scope=frame.scope,
        method=outgoing.method,
        endpoint=keys.endpoint,
        provider=outgoing.provider,
        exact_key=keys.exact,
        semantic_key=keys.semantic,
        occurrence=occurrence,
        request_hash=content_hash(outgoing.stored),
        request_type=outgoing.content_type,
        status="running",
        model=view.model,
        prompt_name=prompt[0],
        prompt_version=prompt[1],
        params=view.params,
        started_at=frame.run.plan.clock.now(),
    )


class LiveCall:
    """One logical call; attempts that an SDK repeats are its exchanges."""

    def __init__(self, frame: Frame, outgoing: Outgoing, keys: RequestKeys, occurrence: int) -> None:
        self.run = frame.run
        self.outgoing = outgoing
        self.record = message_record(frame, outgoing, keys, occurrence)
        self.begun = self.run.plan.clock.monotonic()
        self.run.emit(self.record, blobs={self.record.request_hash: outgoing.stored})

    def elapsed_ms(self) -> float:
        """Milliseconds since the current attempt started."""
        return (self.run.plan.clock.monotonic() - self.begun) * 1000

    def repeat(self) -> None:
        """Start a further attempt of the same logical call."""
        self.begun = self.run.plan.clock.monotonic()

    def failed(self, error: BaseException) -> Future[None]:
        """The transport raised before a response arrived."""
        text = self.outgoing.credentials.masked_text(describe(error))
        status: Status = "error" if isinstance(error, Exception) else "interrupted"
        latency = self.elapsed_ms()
        return self.ended(Exchange(status=None, error=text), None, status=status, latency=latency, first=None)

    def answered(self, status: int, headers: Iterable[tuple[str, str]]) -> Reply:
        """A response has begun; its body is still to come."""
        return Reply(self, status, tuple(headers))

    def ended(
        self,
        exchange: Exchange,
        view: ResponseView | None,
        *,
        status: Status,
        latency: float,
        first: float | None,
        streamed: bool = False,
        body: bytes | None = None,
    ) -> Future[None]:
        """Write the message with one more exchange; the future completes at the commit."""
        view = view or ResponseView()
        masked = self.outgoing.credentials.masked_text
        error = exchange.error or view.error
        ended = replace(
            self.record,
            exchanges=(*self.record.exchanges, exchange),
            streamed=streamed,
            status=status,
            model_served=masked(view.model_served) if view.model_served else None,
            system_fingerprint=view.system_fingerprint,
            usage=view.usage,
            finish_reasons=view.finish_reasons,
            latency_ms=latency,
            first_chunk_ms=first,
            error=masked(error) if error and status != "ok" else None,
        )
        self.record = priced(ended, prices_of(self.run))
        return self.run.emit(self.record, blobs={content_hash(body): body} if body is not None else None)

    def amended(self) -> None:
        """Take the last exchange back: more of its body arrived after it was written."""
        self.record = replace(self.record, exchanges=self.record.exchanges[:-1])


class Reply:
    """The body of one attempt while it passes through.

    ``take`` and ``end`` say what to hand on and which commit to wait for before that. A plain body is one chunk
    behind, so that its last bytes are handed on only once they are stored; a stream passes at once up to the
    bytes that announce its end.
    """

    def __init__(self, call: LiveCall, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        table = {name.lower(): value for name, value in headers}
        self._call = call
        self._status = status
        self._headers = headers
        self._follower = (
            StreamView(call.record.endpoint, encoding=table.get("content-encoding", ""))
            if is_event_stream(table.get("content-type", ""))
            else None
        )
        self._lock = threading.Lock()
        self._body = bytearray()
        self._held = b""
        self._offsets: list[tuple[int, float]] = []
        self._unflushed = bytearray()
        self._flushes = 0
        self._state = "open"
        self._owner: weakref.ref[Any] | None = None
        if self._follower is not None:
            FLUSHER.add(self)
            # A stream left by `break` is collected when the workflow returns; it belongs to the run, not after it.
            call.run.at_end(self.tick)

    def owned_by(self, stream: object) -> None:
        """When ``stream`` is collected before its end, an event stream's reply ends as interrupted."""
        self._owner = weakref.ref(stream)

    @property
    def received(self) -> bytes:
        """The body so far, for an error that must carry the reply."""
        return bytes(self._body)

    def take(self, chunk: bytes) -> tuple[bytes, Future[None] | None]:
        """Note a chunk; returns what to hand on, after the commit if there is one."""
        with self._lock:
            self._body += chunk
            self._offsets.append((len(self._body), self._call.elapsed_ms()))
            if self._follower is None:
                out, self._held = self._held, chunk
                return out, None
            self._unflushed += self._follower.feed(chunk)
            if self._state == "sealed":
                self._state = "dirty"
            if self._state == "open" and self._follower.finished:
                self._state = "sealed"
                return chunk, self._write(None)
            return chunk, None

    def end(self) -> tuple[bytes, Future[None] | None]:
        """The body has ended; returns what was held back and the commit to wait for."""
        with self._lock:
            out, self._held = self._held, b""
            return out, self._finish(None, "ended")

    def broken(self, error: BaseException) -> tuple[bytes, Future[None] | None]:
        """The transport failed in the middle of the body."""
        with self._lock:
            out, self._held = self._held, b""
            return out, self._finish(error, "broken")

    def closed(self) -> Future[None] | None:
        """The caller wants no more of it."""
        with self._lock:
            return self._finish(None, "interrupted")

    def tick(self) -> None:
        """Flush what is new; called by the flusher's thread."""
        with self._lock:
            if self._owner is not None and self._owner() is None:
                self._finish(None, "interrupted")
            elif self._state == "open" and self._unflushed:
                self._flush()

    def _flush(self) -> None:
        credentials = self._call.outgoing.credentials
        data = bytes(self._unflushed)
        keep = credentials.held_back(data)
        ready = credentials.masked(data[: len(data) - keep])
        if not ready:
            return
        del self._unflushed[: len(data) - keep]
        at = self._call.elapsed_ms()
        chunk = ChunkRecord(message_id=self._call.record.id, index=self._flushes, data=ready, offset_ms=at)
        self._flushes += 1
        self._call.run.emit(chunk)

    def _finish(self, error: BaseException | None, how: str) -> Future[None] | None:
        """End once; what was sealed by its own end marker is written again only if more bytes followed."""
        before, self._state = self._state, "done"
        if before == "done":
            return None
        if self._follower is not None:
            FLUSHER.discard(self)
            self._call.run.not_at_end(self.tick)
        if before == "sealed":
            return None
        if before == "dirty":
            self._call.amended()
        return self._write(error, interrupted=how == "interrupted" and before == "open")

    def _write(self, error: BaseException | None, *, interrupted: bool = False) -> Future[None]:
        credentials = self._call.outgoing.credentials
        text = credentials.masked_text(describe(error)) if error is not None else None
        headers = kept_headers(self._headers, credentials)
        body, headers, same = _scrubbed(bytes(self._body), headers, credentials)
        spelt = self._follower is not None and credentials.starred(body) != body
        if spelt:
            body = credentials.starred(body)
        exchange = Exchange(
            status=self._status,
            headers=headers,
            body_hash=content_hash(body),
            chunks=tuple(self._offsets) if self._follower is not None and same else (),
            error=text,
        )
        if self._follower is not None and not spelt:
            view = self._follower.view(self._status)
        else:
            view = view_response(self._call.record.endpoint, exchange, body)
        status, view = _judge(self._call.record.endpoint, exchange, view, interrupted=interrupted)
        return self._call.ended(
            exchange,
            view,
            status=status,
            latency=self._call.elapsed_ms(),
            first=self._offsets[0][1] if self._offsets and self._follower is not None else None,
            streamed=self._follower is not None,
            body=body,
        )


def _judge(endpoint: str, exchange: Exchange, view: ResponseView, *, interrupted: bool) -> tuple[Status, ResponseView]:
    """Whether this is an answer, a failure, or what a caller left of one."""
    if exchange.status is not None and exchange.status >= 400:
        return "error", view if view.error else replace(view, error=f"HTTP {exchange.status}")
    if exchange.error is not None:
        return "error", view
    if interrupted:
        return "interrupted", replace(view, error="the caller stopped reading")
    if endpoint not in MODEL_ENDPOINTS:
        return "ok", view
    if view.error is None and not view.complete:
        view = replace(view, error="the stream ended before its end was announced")
    return ("error" if view.error else "ok"), view


def _scrubbed(
    body: bytes, headers: tuple[tuple[str, str], ...], credentials: Credentials
) -> tuple[bytes, tuple[tuple[str, str], ...], bool]:
    """Body and headers without the call's credential, and whether chunk boundaries still hold."""
    if not credentials.forms:
        return body, headers, True
    encoding = next((value for name, value in headers if name.lower() == "content-encoding"), "")
    if not encoding:
        return credentials.masked(body), headers, True
    plain, _ = decode_body(body, encoding)
    masked = credentials.masked(plain)
    if masked == plain:
        return body, headers, True
    dropped = {"content-encoding", "content-length"}
    return masked, tuple(pair for pair in headers if pair[0].lower() not in dropped), False


def describe(error: BaseException) -> str:
    """``Type: message``, which replay reads back."""
    return f"{type(error).__name__}: {error}"
