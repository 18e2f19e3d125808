"""A port on loopback with a thread for each connection: what the doubles here have in common."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Connection(BaseHTTPRequestHandler):
    """One client's connection, with the request that it sent last."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server
    body: bytes
    """Of the request, as sent."""

    def setup(self) -> None:
        """Note the connection, so that the listener can drop it."""
        super().setup()
        self.server.opened(self.connection)

    def finish(self) -> None:
        """Forget it; the client may have gone first."""
        self.server.dropped(self.connection)
        try:
            super().finish()
        except OSError:
            return

    def handle(self) -> None:
        """Answer requests until the connection ends, however it ends."""
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        """Read a request and let the listener's answer take over."""
        self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.answer(self)

    do_GET = do_POST  # noqa: N815 - the base class looks methods up by these names
    do_DELETE = do_POST  # noqa: N815
    do_PUT = do_POST  # noqa: N815
    do_PATCH = do_POST  # noqa: N815

    @property
    def given(self) -> dict[str, str]:
        """The request's headers, names in lower case."""
        return {name.lower(): value for name, value in self.headers.items()}

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the status line and headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a reply in one piece."""
        self.head(status, {**headers, "content-length": str(len(body))})
        self.push(body)

    def push(self, data: bytes) -> None:
        """Send bytes now."""
        self.wfile.write(data)
        self.wfile.flush()

    def cut(self) -> None:
        """End the connection both ways, whatever was sent."""
        self.close_connection = True
        _drop(self.connection)


class Listener:
    """A port on loopback.

    Args:
        answer: Replies to what a connection sent; called in the connection's own thread.
        port: 0 for any.
    """

    def __init__(self, answer: Callable[[Connection], None], port: int = 0) -> None:
        self._answer = answer
        self.port = port
        """The port listened on."""
        self.reopen()

    def reopen(self) -> None:
        """Listen on the port, the same as before."""
        self._server = _Server(self.port, self._answer)
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
        self._server.drop_all()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, answer: Callable[[Connection], None]) -> None:
        self.answer = answer
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Connection)

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets.add(connection)

    def dropped(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(connection)

    def drop_all(self) -> None:
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            _drop(connection)


def _drop(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
