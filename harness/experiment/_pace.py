"""Waiting as told: a provider that asks for patience holds back every trial that calls it."""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from harness.record import Exchange, MessageRecord
from harness.session import Clock, SystemClock

_ATTEMPTS = 5
_FIRST_WAIT = 1.0
_JITTER = 0.25


class TooLong(Exception):
    """The provider asks to wait longer than allowed."""


class Pace:
    """Decides when a rate-limited call is tried again; shared by all trials of an experiment.

    Args:
        most: Longest wait, in seconds, that is honoured.
        clock: Wall clock for dates, monotonic for waiting.
        sleep: Waits so many seconds.
        jitter: A number from 0 to 1; waits only ever grow by it.
    """

    def __init__(
        self,
        most: float = 60.0,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._most = most
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._jitter = jitter
        self._until: defaultdict[str, float] = defaultdict(float)
        self._providers: defaultdict[str, set[str]] = defaultdict(set)

    async def ready(self, role: str) -> None:
        """Wait until every provider that this role was seen to call may be called."""
        while (left := self._left(role)) > 0:
            await self._sleep(left)

    def note(self, role: str, messages: Iterable[MessageRecord]) -> None:
        """Learn which providers a role (the target, an evaluator) calls."""
        self._providers[role].update(message.provider for message in messages)

    def again(self, messages: Sequence[MessageRecord], attempt: int) -> bool:
        """Whether what failed with these calls is to be tried again; if so, all callers of the provider are held back.

        Args:
            messages: The calls, in order; the last one decides.
            attempt: How many attempts there were, from 1.

        Raises:
            TooLong: The provider asks to wait longer than allowed.
        """
        last = messages[-1] if messages else None
        answer = last.answer if last is not None and last.cache_state == "live" else None
        if last is None or answer is None or attempt >= _ATTEMPTS or not _limited(answer):
            return False
        told = retry_after(answer.headers, self._clock.now())
        wait = _FIRST_WAIT * 2 ** (attempt - 1) if told is None else told
        if wait > self._most:
            raise TooLong(f"the provider asks to wait {wait:g} s, more than the {self._most:g} s of --max-wait")
        until = self._clock.monotonic() + wait * (1 + _JITTER * self._jitter())
        self._until[last.provider] = max(self._until[last.provider], until)
        return True

    def _left(self, role: str) -> float:
        waits = (self._until[provider] for provider in self._providers[role])
        return max(waits, default=0.0) - self._clock.monotonic()


def _limited(answer: Exchange) -> bool:
    """Too many requests, or a service that says itself when to come back."""
    told = any(name.lower().startswith("retry-after") for name, _ in answer.headers)
    return answer.status == 429 or (answer.status in {503, 529} and told)


def retry_after(headers: Sequence[tuple[str, str]], now: datetime) -> float | None:
    """Seconds to wait as a reply's headers say; ``None`` when they say nothing that can be read."""
    table = {name.lower(): value.strip() for name, value in headers}
    if "retry-after-ms" in table:
        milliseconds = _seconds(table["retry-after-ms"])
        return None if milliseconds is None else milliseconds / 1000
    told = table.get("retry-after", "")
    seconds = _seconds(told)
    return _until(told, now) if seconds is None else seconds


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
