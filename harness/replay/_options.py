"""What a run is made again with, besides the recording, the pipeline and the change."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageError
from harness.replay._null import NullReplay
from harness.replay._stale import Expired
from harness.session import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run belongs; kept with it."""

    case: str | None = None
    trial: int = 0
    experiment: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The circumstances of a replay, a fork or a control fork; what says *fork* counts there alone."""

    place: Place = Place()
    """Case, trial and experiment of the new run."""
    code_version: str | None = None
    """Version of the current code, kept with the run; by default that of the target's package. A fork skips steps only
    if it equals the parent's."""
    clock: Clock | None = None
    """Time of the new run, and by which results expire; the machine's by default."""
    expired: Expired = "keep"
    """Fork: ``refresh`` calls time-bound tools anew whose recorded result is past its ttl; ``keep`` only lists them in
    the outcome."""
    allow_side_effects: bool = False
    """Fork: execute side effects instead of keeping them dry."""
    allow_undeclared: bool = False
    """Fork: go on where the current code differs from the recorded one by itself; the outcome says how."""
    null: NullReplay | None = None
    """Fork: what ``null_replay`` found, where several forks of one run are made with the same code."""

    def require_no_fork(self, what: str) -> None:
        """Refuse what only a fork does, where it would be passed over in silence.

        Raises:
            UsageError: Side effects are allowed, or expired results are to be called anew.
        """
        asked = "allow_side_effects" if self.allow_side_effects else "expired" if self.expired != "keep" else ""
        if asked:
            raise UsageError(f"{what} executes no tool that a recording answers; leave {asked} out, or fork the run")
