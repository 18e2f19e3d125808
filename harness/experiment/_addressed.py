"""Cases that an experiment's change finds nothing to change in: they are replayed as they are, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.dataset import GoldenDataset
from harness.errors import ChangeError
from harness.experiment._options import EvalOptions
from harness.experiment._setting import Job
from harness.experiment._values import TrialResult
from harness.record import Recording
from harness.replay import RunOutcome, require_addressed, require_uniform
from harness.session import Change

_NAMED = 20
"""How many cases a note names."""
_REASON = "not_addressed"


def marked(outcome: RunOutcome, reason: ChangeError) -> RunOutcome:
    """The replay that stands for a fork, with the reason why there is none."""
    return replace(outcome, metadata={**outcome.metadata, _REASON: str(reason)})


def not_addressed(outcome: RunOutcome, change: Change | None) -> bool:
    """Whether this is such a replay, given the experiment's change."""
    return change is not None and _REASON in outcome.metadata


def rooted(dataset: GoldenDataset, jobs: Sequence[Job], options: EvalOptions) -> EvalOptions:
    """The options with the workflow named in a change that names no step."""
    change = options.change
    if change is None or change.step:
        return options
    recordings = (dataset.recording(job.case.id, trial=job.trial) for job in jobs)
    first = next((recording for recording in recordings if recording is not None), None)
    return options if first is None else replace(options, change=change.rooted(first.run.workflow))


def require_some_addressed(recordings: Iterable[Recording | None], change: Change | None) -> None:
    """Refuse a change that no recording has a place for, before anything runs.

    Raises:
        ChangeError: What the first recording lacks.
    """
    if change is None:
        return
    if change.kind == "request":
        recordings = list(recordings)
        require_uniform([recording for recording in recordings if recording is not None], change)
    first: ChangeError | None = None
    for recording in recordings:
        try:
            if recording is not None:
                require_addressed(recording, change)
        except ChangeError as error:
            first = first or error
        else:
            return
    if first is not None:
        raise first


def require_some_changed(trials: Sequence[TrialResult], change: Change | None) -> None:
    """Refuse a result in which the change altered nothing in any case.

    Raises:
        ChangeError: Why it did not in the first case.
    """
    if trials and all(not_addressed(trial.outcome, change) for trial in trials):
        raise ChangeError(str(trials[0].outcome.metadata[_REASON]))


def unaddressed_notes(trials: Sequence[TrialResult], change: Change | None) -> tuple[str, ...]:
    """One sentence on the cases that the change left as they were, if there are any."""
    left = list(dict.fromkeys(trial.case for trial in trials if not_addressed(trial.outcome, change)))
    if change is None or not left:
        return ()
    shown = ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if len(left) > _NAMED else "")
    total = len({trial.case for trial in trials})
    return (
        f"the change at step {change.at!r} addresses nothing in {len(left)} of {total} cases, "
        f"which were replayed unchanged: {shown}",
    )
