"""The lane out of one outbox: who holds it, whether it is open, and what is known of the other end."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from harness.mirror._wire import MAX_WAIT, Sent, backoff

if TYPE_CHECKING:
    from harness.store import Outbox

LANE: Final = "mirror:langfuse"
"""Name of the lease that the one sender to Langfuse holds, and of the notes kept with it.

One for all projects: the entries of an outbox say what was sent, not where to.
"""

CLOSED: Final = Sent(outcome="retry", words="the lane is closed")
"""Stands for the answer to what was not sent, because the lane closed before it; nothing is concluded from it."""

LEASE_SECONDS: Final = 180.0
"""How long the lane stays taken after its holder has died; longer than any one request."""

_RENEW_SECONDS: Final = 20.0


class Lane:
    """One sender's hold on an outbox, its pauses, and the notes that ``goldfork mirror status`` shows."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        name: str,
        to: str,
        clock: Callable[[], datetime],
        jitter: Callable[[], float] = random.random,
        advice: Callable[[Sent], str],
        longest: float = 0.0,
    ) -> None:
        """Know a lane; it is not held yet.

        Args:
            outbox: What is sent through it.
            name: Of its lease, and of the notes kept with that.
            to: Host and port of the other end, for people.
            clock: Gives aware UTC times.
            jitter: Gives numbers from 0 to 1 that spread the retries of several senders.
            advice: What to say where the other end takes nothing at all, and what to do about it.
            longest: Seconds that one request may take beyond what any lease allows for.
        """
        self._outbox = outbox
        self._name = name
        self.to = to
        """Host and port of the other end, for people."""
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        """Who holds the lease: host, process and chance."""
        self._clock = clock
        self._jitter = jitter
        self._advice = advice
        self._seconds = LEASE_SECONDS + longest
        self._renewed: datetime | None = None
        self._failures = 0
        self._noted = dict(outbox.notes(self._name))
        self.blocked_until: datetime | None = None
        """Nothing is sent before this moment."""
        self.deadline: datetime | None = None
        """Nothing is sent after this moment; ``None`` for no end."""
        self.trouble: Sent | None = None
        """The answer that closed the lane; ``None`` while it is open."""

    @property
    def notes(self) -> Mapping[str, Any]:
        """What has been noted so far: ``project_id``, ``server_version``, ``paused``, ``trouble`` and the like."""
        return self._noted

    @property
    def open(self) -> bool:
        """Whether something may be sent now."""
        now = self._clock()
        return (self.blocked_until is None or now >= self.blocked_until) and (
            self.deadline is None or now < self.deadline
        )

    @property
    def wait(self) -> float:
        """Seconds until something may be sent again; 0 while the lane is open."""
        until = self.blocked_until
        return 0.0 if until is None else max(0.0, (until - self._clock()).total_seconds())

    @property
    def said(self) -> str:
        """Why the lane is closed, in one sentence; empty while it is open."""
        if self.trouble is None:
            return ""
        return self._advice(self.trouble) if self.denied else self.trouble.words

    @property
    def denied(self) -> bool:
        """Whether the lane is closed because the keys or the address are at fault."""
        return self.trouble is not None and self.trouble.outcome == "denied"

    @property
    def taken(self) -> str:
        """Who else has the lane, and what to do about it; empty when nobody has."""
        holder = self._outbox.holder(self._name, now=self._clock())
        if holder is None or holder == self.owner:
            return ""
        return (
            f"another sender, process {holder.rpartition(':')[0] or holder}, has the lane to {self.to} and does the "
            "work; leave it to that one, or stop it there"
        )

    @property
    def ready(self) -> bool:
        """Whether the next request may go out: the lane is open, and the lease renewed where that was due."""
        return self.open and self.hold()

    def hold(self) -> bool:
        """Take or renew the lease; false when another sender has it."""
        now = self._clock()
        if self._renewed is not None and now - self._renewed < timedelta(seconds=_RENEW_SECONDS):
            return True
        held = self._take(now)
        if not held and (holder := self._outbox.holder(self._name, now=now)) and _is_gone(holder):
            # Killed on this very machine: nobody has to wait for its lease to run out.
            self._outbox.release(self._name, holder)
            held = self._take(now)
        if held and self._renewed is None:
            # Another sender may have noted things while it had the lane.
            self._noted = dict(self._outbox.notes(self._name))
        self._renewed = now if held else None
        return held

    def _take(self, now: datetime) -> bool:
        return self._outbox.lease(self._name, self.owner, seconds=self._seconds, now=now)

    def release(self) -> None:
        """Let the next sender have the lane at once."""
        if self._renewed is not None:
            self._renewed = None
            self._outbox.release(self._name, self.owner)

    def heard(self, sent: Sent) -> None:
        """Draw the conclusions of an answer for everything else that is waiting.

        Refused content says that the server is well; a denied request or none at all says that nothing would go
        through, so that the lane closes for a while.
        """
        if sent.outcome in {"accepted", "refused"}:
            self._failures = 0
            self.blocked_until = self.trouble = None
            if self._noted.get("paused") or self._noted.get("trouble"):
                self.note(paused=None, trouble=None)
            return
        self._failures += 1
        denied = sent.outcome == "denied"
        wait = MAX_WAIT if denied else backoff(self._failures, asked=sent.retry_after, jitter=self._jitter)
        self.trouble = sent
        self.blocked_until = self._clock() + timedelta(seconds=wait)
        if denied:
            self.note(paused=self.said, trouble=None)
        elif self._noted.get("trouble") != sent.words or self._noted.get("paused"):
            self.note(paused=None, trouble=sent.words)

    def note(self, **values: Any) -> None:
        """Keep values with the lease; ``None`` takes one back."""
        self._noted.update(values)
        self._outbox.note(self._name, values)


def _is_gone(owner: str) -> bool:
    """Whether a holder, ``host:pid:chance``, is a process of this machine that has ended."""
    match owner.rsplit(":", 2):
        case [host, pid, _] if host == socket.gethostname() and pid.isascii() and pid.isdigit():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                return True
            except (PermissionError, OverflowError):
                return False
    return False
