"""The loopback Langfuse: listens, plans faults, shows what it stored."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from harness.testing._loopback import Listener
from harness.testing.langfuse_server._datasets import item_view
from harness.testing.langfuse_server._faults import Fault, Kind
from harness.testing.langfuse_server._http import answer
from harness.testing.langfuse_server._media import Medium
from harness.testing.langfuse_server._observations import GROUPS, view
from harness.testing.langfuse_server._routes import OPEN, ROUTER
from harness.testing.langfuse_server._rows import Row
from harness.testing.langfuse_server._scores import checked
from harness.testing.langfuse_server._state import State
from harness.testing.langfuse_server._wire import Reply, Request


class LangfuseServer:
    """A Langfuse on loopback that keeps everything in memory.

    It behaves as a server of the fourth generation was seen to: it answers before it stores, rows with one key stand
    side by side until ``merge``, and nothing of the older tables exists. For example::

        with LangfuseServer() as server:
            project = Project(server.url, server.public_key, server.secret_key)
            server.fault("500", times=3)

    Args:
        version: What it says it is; before 4.59 a score is created by one object, before 4.0 the lists of observations
            and scores do not exist.
        lag: Seconds between an answer and its effect, by the clock.
        clock: Unix seconds.
        keys: Public and secret key.
        port: Port on loopback; 0 for any.
        keep_requests: Whether ``requests`` is filled.
    """

    def __init__(
        self,
        version: str = "4.59.0",
        lag: float = 0.0,
        *,
        clock: Callable[[], float] = time.time,
        keys: tuple[str, str] = ("pk-lf-double", "sk-lf-double"),
        port: int = 0,
        keep_requests: bool = True,
    ) -> None:
        self.public_key, self.secret_key = keys
        self.requests: list[Request] = []
        """Every request, in order of arrival, refused ones too."""
        self._keep_requests = keep_requests
        self._arrived = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._listener = Listener(lambda connection: answer(connection, self), port)
        self._state = State(version=version, lag=lag, clock=clock, base_url=self.url)

    @property
    def url(self) -> str:
        """Base URL for a client."""
        return f"http://127.0.0.1:{self._listener.port}"

    @property
    def lag(self) -> float:
        """Seconds between an answer and its effect; may be set at any time."""
        return self._state.lag

    @lag.setter
    def lag(self, seconds: float) -> None:
        self._state.lag = seconds

    def fault(
        self,
        kind: Kind,
        *,
        times: int | None = None,
        share: float | None = None,
        every: int | None = None,
        when: Callable[[Any], bool] | None = None,
        seconds: float = 0.0,
        limit: int = 0,
        retry_after: float | str | None = None,
    ) -> Fault:
        """Plan a fault; without ``times`` it lasts until ``clear_faults`` or the fault's own ``clear``.

        About a whole request (``when`` gets the ``Request``): ``down`` closes the connection unanswered; ``500``;
        ``hang`` waits ``seconds`` by the clock, then 500; ``cut-before`` and ``cut-after`` drop the connection before
        and after the request took effect; ``302`` leads to a login page; ``413`` for bodies over ``limit`` bytes as
        sent; ``429`` with ``retry_after`` (seconds or an HTTP date); ``401``.

        About one score (``when`` gets the score as sent): ``207`` refuses it, ``lose-score`` accepts and never stores
        it. About one span (``when`` gets the ``Row``): ``lose`` accepts and never stores it, ``twice`` stores two
        copies, ``slow`` stores it ``seconds`` later by the clock.

        Args:
            kind: As above.
            times: How often it strikes.
            share: Part of the candidates it strikes, from 0 to 1; the same ones in every run.
            every: Strikes every n-th candidate only.
            when: Chooses among the candidates.
            seconds: For ``hang`` and ``slow``.
            limit: For ``413``.
            retry_after: For ``429``.

        Raises:
            ValueError: There is no such kind.
        """
        return self._state.faults.add(
            Fault(
                kind=kind,
                times=times,
                share=share,
                every=every,
                when=when,
                seconds=seconds,
                limit=limit,
                retry_after=retry_after,
            )
        )

    def clear_faults(self) -> None:
        """Everything works again."""
        self._state.faults.clear()

    def merge(self) -> None:
        """What the column store does in its own time: of the rows with one key, the last one stays."""
        with self._state.lock:
            self._state.catch_up()
            self._state.table.merge()

    def settle(self) -> None:
        """Apply everything that is still under way, whatever the clock says."""
        with self._state.lock:
            self._state.later.advance(float("inf"))

    def reset(self) -> None:
        """Forget what was stored, requested and planned."""
        with self._state.lock:
            self._state.clear()
            self._state.faults.clear()
        with self._lock:
            self.requests.clear()
            self._arrived = 0

    @property
    def rows(self) -> list[Row]:
        """Physical rows as stored: duplicates stand side by side."""
        with self._state.lock:
            self._state.catch_up()
            return self._state.table.rows()

    def observations(self, *, fields: Collection[str] = GROUPS) -> list[dict[str, Any]]:
        """The observations a merge would leave, uncut and in the shape of the list, oldest first.

        Args:
            fields: Field groups as the list takes them; fewer are faster.
        """
        with self._state.lock:
            self._state.catch_up()
            rows = sorted(self._state.table.merged(), key=lambda row: (row.start, row.number))
            prompt_id = self._state.prompts.id
            return [view(row, set(fields), expanded=None, prompt_id=prompt_id) for row in rows]

    def scores(self) -> list[dict[str, Any]]:
        """Every score; times in unix milliseconds, subject ids as they were sent."""
        with self._state.lock:
            self._state.catch_up()
            return self._state.scores.all()

    def items(self) -> list[dict[str, Any]]:
        """The active dataset items, newest first, in the shape of the list."""
        with self._state.lock:
            return [item_view(each) for each in self._state.datasets.current()]

    def media(self) -> list[Medium]:
        """Every file that an upload address was asked for."""
        with self._state.lock:
            return self._state.media.all()

    def comments(self) -> list[dict[str, Any]]:
        """Every comment."""
        with self._state.lock:
            return list(self._state.comments)

    def annotate(self, score: Mapping[str, Any], *, author: str) -> str:
        """A score as a person gives it in the user interface; its id.

        Args:
            score: As the API takes it; a ``timestamp`` counts.
            author: Id of the person.

        Raises:
            Refusal: The server would not take it.
        """
        made = checked({**score, "source": "ANNOTATION", "authorUserId": author})
        with self._state.lock:
            self._state.scores.put(made, self._state.now, timed=True)
        return str(made["id"])

    def start(self) -> Self:
        """Begin to serve."""
        self._listener.start()
        return self

    def close(self) -> None:
        """Stop, and drop every connection."""
        self._closing.set()
        self._listener.stop()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """The port is closed meanwhile: connections are refused."""
        self._listener.stop()
        try:
            yield
        finally:
            self._listener.reopen()
            self._listener.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def received(self, build: Callable[[int], Request]) -> Request:
        """Note a request; called by the server's threads with what makes it from its number."""
        with self._lock:
            request = build(self._arrived)
            self._arrived += 1
            if self._keep_requests:
                self.requests.append(request)
            return request

    def reply(self, request: Request) -> Reply | None:
        """The reply to a request, ``None`` to drop the connection; called by the server's threads."""
        fault = self._state.faults.on_request(request, len(request.raw))
        if fault is None:
            return self._answer(request)
        if fault.kind in ("down", "cut-before"):
            return None
        if fault.kind == "cut-after":
            self._answer(request)
            return None
        if fault.kind == "hang" and not self._waited(fault.seconds):
            return None
        return _failed(fault)

    def _answer(self, request: Request) -> Reply:
        if request.path not in OPEN and not self._authorized(request):
            return _failed(Fault(kind="401"))
        return ROUTER.answer(self._state, request)

    def _authorized(self, request: Request) -> bool:
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        wanted = base64.b64encode(f"{self.public_key}:{self.secret_key}".encode()).decode()
        # A presigned address carries its own permission.
        return (kind.lower() == "basic" and credentials == wanted) or self._state.media.signed(request)

    def _waited(self, seconds: float) -> bool:
        """Whether so many seconds passed by the clock before the server was closed."""
        end = self._state.clock() + seconds
        while self._state.clock() < end:
            if self._closing.wait(0.005):
                return False
        return True


def _failed(fault: Fault) -> Reply:
    if fault.kind == "302":
        return Reply(status=302, payload=b"", headers={"location": "/auth/sign-in"})
    if fault.kind == "413":
        return Reply(status=413, payload=b"<html><h1>413 Request Entity Too Large</h1></html>")
    if fault.kind == "429":
        headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        return Reply(status=429, payload={"message": "Rate limit exceeded"}, headers=headers)
    if fault.kind == "401":
        message = "These keys do not belong to a project here"
        return Reply(status=401, payload={"error": "UnauthorizedError", "message": message})
    return Reply(status=500, payload={"message": "Internal Server Error"})
