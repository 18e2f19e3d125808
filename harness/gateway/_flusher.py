"""One thread per process that writes down what running streams have brought, four times a second."""

from __future__ import annotations

import os
import threading
from typing import Protocol

_PERIOD_S = 0.2
"""Below a quarter of a second, which is what a killed process may lose of a stream."""
_IDLE_S = 5.0


class Open(Protocol):
    """A reply whose body has not ended."""

    def tick(self) -> None:
        """Write down what is new; end the reply when nobody can read it any more."""
        ...


class Flusher:
    """Calls ``tick`` on every open reply; its thread ends when there has been none for a while."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._open: set[Open] = set()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def add(self, reply: Open) -> None:
        """Watch a reply until ``discard``."""
        if self._pid != os.getpid():
            # A forked child has neither the thread nor a lock that it can trust to be free.
            self._wake, self._open, self._thread, self._pid = threading.Condition(), set(), None, os.getpid()
        with self._wake:
            self._open.add(reply)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="goldfork-flush", daemon=True)
                self._thread.start()
            elif len(self._open) == 1:
                self._wake.notify()

    def discard(self, reply: Open) -> None:
        """Watch a reply no longer."""
        with self._wake:
            self._open.discard(reply)

    def _run(self) -> None:
        pause = threading.Event()
        try:
            while self._some_open():
                pause.wait(_PERIOD_S)
                with self._wake:
                    replies = list(self._open)
                for reply in replies:
                    reply.tick()
        finally:
            with self._wake:
                self._thread = None

    def _some_open(self) -> bool:
        """Wait for a reply to watch; false when none came for a while, and then the thread is over."""
        with self._wake:
            if not self._wake.wait_for(lambda: bool(self._open), _IDLE_S):
                self._thread = None
            return self._thread is not None


FLUSHER = Flusher()
