"""Control forks of one trial: run, scored and kept like the trial, with nothing changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from harness.dataset import GoldenDataset
from harness.errors import ChangeError, UsageError
from harness.experiment._executor import in_thread
from harness.experiment._options import EvalOptions
from harness.experiment._pricing import priced_outcome
from harness.experiment._scoring import Scored, Scorer, newly_answered
from harness.experiment._setting import Job, Setting
from harness.experiment._values import ControlTrial
from harness.record import Recording
from harness.replay import (
    Counts,
    Place,
    ReplayOptions,
    RunOutcome,
    compare,
    content,
    control_arm,
    control_run,
    count_attempts,
    require_addressed,
)
from harness.score import Score
from harness.session import Change

Attempt = Callable[[Sequence[RunOutcome]], RunOutcome]
"""One attempt at a run, given the failed ones before it."""
_NAMED = 5


def require_controls(dataset: GoldenDataset, jobs: Sequence[Job], options: EvalOptions) -> None:
    """Refuse to replay control forks that nobody has recorded.

    Raises:
        UsageError: Controls are asked for without a fork, or some are not recorded; it names their arms.
    """
    if not options.controls:
        return
    change = options.change
    if options.controls < 0 or change is None:
        raise UsageError(
            f"--controls {options.controls}: controls are forks with nothing changed; give a number from 1, and "
            "the fork with --fork-at and --set"
        )
    if options.mode != "replay":
        return
    missing = [
        f"{job.case.id!r} lacks {', '.join(arms)}" + (f" of trial {job.trial}" if job.trial else "")
        for job in jobs
        if (arms := missing_controls(dataset, job, change, options.controls))
    ]
    if missing:
        more = f" and {len(missing) - _NAMED} more cases" if len(missing) > _NAMED else ""
        raise UsageError(
            f"{len(missing)} of {len(jobs)} trials have no recorded control forks for this: case "
            f"{'; case '.join(missing[:_NAMED])}{more}; record them with --mode auto --save-recordings"
        )


def missing_controls(dataset: GoldenDataset, job: Job, change: Change, controls: int) -> list[str]:
    """The arms of a trial's control forks that are not recorded; none where the change addresses nothing."""
    parent = dataset.recording(job.case.id, trial=job.trial)
    if parent is None or not _addressed(parent, change):
        return []
    known = {(ref.arm, ref.trial) for ref in dataset.arms(job.case.id)}
    arms = [control_arm(parent, change, number) for number in range(1, controls + 1)]
    return [arm for arm in arms if (arm, job.trial) not in known]


def _addressed(parent: Recording, change: Change) -> bool:
    try:
        require_addressed(parent, change)
    except ChangeError:
        return False
    return True


async def control_trials(
    job: Job,
    setting: Setting,
    parent: Recording,
    *,
    change: Change,
    paced: Callable[[Attempt], Awaitable[RunOutcome]],
    scorer: Scorer,
) -> tuple[ControlTrial, ...]:
    """Run, score and keep the control forks of one trial, one after the other.

    Raises:
        LiveCallForbidden: A provider is needed and there is no key for it.
    """
    found = []
    for number in range(1, setting.options.controls + 1):
        arm = control_arm(parent, change, number)
        outcome = await paced(_attempt(job, setting, parent, change=change, number=number))
        mine = replace(scorer, produced=arm)
        scored = [await mine.score(evaluator, job.case, job.trial, outcome) for evaluator in setting.evaluators]
        if setting.options.save_recordings:
            await in_thread(lambda kept=(outcome, arm, scored): _save(job, setting, *kept))  # type: ignore[misc]
        found.append(_control(number, arm, outcome, scored, parent))
    return tuple(found)


def answers_of(run: Recording) -> Recording:
    """A failed attempt without the tool calls that failed with it, which are made again."""
    return replace(run, steps=tuple(step for step in run.steps if step.kind != "tool" or step.status == "ok"))


def _attempt(job: Job, setting: Setting, parent: Recording, *, change: Change, number: int) -> Attempt:
    def attempt(failed: Sequence[RunOutcome]) -> RunOutcome:
        options = setting.options
        own = None
        if options.mode != "live":
            own = setting.dataset.recording(job.case.id, arm=control_arm(parent, change, number), trial=job.trial)
        outcome = control_run(
            parent,
            change=change,
            number=number,
            target=setting.target,
            mode="auto" if failed or options.mode == "live" else options.mode,
            arm=[*(answers_of(one.run) for one in reversed(failed)), *([own] if own is not None else [])],
            sink=setting.sink,
            options=ReplayOptions(
                place=Place(case=job.case.id, trial=job.trial, experiment=setting.id), code_version=setting.code_version
            ),
        )
        outcome = priced_outcome(outcome, setting.dataset.prices)
        return replace(outcome, counts=count_attempts([[one.run] for one in (*failed, outcome)]))

    return attempt


def _control(number: int, arm: str, outcome: RunOutcome, scored: Sequence[Scored], parent: Recording) -> ControlTrial:
    digest = outcome.run.run.output_hash
    known = digest is not None or parent.run.output_hash is not None
    return ControlTrial(
        number=number,
        arm=arm,
        run=outcome.run.run.id,
        status=outcome.status,
        output_hash=digest,
        equal=digest == parent.run.output_hash if known and outcome.status == "ok" else None,
        first_divergence=outcome.diff.first_divergence,
        error=outcome.misses[0] if outcome.misses else outcome.error,
        scores=tuple(score for one in scored for score in one.scores),
        counts=outcome.counts,
        evaluator_counts=sum((one.counts for one in scored), Counts()),
        drift=outcome.drift,
    )


async def recorded_scores(job: Job, setting: Setting, parent: Recording, scorer: Scorer) -> tuple[Scored, ...]:
    """The scores of the recorded output itself, by today's evaluators: what an effect is measured from."""
    outcome = RunOutcome(
        run=parent,
        parent=parent,
        output=content(parent, parent.run.output_hash),
        error=parent.run.error,
        misses=(),
        blocked=(),
        change=None,
        counts=Counts(),
        diff=compare(parent, parent),
    )
    mine = replace(scorer, produced=None)
    return tuple([await mine.score(evaluator, job.case, job.trial, outcome) for evaluator in setting.evaluators])


def by_name(scored: Sequence[Scored]) -> dict[str, Score]:
    """All scores by their name."""
    return {score.name: score for one in scored for score in one.scores}


def _save(job: Job, setting: Setting, outcome: RunOutcome, arm: str, scored: Sequence[Scored]) -> None:
    with setting.saving:
        if outcome.status == "ok" and (setting.options.mode == "live" or newly_answered(outcome.run.messages)):
            setting.dataset.put_recording(job.case.id, outcome.run, arm=arm, trial=job.trial)
        for one in scored:
            if one.recording is not None:
                setting.dataset.put_recording(job.case.id, one.recording, arm=one.arm, trial=job.trial)
