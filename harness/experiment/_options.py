"""How an experiment is to be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from harness.dataset import EvaluatorSpec
from harness.errors import UsageError
from harness.experiment._values import TrialResult
from harness.replay import Counts, Expired
from harness.session import Change

EvalMode = Literal["replay", "auto", "live"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """One configuration of an experiment; what is left out comes from the dataset."""

    target: str | None = None
    """``package.module:name`` of the workflow; the dataset's own when absent."""
    mode: EvalMode = "replay"
    """``replay`` never calls a provider, ``auto`` calls for what is not recorded, ``live`` calls for everything."""
    change: Change | None = None
    """Fork every case with this change instead of replaying it."""
    expired: Expired = "keep"
    """Forks: ``refresh`` calls time-bound tools anew whose recorded result is past its ttl."""
    allow_side_effects: bool = False
    """Forks: execute side effects instead of keeping them dry."""
    allow_undeclared: bool = False
    """Forks: go on where the current code differs from the recorded one by itself; the report says how."""
    controls: int = 0
    """Control forks of each trial: the same fork with nothing changed and fresh calls, the measure of jitter."""
    trials: int | None = None
    """Repetitions of each case; the dataset's number when absent."""
    cases: tuple[str, ...] = ()
    """Ids of the cases to run; all when empty."""
    evaluators: tuple[EvaluatorSpec, ...] | None = None
    """Evaluators to use instead of the dataset's."""
    concurrency: int = 8
    """Trials that run at once."""
    max_wait: float = 60.0
    """Seconds to wait at most when a provider says it is called too often; asked for longer, the trial fails."""
    resume: str | None = None
    """Id of an interrupted experiment whose finished trials are kept."""
    save_recordings: bool = False
    """Write what was newly recorded into the dataset's files, for a new version of it."""
    strict: bool = False
    """``inconclusive`` exits with 3 instead of 0."""
    report_only: bool = False
    """Low scores do not fail; errors still do."""


def require_fork_options(options: EvalOptions) -> None:
    """Refuse what only a fork does where nothing is forked, and side effects where nothing may be called.

    Raises:
        UsageError: It names the option.
    """
    asked = {
        "--expired refresh": options.expired == "refresh",
        "--allow-side-effects": options.allow_side_effects,
        "--allow": options.allow_undeclared,
    }
    for option, given in asked.items():
        if given and options.change is None:
            raise UsageError(f"{option} belongs to a fork: give it with --fork-at and --set, or with --refresh")
    if options.allow_side_effects and options.mode == "replay":
        raise UsageError("--allow-side-effects: mode replay executes no side effects; use --mode auto, or leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an experiment is."""

    done: int
    total: int
    counts: Counts
    """Of the finished trials together."""
    last: TrialResult | None = None
    """The trial that has just finished; ``None`` at the start."""


Watcher = Callable[[Progress], None]
"""Called in the runner's own thread at the start and after every trial."""
