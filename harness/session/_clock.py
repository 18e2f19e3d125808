"""Time, so that tests and ttl checks can set it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall and monotonic time, injectable for tests and ttl checks."""

    def now(self) -> datetime:
        """The aware UTC time."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The aware UTC time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()
