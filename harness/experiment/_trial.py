"""One trial: run, replay or fork a case, then score it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.dataset import Case, GoldenDataset
from harness.errors import ChangeError, LiveCallForbidden, UsageError
from harness.experiment._addressed import marked, not_addressed
from harness.experiment._controls import Attempt, answers_of, by_name, control_trials, recorded_scores
from harness.experiment._executor import in_thread
from harness.experiment._options import EvalOptions
from harness.experiment._pace import TooLong
from harness.experiment._pricing import priced_outcome
from harness.experiment._scoring import Scored, Scorer, newly_answered
from harness.experiment._setting import Job, Setting
from harness.experiment._undeclared import refused
from harness.experiment._values import ControlTrial, TrialHashes, TrialResult
from harness.record import RECORDED, Recording
from harness.replay import (
    Counts,
    Place,
    ReplayOptions,
    RunOutcome,
    compare,
    count_attempts,
    fork_run,
    live_run,
    measured,
    replay_run,
)
from harness.session import Change

_ROLE = "target"
"""Who calls, when it is not an evaluator."""


def require_cases(dataset: GoldenDataset) -> None:
    """Refuse a dataset without cases.

    Raises:
        UsageError: It says how many wait for approval.
    """
    if not dataset.cases:
        staged = f"; {len(dataset.staged)} wait for `goldfork dataset snapshot --approve`" if dataset.staged else ""
        raise UsageError(f"dataset {str(dataset.path)!r} has no approved case to evaluate{staged}")


def plan_jobs(dataset: GoldenDataset, options: EvalOptions) -> tuple[Job, ...]:
    """Every case and trial to run, in order.

    Raises:
        UsageError: A case is unknown, or more trials are asked for than are recorded.
    """
    cases = _cases(dataset, options)
    trials = dataset.trials if options.trials is None else options.trials
    if trials < 1:
        raise UsageError(f"--trials {trials}: ask for 1 at least")
    if options.mode == "replay" or options.change is not None:
        for case in cases:
            _require_recorded(dataset, case, trials, options)
    return tuple(Job(case, trial) for case in cases for trial in range(trials))


def _cases(dataset: GoldenDataset, options: EvalOptions) -> tuple[Case, ...]:
    known = {case.id: case for case in dataset.cases}
    for name in options.cases:
        if name not in known:
            raise UsageError(
                f"dataset {str(dataset.path)!r} has no approved case {name!r}; `goldfork dataset show` lists them"
            )
    return tuple(case for case in dataset.cases if not options.cases or case.id in options.cases)


def _require_recorded(dataset: GoldenDataset, case: Case, trials: int, options: EvalOptions) -> None:
    recorded = {ref.trial for ref in dataset.arms(case.id) if ref.arm == RECORDED}
    count = next(trial for trial in range(len(recorded) + 1) if trial not in recorded)
    if count >= trials:
        return
    advice = "ask for fewer with --trials" if count else "record it first"
    if options.change is None:
        advice += ", or use --mode auto to call the provider for the rest"
    raise UsageError(
        f"case {case.id!r} of {str(dataset.path)!r} has {count} recorded trial{'s' * (count != 1)}, "
        f"{trials} {'is' if trials == 1 else 'are'} needed; {advice}"
    )


async def run_trial(job: Job, setting: Setting) -> TrialResult:
    """Run and score one trial.

    Raises:
        GoldforkError: The experiment cannot go on: the target cannot be called.
        LiveCallForbidden: A provider is needed and there is no key for it.
    """
    parent = setting.dataset.recording(job.case.id, trial=job.trial)
    change = setting.options.change
    outcome = await _paced(job, setting, functools.partial(_outcome, job, setting, parent))
    outcome = await in_thread(lambda: _measured(outcome, setting))
    scorer = Scorer(
        dataset=setting.dataset,
        options=setting.options,
        experiment=setting.id,
        sink=setting.sink,
        pace=setting.pace,
        produced=None if change is None else change.arm,
    )
    scored = [await scorer.score(evaluator, job.case, job.trial, outcome) for evaluator in setting.evaluators]
    if setting.options.save_recordings:
        await in_thread(lambda: _save(job, setting, outcome, scored))
    controls: tuple[ControlTrial, ...] = ()
    recorded: tuple[Scored, ...] = ()
    if setting.options.controls and change is not None and parent is not None and _forked(outcome, change):
        paced = functools.partial(_paced, job, setting)
        controls = await control_trials(job, setting, parent, change=change, paced=paced, scorer=scorer)
        recorded = await recorded_scores(job, setting, parent, scorer)
    return TrialResult(
        case=job.case.id,
        trial=job.trial,
        split=job.case.split,
        group=job.case.group,
        tags=job.case.tags,
        input=job.case.input,
        expected_output=job.case.expected_output,
        outcome=outcome,
        recorded_output_hash=parent.run.output_hash if parent is not None else None,
        scores=tuple(score for one in scored for score in one.scores),
        baseline_scores=setting.baseline.get((job.case.id, job.trial), {}),
        baseline_hashes=None
        if setting.baseline_hashes is None
        else setting.baseline_hashes.get((job.case.id, job.trial), TrialHashes()),
        evaluator_counts=sum((one.counts for one in (*scored, *recorded)), Counts()),
        controls=controls,
        recorded_scores=by_name(recorded),
    )


def _measured(outcome: RunOutcome, setting: Setting) -> RunOutcome:
    """The outcome with how far its outputs are from the recorded ones in meaning."""
    diff = measured(outcome.diff, outcome.run, outcome.parent, meaning=setting.meaning)
    return replace(outcome, diff=diff)


def _forked(outcome: RunOutcome, change: Change) -> bool:
    return outcome.status == "ok" and not not_addressed(outcome, change)


async def _paced(job: Job, setting: Setting, one_attempt: Attempt) -> RunOutcome:
    """Run the case, again when the provider refused and said when to come back."""
    failed: list[RunOutcome] = []
    for attempt in itertools.count(1):
        await setting.pace.ready(_ROLE)
        outcome = await in_thread(functools.partial(one_attempt, tuple(failed)))
        _refuse_keyless(outcome, job)
        messages = outcome.run.messages
        setting.pace.note(_ROLE, messages)
        try:
            if outcome.status != "error" or not setting.pace.again(messages, attempt):
                return outcome
        except TooLong as reason:
            return replace(outcome, error=f"{outcome.error}; {reason}")
        failed.append(outcome)
    raise AssertionError("counting does not end")


def _outcome(job: Job, setting: Setting, parent: Recording | None, failed: Sequence[RunOutcome]) -> RunOutcome:
    """One attempt. What an earlier attempt was answered before it failed is not asked again, and comes first."""
    options, change = setting.options, setting.options.change
    place = Place(case=job.case.id, trial=job.trial, experiment=setting.id)
    again = ReplayOptions(place=place, code_version=setting.code_version)
    common: dict[str, Any] = {"target": setting.target, "sink": setting.sink, "options": again}
    mode = "auto" if failed or options.mode == "live" else options.mode
    earlier = [answers_of(outcome.run) for outcome in reversed(failed)]
    unaddressed = any(not_addressed(outcome, change) for outcome in failed)
    if parent is not None and (instead := refused(job, setting, parent)) is not None:
        return instead
    if change is not None and parent is not None and not unaddressed:
        own = setting.dataset.recording(job.case.id, arm=change.arm, trial=job.trial)
        arms = [*earlier, *([own] if own is not None and options.mode != "live" else [])]
        try:
            allowed = replace(
                again,
                expired=options.expired,
                allow_side_effects=options.allow_side_effects,
                allow_undeclared=options.allow_undeclared,
                null=setting.nulls.get((job.case.id, job.trial)),
            )
            outcome = fork_run(parent, change=change, mode=mode, arm=arms, **{**common, "options": allowed})
        except ChangeError as reason:
            # Other cases may have what this one lacks; here the change leaves everything as it was.
            if reason.outcome is not None:
                # It has run to its end, unchanged; its calls are paid, and are not made again.
                outcome = replace(reason.outcome, change=None)
            else:
                outcome = replay_run(parent, mode=mode, earlier=earlier, **common)
            outcome = marked(outcome, reason)
    elif parent is not None and (unaddressed or options.mode != "live"):
        outcome = replay_run(parent, mode=mode, earlier=earlier, **common)
        outcome = replace(outcome, metadata=failed[-1].metadata if failed else outcome.metadata)
    elif earlier:
        outcome = replay_run(earlier[0], mode=mode, earlier=earlier[1:], **common)
        outcome = replace(outcome, parent=parent, diff=compare(outcome.run, parent))
    else:
        outcome = live_run(
            setting.target,
            job.case.input,
            place=place,
            sink=setting.sink,
            code_version=setting.code_version,
            parent=parent,
        )
    outcome = priced_outcome(outcome, setting.dataset.prices)
    return replace(outcome, counts=count_attempts([[one.run] for one in (*failed, outcome)]))


def _refuse_keyless(outcome: RunOutcome, job: Job) -> None:
    """Without a valid key no trial can go on, so one line ends the experiment instead of a hundred failures."""
    kind, _, reason = (outcome.error or "").partition(": ")
    if kind == LiveCallForbidden.__name__:
        raise LiveCallForbidden(reason)
    last = outcome.run.messages[-1] if outcome.run.messages else None
    refused = last is not None and last.cache_state == "live" and last.answer is not None and last.answer.status == 401
    if outcome.status == "error" and (refused or kind == "OpenAIError"):
        raise LiveCallForbidden(
            f"case {job.case.id!r}: the provider wants a valid key ({_line(reason)}); "
            "set OPENAI_API_KEY, or use --mode replay, which needs none"
        )


def _line(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _save(job: Job, setting: Setting, outcome: RunOutcome, scored: list[Scored]) -> None:
    """Keep what was newly recorded; what was only replayed is in the dataset already."""
    dataset, change = setting.dataset, setting.options.change
    fresh = outcome.parent is None or setting.options.mode == "live" or newly_answered(outcome.run.messages)
    with setting.saving:
        if outcome.status == "ok" and fresh and not not_addressed(outcome, change):
            arm = RECORDED if change is None else change.arm
            dataset.put_recording(job.case.id, outcome.run, arm=arm, trial=job.trial)
        for one in scored:
            if one.recording is not None:
                dataset.put_recording(job.case.id, one.recording, arm=one.arm, trial=job.trial)
