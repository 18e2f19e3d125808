"""One trial: run, replay or fork a case, then score it."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.dataset import Case, GoldenDataset
from harness.errors import LiveCallForbidden, UsageError
from harness.experiment._evaluators import LoadedEvaluator
from harness.experiment._executor import in_thread
from harness.experiment._options import EvalOptions
from harness.experiment._pace import Pace, TooLong
from harness.experiment._pricing import priced_outcome
from harness.experiment._scoring import Scored, Scorer, newly_answered
from harness.experiment._values import TrialResult
from harness.record import RECORDED, Recording
from harness.replay import Counts, Place, RunOutcome, compare, fork_run, live_run, replay_run
from harness.score import Score
from harness.session import Sink

_ROLE = "target"
"""Who calls, when it is not an evaluator."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done: one case, one repetition."""

    case: Case
    trial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all trials of an experiment share."""

    id: str
    dataset: GoldenDataset
    options: EvalOptions
    target: Callable[..., Any]
    evaluators: tuple[LoadedEvaluator, ...]
    sink: Sink
    code_version: str | None
    """Digest of the code under evaluation; a fork skips a step only if it equals the recording's."""
    baseline: Mapping[tuple[str, int], Mapping[str, Score]]
    """Accepted scores by case and trial, then by name."""
    pace: Pace
    saving: threading.Lock = field(default_factory=threading.Lock)
    """Held while a case file is rewritten, which trials of one case would do at the same time."""


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
        GoldforkError: The experiment cannot go on: the target cannot be called, the change addresses nothing.
        LiveCallForbidden: A provider is needed and there is no key for it.
    """
    parent = setting.dataset.recording(job.case.id, trial=job.trial)
    outcome = await _paced(job, setting, parent)
    scorer = Scorer(
        dataset=setting.dataset, options=setting.options, experiment=setting.id, sink=setting.sink, pace=setting.pace
    )
    scored = [await scorer.score(evaluator, job.case, job.trial, outcome) for evaluator in setting.evaluators]
    if setting.options.save_recordings:
        await in_thread(lambda: _save(job, setting, outcome, scored))
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
        evaluator_counts=sum((one.counts for one in scored), Counts()),
    )


async def _paced(job: Job, setting: Setting, parent: Recording | None) -> RunOutcome:
    """Run the case, again when the provider refused and said when to come back."""
    failed: RunOutcome | None = None
    for attempt in itertools.count(1):
        await setting.pace.ready(_ROLE)
        run = functools.partial(_outcome, job, setting, parent, failed)
        outcome = await in_thread(run)
        _refuse_keyless(outcome, job)
        messages = outcome.run.messages
        setting.pace.note(_ROLE, messages)
        try:
            if outcome.status != "error" or not setting.pace.again(messages, attempt):
                return outcome
        except TooLong as reason:
            return replace(outcome, error=f"{outcome.error}; {reason}")
        failed = outcome
    raise AssertionError("counting does not end")


def _outcome(job: Job, setting: Setting, parent: Recording | None, failed: RunOutcome | None) -> RunOutcome:
    """One attempt. What an earlier attempt was answered before it failed is not asked again."""
    options, change = setting.options, setting.options.change
    place = Place(case=job.case.id, trial=job.trial, experiment=setting.id)
    common: dict[str, Any] = {"place": place, "sink": setting.sink, "code_version": setting.code_version}
    mode = "auto" if failed is not None or options.mode == "live" else options.mode
    if change is not None and parent is not None:
        arm = failed.run if failed else None
        if arm is None and options.mode != "live":
            arm = setting.dataset.recording(job.case.id, arm=change.arm, trial=job.trial)
        outcome = fork_run(parent, target=setting.target, change=change, mode=mode, arm=arm, **common)
    elif failed is not None:
        outcome = replay_run(failed.run, target=setting.target, mode=mode, **common)
        outcome = replace(outcome, parent=parent, diff=compare(outcome.run, parent))
    elif parent is None or options.mode == "live":
        outcome = live_run(setting.target, job.case.input, parent=parent, **common)
    else:
        outcome = replay_run(parent, target=setting.target, mode=mode, **common)
    outcome = priced_outcome(outcome, setting.dataset.prices)
    return outcome if failed is None else replace(outcome, counts=_together(failed.counts, outcome.counts))


def _together(failed: Counts, last: Counts) -> Counts:
    """Both attempts' spending; what the first one paid for is not saved when the second one is answered by it."""
    total = failed + last
    return replace(
        last,
        provider_calls=total.provider_calls,
        tokens_spent=total.tokens_spent,
        tokens_saved=max(failed.tokens_saved, last.tokens_saved - failed.tokens_spent),
        unknown_usage=total.unknown_usage,
        cost_spent=total.cost_spent,
    )


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
        if outcome.status == "ok" and fresh:
            arm = RECORDED if change is None else change.arm
            dataset.put_recording(job.case.id, outcome.run, arm=arm, trial=job.trial)
        for one in scored:
            if one.recording is not None:
                dataset.put_recording(job.case.id, one.recording, arm=one.arm, trial=job.trial)
