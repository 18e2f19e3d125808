"""What every lane's worker does: round after round until it is told to stop, or until nothing is left."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.mirror._lane import Lane

POLL_SECONDS: Final = 1.0
"""How long to wait when there is nothing to do, or another sender does it."""

_LEAST_WAIT: Final = 0.05


class Stop(Protocol):
    """Says when to end; ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """Whether to end after this round."""
        ...


class Round(Protocol):
    """What one round did, as far as it decides about the next one."""

    @property
    def held(self) -> bool:
        """False when another sender has the lane."""
        ...

    @property
    def wait(self) -> float:
        """Seconds until the next round makes sense; 0 when there is more to do at once."""
        ...

    @property
    def trouble(self) -> str:
        """Why the lane is closed; empty while it is open."""
        ...

    @property
    def worked(self) -> bool:
        """Whether anything moved."""
        ...


def now() -> datetime:
    """The time, aware and in UTC."""
    return datetime.now(UTC)


def silent(words: str) -> None:
    """Tell nobody."""


class Worker(ABC):
    """Works through one lane. Usable only in the process that made it."""

    def __init__(
        self,
        lane: Lane,
        *,
        clock: Callable[[], datetime] = now,
        sleep: Callable[[float], None] = time.sleep,
        say: Callable[[str], None] = silent,
    ) -> None:
        """Prepare a worker; nothing is sent or leased yet.

        Args:
            lane: Where to.
            clock: Gives aware UTC times.
            sleep: Waits so many seconds; may return early to end.
            say: Told in one sentence what whoever started it wants to know: who else has the lane, why it is closed.
        """
        self._pid = os.getpid()
        self._lane = lane
        self._clock = clock
        self._sleep = sleep
        self._say = say
        self._said = ""

    @abstractmethod
    def run_once(self, *, early: bool = False) -> Round:
        """Do one round.

        Args:
            early: Look for everything accepted now, whether its time has come or not.
        """

    @property
    @abstractmethod
    def left(self) -> int:
        """How many entries are still to be worked on."""

    @abstractmethod
    def _enter(self) -> int:
        """Enter what is there and in no outbox yet; how many."""

    @abstractmethod
    def _finish_within(self, seconds: float | None) -> None:
        """Let no request take longer than what is left of so many seconds; ``None`` for no such end."""

    @property
    def owner(self) -> str:
        """Under which name the worker holds its lease."""
        return self._lane.owner

    @property
    def trouble(self) -> str:
        """Why nothing is sent; empty while the lane is open."""
        return self._lane.said

    def run(self, stop: Stop) -> None:
        """Work until told to stop; the lease is given back at the end."""
        try:
            while not stop.is_set():
                progress = self._round()
                if progress.wait:
                    self._sleep(progress.wait)
        finally:
            self._lane.release()

    def catch_up(self) -> bool:
        """Do what is due now, and no more.

        Returns:
            Whether it could be done: nobody else had the lane, and it was open.
        """
        try:
            while not (progress := self._round()).wait:
                pass
            return progress.held and not progress.trouble
        finally:
            self._lane.release()

    def flush(self, seconds: float) -> bool:
        """Work until nothing is left, the time is up, or the lane is closed for longer than that.

        Where another sender has the lane, that one does the work.

        Returns:
            Whether nothing is left.
        """
        end = self._lane.deadline = self._clock() + timedelta(seconds=seconds)
        self._finish_within(seconds)
        pause = _LEAST_WAIT
        try:
            self._enter()
            while self.left:
                progress = self._round(early=True)
                rest = (end - self._clock()).total_seconds()
                # While the lane is closed nothing is even tried: waiting for the end would be for nothing.
                if rest <= 0 or not self.left or (progress.trouble and progress.wait >= rest):
                    break
                pause = _LEAST_WAIT if progress.worked else min(pause * 2, POLL_SECONDS)
                self._sleep(min(max(progress.wait if progress.trouble else 0.0, pause), rest))
            return not self.left
        finally:
            self._lane.deadline = None
            self._finish_within(None)
            self._lane.release()

    def _round(self, *, early: bool = False) -> Round:
        progress = self.run_once(early=early)
        said = f"{self._lane.to}: {progress.trouble}" if progress.trouble else ""
        said = said if progress.held else self._lane.taken
        if said and said != self._said:
            self._say(said)
        elif self._said and not said and self._lane.open:
            self._say(f"the lane to {self._lane.to} is open and this process sends")
        self._said = said
        return progress

    def _require_own_process(self, instead: str) -> None:
        if os.getpid() != self._pid:
            raise UsageError(f"a mirror sender does not live in a forked child; {instead}")
