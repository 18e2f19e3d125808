"""Running an experiment: plan the trials, run them, keep each, and rule on all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from harness.dataset import GoldenDataset
from harness.errors import GoldforkError, GoldforkStop, UsageError
from harness.experiment import _history
from harness.experiment._addressed import require_some_addressed, require_some_changed, rooted, unaddressed_notes
from harness.experiment._baseline import Baseline, read_baseline
from harness.experiment._controls import require_controls
from harness.experiment._evaluators import load_evaluators
from harness.experiment._executor import Executor, LocalExecutor, in_thread
from harness.experiment._gate import INTERRUPTED, rule, trial_scores
from harness.experiment._options import EvalOptions, Progress, Watcher, require_fork_options
from harness.experiment._pace import Pace
from harness.experiment._setting import Job, Setting
from harness.experiment._summary import summarise
from harness.experiment._trial import plan_jobs, require_cases, run_trial
from harness.experiment._undeclared import null_replays, refused_notes
from harness.experiment._values import ExperimentResult, TrialResult
from harness.replay import Counts, code_version, load_target, meaning_by
from harness.session import new_id
from harness.settings import load_settings
from harness.store import Store


def run_experiment(
    dataset: GoldenDataset,
    options: EvalOptions,
    *,
    store: Store,
    progress: Watcher | None = None,
    executor: Executor | None = None,
    pace: Pace | None = None,
) -> ExperimentResult:
    """Evaluate a dataset under one configuration.

    Every finished trial is committed to the store at once. Ctrl-C ends the experiment with the trials that are
    finished: the result is partial, its exit code 130, and ``options.resume`` finishes it.

    Args:
        dataset: A frozen dataset; edits without a new version are refused.
        options: What to run and how.
        store: Where runs, trials and scores go.
        progress: Called at the start and after every trial.
        executor: Where trials run; this process by default.
        pace: How to wait for a provider that asks for it; with the machine's clock by default.

    Raises:
        UsageError: Nothing to run, an unknown case or evaluator, a target that does not import, more trials than
            recorded, or a resumed experiment that does not agree with what it began as.
        ChangeError: No case has what the change addresses.
        UndeclaredChange: Without the change, the current code gives something else in every case.
        DatasetEdited: The dataset's files differ from its version.
        LiveCallForbidden: A provider is needed and there is no key for it.
    """
    plan = _prepare(dataset, options, store, pace)
    work = _run(plan, store, progress, executor or LocalExecutor(options.concurrency))
    return asyncio.run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """An experiment about to run."""

    setting: Setting
    target: str
    jobs: tuple[Job, ...]
    """All of them, finished ones included."""
    finished: tuple[TrialResult, ...]
    """Trials of an earlier attempt."""
    baseline: Baseline
    started_at: datetime


def _prepare(dataset: GoldenDataset, options: EvalOptions, store: Store, pace: Pace | None) -> _Plan:
    require_cases(dataset)
    if not options.save_recordings:
        dataset.require_verified()
    target = options.target or dataset.target
    if not target:
        raise UsageError(f"dataset {str(dataset.path)!r} names no target; add one to dataset.toml or use --target")
    # The target first: it puts the current folder on the path, where the user's own evaluators stand as well.
    function = load_target(target)
    evaluators = load_evaluators(dataset.evaluators if options.evaluators is None else options.evaluators)
    jobs = plan_jobs(dataset, options)
    options = rooted(dataset, jobs, options)
    require_fork_options(options)
    require_controls(dataset, jobs, options)
    require_some_addressed((dataset.recording(job.case.id, trial=job.trial) for job in jobs), options.change)
    baseline = read_baseline(dataset, evaluators, {job.case.id for job in jobs})
    setting = Setting(
        id=options.resume or new_id(),
        dataset=dataset,
        options=options,
        target=function,
        evaluators=evaluators,
        sink=store,
        code_version=code_version(dataset.code) if dataset.code else None,
        baseline=baseline.trials,
        baseline_hashes=baseline.hashes,
        pace=pace or Pace(options.max_wait),
        # An experiment's calls are all counted; those of an embedder at an endpoint would be in no run.
        meaning=meaning_by(load_settings().embedder, calls=False),
    )
    identity = _identity(setting, target, jobs)
    started_at = datetime.now(UTC)
    finished: tuple[TrialResult, ...] = ()
    if options.resume:
        started_at = _history.agree(store, setting.id, identity)
        finished = _history.trials_of(store, setting.id, dataset)
    else:
        _history.begin(store, setting.id, identity, started_at, cases=(job.case for job in jobs))
    return _Plan(setting=setting, target=target, jobs=jobs, finished=finished, baseline=baseline, started_at=started_at)


def _identity(setting: Setting, target: str, jobs: Sequence[Job]) -> Mapping[str, Any]:
    """What an experiment is of; a resumed one must not differ in any of it."""
    dataset, options = setting.dataset, setting.options
    return {
        "dataset": dataset.name,
        "version": dataset.version,
        "digest": dataset.digest,
        "target": target,
        "mode": options.mode,
        "change": options.change.as_dict() if options.change else None,
        "trials": 1 + max(job.trial for job in jobs),
        "controls": options.controls,
        "expired": options.expired,
        "allow_side_effects": options.allow_side_effects,
        "allow_undeclared": options.allow_undeclared,
        "cases": list(options.cases),
        "evaluators": [[one.name, one.version, one.step] for one in setting.evaluators],
        "code_version": setting.code_version,
        "save_recordings": options.save_recordings,
    }


async def _run(plan: _Plan, store: Store, progress: Watcher | None, executor: Executor) -> ExperimentResult:
    results = {(trial.case, trial.trial): trial for trial in plan.finished}
    counts = sum((_counts(trial) for trial in plan.finished), Counts())
    waiting = [job for job in plan.jobs if (job.case.id, job.trial) not in results]

    setting = plan.setting

    async def work(job: Job) -> TrialResult:
        trial = await run_trial(job, setting)
        await in_thread(lambda: _history.keep_trial(store, plan.setting.id, trial))
        return trial

    def tell(last: TrialResult | None) -> None:
        if progress is not None:
            progress(Progress(done=len(results), total=len(plan.jobs), counts=counts, last=last))

    tell(None)
    interrupted = False
    try:
        setting = replace(setting, nulls=await null_replays(waiting, setting, executor, begun=bool(results)))
        async with contextlib.aclosing(executor.map(work, waiting)) as finished:
            async for trial in finished:
                results[trial.case, trial.trial] = trial
                counts = counts + _counts(trial)
                tell(trial)
        require_some_changed([results[key] for key in sorted(results)], plan.setting.options.change)
    except asyncio.CancelledError:
        interrupted = True
    except (GoldforkError, GoldforkStop):
        _history.mark(store, plan.setting.id, "error", datetime.now(UTC))
        raise
    result = _rule(plan, [results[key] for key in sorted(results)], interrupted=interrupted)
    _history.finish(store, result, "interrupted" if interrupted else "ok")
    return result


def _rule(plan: _Plan, trials: Sequence[TrialResult], *, interrupted: bool) -> ExperimentResult:
    setting = plan.setting
    dataset, options = setting.dataset, setting.options
    scores = summarise([trial_scores(trial, dataset.case(trial.case).labels) for trial in trials], setting.evaluators)
    ruling = rule(
        trials,
        scores,
        baseline=plan.baseline.scores,
        evaluators=setting.evaluators,
        gate=dataset.gate,
        margins=dataset.margins,
        options=options,
    )
    notes = (
        *plan.baseline.notes,
        *unaddressed_notes(trials, options.change),
        *refused_notes(trials, dataset),
        *ruling.notes,
    )
    if interrupted:
        notes = (
            f"interrupted after {len(trials)} of {len(plan.jobs)} trials, the numbers are partial; finish it with "
            f"`goldfork eval {dataset.path} --resume {setting.id}`",
            *notes,
        )
    return ExperimentResult(
        id=setting.id,
        dataset=dataset.name,
        dataset_path=str(dataset.path),
        version=dataset.version,
        digest=dataset.digest,
        target=plan.target,
        mode=options.mode,
        change=options.change,
        started_at=plan.started_at,
        ended_at=datetime.now(UTC),
        trials=tuple(trials),
        scores=scores,
        baseline_scores=plan.baseline.scores,
        verdicts=ruling.verdicts,
        checks=ruling.checks,
        verdict="not_measurable" if interrupted else ruling.word,
        exit_code=INTERRUPTED if interrupted else ruling.exit_code,
        notes=notes,
    )


def _counts(trial: TrialResult) -> Counts:
    return trial.outcome.counts + trial.evaluator_counts + trial.control_counts
