"""A real HTTP server on loopback that speaks the OpenAI API as a script tells it to."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from harness.testing import _answers


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
        self._sockets: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.scripted = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Base URL for a client, ``/v1`` included."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        """The loopback port."""
        return int(self._server.server_address[1])

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
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop, and drop every connection."""
        self._server.shutdown()
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            _drop(connection)
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def opened(self, connection: socket.socket) -> None:
        """Note a connection, so that ``close`` can drop it; called by the server's threads."""
        with self._lock:
            self._sockets.add(connection)

    def dropped(self, connection: socket.socket) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._sockets.discard(connection)

    def reply(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Scripted:
        """The reply to a request; called by the server's threads."""
        with self._lock:
            seen = Seen(method=method, path=path, headers=headers, body=body, number=len(self.requests))
            self.requests.append(seen)
            planned = self._script.popleft() if self._script else None
        return _rendered(seen, planned if planned is not None else self._rule(seen))


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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    scripted: ScriptedServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.scripted.opened(self.connection)

    def finish(self) -> None:
        self.server.scripted.dropped(self.connection)
        try:
            super().finish()
        except OSError:
            return

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.scripted.reply(self.command, self.path, headers, body)
        if reply.delay:
            time.sleep(reply.delay)
        if reply.cut and reply.pieces is None:
            self._cut()
        elif reply.pieces is None:
            self._plain(reply)
        else:
            self._stream(reply, reply.pieces)

    do_GET = do_POST  # noqa: N815 - the base class looks methods up by these names
    do_DELETE = do_POST  # noqa: N815

    def _head(self, reply: Scripted, kind: str) -> None:
        self.send_response(reply.status)
        sent = {"content-type": reply.content_type or kind, "x-request-id": "req-scripted", **reply.headers}
        if reply.gzip:
            sent["content-encoding"] = "gzip"
        for name, value in sent.items():
            self.send_header(name, value)

    def _plain(self, reply: Scripted) -> None:
        body = reply.body if isinstance(reply.body, bytes) else b""
        if reply.gzip:
            body = gzip.compress(body, mtime=0)
        self._head(reply, "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _stream(self, reply: Scripted, pieces: Sequence[bytes]) -> None:
        self._head(reply, "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        if reply.gzip:
            pieces = [gzip.compress(b"".join(pieces), mtime=0)]
        for piece in pieces:
            if piece:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.flush()
            if reply.pause:
                time.sleep(reply.pause)
        if reply.cut:
            self._cut()
            return
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _cut(self) -> None:
        self.close_connection = True
        _drop(self.connection)


def _drop(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
