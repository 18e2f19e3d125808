"""The HTTP side of the double: requests in, replies out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import orjson

from harness.testing._loopback import Connection
from harness.testing.langfuse_server._wire import Reply, Request


class Answering(Protocol):
    """What is asked for the answers."""

    def received(self, build: Callable[[int], Request]) -> Request:
        """Note a request, made from its number."""
        ...

    def reply(self, request: Request) -> Reply | None:
        """The reply; ``None`` to drop the connection."""
        ...


def answer(connection: Connection, answering: Answering) -> None:
    """Reply to what a connection sent."""
    parts = urlsplit(connection.path)
    request = answering.received(
        lambda number: Request(
            number=number,
            method=connection.command,
            path=parts.path,
            query=parse_qs(parts.query, keep_blank_values=True),
            headers=connection.given,
            raw=connection.body,
        )
    )
    reply = answering.reply(request)
    if reply is None:
        connection.cut()
        return
    body = reply.payload if isinstance(reply.payload, bytes) else orjson.dumps(reply.payload)
    connection.whole(reply.status, {"content-type": "application/json; charset=utf-8", **reply.headers}, body)
