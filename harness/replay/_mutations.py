"""What the steps of a run changed that was not theirs, as the run tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.record import Recording
from harness.session import MUTATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A step whose body changed an argument, or something that it reads without being given it.

    Such a step is never skipped in a fork: a later one may need the change.
    """

    step: str
    """Address of the step."""
    argument: str | None
    """Name of the argument; ``None`` for a global, a cache or a closure."""
    path: str | None
    """JSON path of the first place in it that changed; ``None`` as above."""
    before: str | None
    """Hash of the argument when the body started, or digest of the step's surroundings."""
    after: str | None
    """The same when it had returned; ``None`` when that can no longer be told."""

    def __str__(self) -> str:
        """One sentence."""
        hashes = f"(hash {_short(self.before)}, then {_short(self.after)})"
        if self.argument is None:
            what = "what it reads besides its arguments: a global, a cache or a closure"
            return f"step {self.step!r} changed {what} {hashes}"
        place = "" if self.path in {None, "$"} else f" at {self.path}"
        return f"step {self.step!r} changed its argument {self.argument!r}{place} {hashes}"


def mutations(run: Recording) -> tuple[Mutation, ...]:
    """The findings of a finished run, in the order in which the steps ended; at most fifty are kept."""
    told = run.run.metadata.get(MUTATIONS)
    rows = told if isinstance(told, list | tuple) else ()
    return tuple(_read(row) for row in rows if isinstance(row, Mapping) and isinstance(row.get("step"), str))


def _read(row: Mapping[str, object]) -> Mutation:
    # A recording may come from anywhere, and what it says of itself be anything.
    argument, path, before, after = (_text(row.get(name)) for name in ("argument", "path", "before", "after"))
    return Mutation(step=str(row["step"]), argument=argument, path=path, before=before, after=after)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _short(digest: str | None) -> str:
    return digest[:8] if digest else "unknown"
