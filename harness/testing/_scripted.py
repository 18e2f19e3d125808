"""A real HTTP server on loopback that speaks the OpenAI API as a script tells it to."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from harness.testing import _answers
from harness.testing._loopback import Connection, Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request that reached the server."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    number: int
    """How many requests came before it."""

    @property
    def json(self) -> Any:
        """The body parsed; ``None`` when it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """One reply, down to its bytes, and what goes wrong with it."""

    status: int = 200
    body: bytes | str | Mapping[str, Any] = b""
    """Bytes as they are, text as an answer in the shape of the endpoint, an object as JSON."""
    pieces: Sequence[bytes] | None = None
    """Sent one by one in a chunked response instead of ``body``."""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str | None = None
    """Default: JSON, or an event stream when there are pieces."""
    gzip: bool = False
    delay: float = 0.0
    """Seconds before the status line."""
    pause: float = 0.0
    """Seconds between pieces."""
    cut: bool = False
    """Drop the connection after the last piece instead of ending the body; before any reply if there is none."""


Rule = Callable[[Seen], Scripted | Mapping[str, Any] | str]


class ScriptedServer:
    """A provider for tests.

    For example::

        with ScriptedServer() as server:
            client = openai.OpenAI(base_url=server.url, api_key="sk-test-0123456789")

    Replies are taken from the script, then from the rule; the default rule answers chat completions, responses,
    completions and embeddings, plain or streamed as asked, with another answer on every call.

    Args:
        replies: The first replies, in order of arrival.
        rule: Gives the reply to every further request.
    """

    def __init__(self, *replies: Scripted | Mapping[str, Any] | str, rule: Rule | None = None) -> None:
        self.requests: list[Seen] = []
        """Every request, in order of arrival."""
        self._script = deque(replies)
        self._rule = rule or _default
        self._lock = threading.Lock()
        self._listener = Listener(self._answer)

    @property
    def url(self) -> str:
        """Base URL for a client, ``/v1`` included."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        """The loopback port."""
        return self._listener.port

    @property
    def calls(self) -> int:
        """How many requests arrived."""
        return len(self.requests)

    def script(self, *replies: Scripted | Mapping[str, Any] | str) -> None:
        """Append replies to the script."""
        with self._lock:
            self._script.extend(replies)

    def start(self) -> Self:
        """Begin to serve."""
        self._listener.start()
        return self

    def close(self) -> None:
        """Stop, and drop every connection."""
        self._listener.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, connection: Connection) -> None:
        with self._lock:
            seen = Seen(
                method=connection.command,
                path=connection.path,
                headers=connection.given,
                body=connection.body,
                number=len(self.requests),
            )
            self.requests.append(seen)
            planned = self._script.popleft() if self._script else None
        _send(connection, _rendered(seen, planned if planned is not None else self._rule(seen)))


def _default(seen: Seen) -> str:
    return f"answer {seen.number} to {_answers.question(seen.json)}"


def _rendered(seen: Seen, reply: Scripted | Mapping[str, Any] | str) -> Scripted:
    """A reply with its body as bytes or pieces."""
    if not isinstance(reply, Scripted):
        reply = Scripted(body=reply)
    if reply.pieces is not None or isinstance(reply.body, bytes):
        return reply
    if not isinstance(reply.body, str):
        return replace(reply, body=json.dumps(dict(reply.body)).encode())
    made = _answers.answer(seen.path, seen.json, reply.body, seen.number)
    if isinstance(made, list):
        return replace(reply, body=b"", pieces=made)
    return replace(reply, body=json.dumps(made).encode())


def _send(connection: Connection, reply: Scripted) -> None:
    if reply.delay:
        time.sleep(reply.delay)
    if reply.cut and reply.pieces is None:
        connection.cut()
    elif reply.pieces is None:
        body = reply.body if isinstance(reply.body, bytes) else b""
        body = gzip.compress(body, mtime=0) if reply.gzip else body
        connection.whole(reply.status, _headers(reply, "application/json"), body)
    else:
        _stream(connection, reply, reply.pieces)


def _headers(reply: Scripted, kind: str) -> dict[str, str]:
    encoded = {"content-encoding": "gzip"} if reply.gzip else {}
    return {"content-type": reply.content_type or kind, "x-request-id": "req-scripted", **reply.headers, **encoded}


def _stream(connection: Connection, reply: Scripted, pieces: Sequence[bytes]) -> None:
    connection.head(reply.status, {**_headers(reply, "text/event-stream"), "transfer-encoding": "chunked"})
    connection.push(b"")
    if reply.gzip:
        pieces = [gzip.compress(b"".join(pieces), mtime=0)]
    for piece in pieces:
        if piece:
            connection.push(b"%x\r\n%b\r\n" % (len(piece), piece))
        if reply.pause:
            time.sleep(reply.pause)
    if reply.cut:
        connection.cut()
        return
    connection.push(b"0\r\n\r\n")
