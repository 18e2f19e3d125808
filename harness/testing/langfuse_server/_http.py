"""The HTTP side of the double: sockets, threads, headers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import orjson

from harness.testing.langfuse_server._wire import Reply, Request


class Answering(Protocol):
    """What the listener asks for its answers."""

    def received(self, build: Callable[[int], Request]) -> Request:
        """Note a request, made from its number."""
        ...

    def reply(self, request: Request) -> Reply | None:
        """The reply; ``None`` to drop the connection."""
        ...


class Listener:
    """A port on loopback with a thread for each connection.

    Args:
        answering: Gives the replies.
        port: 0 for any.
    """

    def __init__(self, answering: Answering, port: int) -> None:
        self._answering = answering
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self.port = port
        self.reopen()

    def reopen(self) -> None:
        """Listen on the port, the same as before."""
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.listener = self
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def start(self) -> None:
        """Answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port and drop every connection."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            drop(connection)
        self._server.server_close()

    def opened(self, connection: socket.socket) -> None:
        """Note a connection, so that ``stop`` can drop it."""
        with self._lock:
            self._sockets.add(connection)

    def dropped(self, connection: socket.socket) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._sockets.discard(connection)

    def reply(self, method: str, target: str, *, headers: dict[str, str], raw: bytes) -> Reply | None:
        """The reply to what a connection sent."""
        parts = urlsplit(target)
        request = self._answering.received(
            lambda number: Request(
                number=number,
                method=method,
                path=parts.path,
                query=parse_qs(parts.query, keep_blank_values=True),
                headers=headers,
                raw=raw,
            )
        )
        return self._answering.reply(request)


def drop(connection: socket.socket) -> None:
    """End a connection both ways."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    listener: Listener


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.listener.opened(self.connection)

    def finish(self) -> None:
        self.server.listener.dropped(self.connection)
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
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.listener.reply(self.command, self.path, headers=headers, raw=raw)
        if reply is None:
            self.close_connection = True
            drop(self.connection)
            return
        body = reply.payload if isinstance(reply.payload, bytes) else orjson.dumps(reply.payload)
        self.send_response(reply.status)
        sent = {"content-type": "application/json; charset=utf-8", **reply.headers}
        for name, value in {**sent, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    do_GET = do_POST  # noqa: N815 - the base class looks methods up by these names
    do_DELETE = do_POST  # noqa: N815
    do_PUT = do_POST  # noqa: N815
    do_PATCH = do_POST  # noqa: N815
