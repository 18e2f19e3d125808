"""What a round of the sender did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of one round while it runs."""

    frozen: int = 0
    """Runs and scores rendered and committed."""
    spans: int = 0
    """Spans that the server accepted."""
    accepted: int = 0
    """Runs and scores that the server accepted."""
    verified: int = 0
    """Runs and scores that were seen."""
    resent: int = 0
    """Runs and scores found missing."""
    repaired: int = 0
    """Runs found at another time, or sent again because they changed."""
    dead: int = 0
    """Spans and scores that the server refused for good."""
    looked: int = 0
    """Runs and scores looked for at once on request."""
    swept: int = 0
    """Abandoned runs entered."""

    @property
    def worked(self) -> bool:
        """Whether anything moved."""
        return any(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What one round did, and when the next one makes sense."""

    tally: Tally
    held: bool
    """False when another sender has the lane."""
    wait: float
    """Seconds until there may be something to do; 0 when there is more at once."""
    trouble: str = ""
    """Why the lane is closed; empty while it is open."""

    @property
    def worked(self) -> bool:
        """Whether anything moved."""
        return self.tally.worked
