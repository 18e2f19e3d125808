"""Null replays before the first fork: what the current code gives without the change is asked while nothing costs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.dataset import GoldenDataset
from harness.errors import ChangeError, UndeclaredChange
from harness.experiment._executor import Executor, in_thread
from harness.experiment._setting import Job, Setting
from harness.experiment._values import TrialResult
from harness.record import Recording
from harness.replay import (
    Counts,
    NullReplay,
    Place,
    ReplayOptions,
    RunOutcome,
    null_replay,
    replay_run,
    require_addressed,
)
from harness.session import Change

_NAMED = 3
"""Undeclared changes, and cases, that a sentence names."""
_OWN = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]+|\b[0-9a-f]{6,64}\b|; the nearest .*| with arguments .*", re.DOTALL)
"""What differs from case to case in sentences of one kind: ids, hashes, and what was asked."""
_REFUSED = "undeclared"
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SharedDifference:
    """One difference between the recorded and the current code, said once however many cases have it."""

    text: str
    """As in the first of the cases; ids, hashes and requests in it may differ from case to case."""
    cases: tuple[str, ...]
    of: int
    """How many cases were looked at."""

    def __str__(self) -> str:
        if len(self.cases) == self.of:
            where = f"in all {self.of} cases" if self.of > 1 else f"in case {self.cases[0]}"
        else:
            more = f" and {len(self.cases) - _NAMED} more" if len(self.cases) > _NAMED else ""
            where = f"in {len(self.cases)} of {self.of} cases ({', '.join(self.cases[:_NAMED])}{more})"
        return f"{where}: {self.text}"


def shared_differences(found: Sequence[tuple[str, Sequence[str]]], of: int) -> tuple[SharedDifference, ...]:
    """Differences of several cases, those of most cases first; alike are those that name the same step and place.

    Args:
        found: Case and its differences; a case may come more than once.
        of: How many cases were looked at.
    """
    texts: dict[str, str] = {}
    cases: dict[str, dict[str, None]] = {}
    for case, lines in found:
        for line in lines:
            alike = _OWN.sub("", line)
            texts.setdefault(alike, line)
            cases.setdefault(alike, {})[case] = None
    rows = [SharedDifference(text, tuple(cases[alike]), of) for alike, text in texts.items()]
    return tuple(sorted(rows, key=lambda row: -len(row.cases)))


async def null_replays(
    jobs: Sequence[Job], setting: Setting, executor: Executor, *, begun: bool
) -> Mapping[Key, NullReplay]:
    """Replay the current code for every trial that will be forked, with nothing changed and nothing called.

    Args:
        jobs: The trials.
        setting: Of the experiment.
        executor: Where they run.
        begun: Whether other trials are finished; then these can only be refused one by one.

    Raises:
        UndeclaredChange: The code gives something else in every one of them, and this is not allowed.
    """
    change = setting.options.change
    if change is None:
        return {}

    async def look(job: Job) -> tuple[Key, NullReplay | None]:
        return (job.case.id, job.trial), await in_thread(lambda: _look(job, setting, change))

    async with contextlib.aclosing(executor.map(look, jobs)) as looked:
        found = {key: null async for key, null in looked if null is not None}
    ordered = {key: found[key] for key in sorted(found)}
    refuse = ordered and not begun and not setting.options.allow_undeclared
    if refuse and all(null.undeclared for null in ordered.values()):
        raise _everywhere(ordered, change, setting.dataset)
    return ordered


def _look(job: Job, setting: Setting, change: Change) -> NullReplay | None:
    parent = setting.dataset.recording(job.case.id, trial=job.trial)
    if parent is None:
        return None
    try:
        require_addressed(parent, change)
    except ChangeError:
        # It will be replayed as it is, and says itself what differs.
        return None
    options = ReplayOptions(code_version=setting.code_version)
    return null_replay(parent, change=change, target=setting.target, options=options)


def _everywhere(nulls: Mapping[Key, NullReplay], change: Change, dataset: GoldenDataset) -> UndeclaredChange:
    cases = len({case for case, _ in nulls})
    rows = shared_differences([(case, null.undeclared) for (case, _), null in nulls.items()], cases)
    more = f"; and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    lines = tuple(str(row) for row in rows)
    return UndeclaredChange(
        f"the change of {change.kind} would not be the only one: without it, "
        f"{'; '.join(line.rstrip('.') for line in lines[:_NAMED])}{more}; {_advice(dataset)}",
        undeclared=lines,
    )


def _advice(dataset: GoldenDataset) -> str:
    return (
        f"record them again with this code (goldfork eval {dataset.path} --mode live --save-recordings), fork with "
        "--set code, or allow it (--allow)"
    )


def refused(job: Job, setting: Setting, parent: Recording) -> RunOutcome | None:
    """A trial that is not forked, since the change would not be the only one: a replay that shows what else differs.

    ``None`` where there is nothing against the fork.
    """
    null, change = setting.nulls.get((job.case.id, job.trial)), setting.options.change
    if null is None or change is None or not null.undeclared or setting.options.allow_undeclared:
        return None
    outcome = replay_run(
        parent,
        target=setting.target,
        sink=setting.sink,
        options=ReplayOptions(
            place=Place(case=job.case.id, trial=job.trial, experiment=setting.id), code_version=setting.code_version
        ),
    )
    more = f"; and {len(null.undeclared) - _NAMED} more" if len(null.undeclared) > _NAMED else ""
    shown = "; ".join(line.rstrip(".") for line in null.undeclared[:_NAMED])
    return replace(
        outcome,
        error=f"{UndeclaredChange.__name__}: without the change of {change.kind}, {shown}{more}",
        misses=(),
        undeclared=null.undeclared,
        counts=Counts(),
        metadata={**outcome.metadata, _REFUSED: True},
    )


def refused_notes(trials: Sequence[TrialResult], dataset: GoldenDataset) -> tuple[str, ...]:
    """One sentence on the cases that were not forked, if there are any."""
    left = list(dict.fromkeys(trial.case for trial in trials if trial.outcome.metadata.get(_REFUSED)))
    if not left:
        return ()
    total = len({trial.case for trial in trials})
    return (
        f"{len(left)} of {total} cases were not forked: the current code gives something else in them without the "
        f"change; {_advice(dataset)}",
    )
