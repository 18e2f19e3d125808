"""What an experiment would reuse, run and cost, told from the recordings alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.dataset import GoldenDataset
from harness.errors import ChangeError, UsageError
from harness.experiment._addressed import require_some_addressed, rooted
from harness.experiment._controls import missing_controls, require_controls
from harness.experiment._options import EvalOptions, require_fork_options
from harness.experiment._pricing import Prices, priced_run
from harness.experiment._setting import Job
from harness.experiment._trial import plan_jobs, require_cases
from harness.record import LOCAL, Recording
from harness.replay import (
    Estimate,
    ForkPlan,
    PlanWord,
    ReplayOptions,
    code_version,
    estimate,
    load_target,
    plan_fork,
)
from harness.session import Change
from harness.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """One trial, and what would become of it."""

    case: str
    trial: int
    fork: ForkPlan | None = None
    """Of a fork alone."""
    left: str = ""
    """Why the change finds nothing in it; it would be replayed as it is."""
    recorded: bool = False
    """Whether this very fork is recorded, by the code as it is now: then all its calls are answered."""
    certain: Estimate = field(default_factory=Estimate)
    """Calls that would be made anew in any case."""
    at_most: Estimate = field(default_factory=Estimate)
    """These and those that may follow."""
    answered: Estimate = field(default_factory=Estimate)
    """Calls that a recording answers."""
    controls: Estimate = field(default_factory=Estimate)
    """Calls of those of its control forks that are not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlan:
    """An experiment that has not been run. The calls of evaluators are in none of its figures."""

    dataset: str
    version: int
    target: str
    mode: str
    change: Change | None
    trials: tuple[TrialPlan, ...]

    def total(self, name: str) -> Estimate:
        """The sum of one of the trials' estimates, by the name of its field."""
        return sum((getattr(trial, name) for trial in self.trials), Estimate())

    @property
    def steps(self) -> Mapping[str, Counter[PlanWord]]:
        """How many trials give each step each word, in order of first sight."""
        found: dict[str, Counter[PlanWord]] = {}
        for trial in self.trials:
            for step in trial.fork.steps if trial.fork else ():
                found.setdefault(step.address, Counter())[step.word] += 1
        return found

    @property
    def code(self) -> Counter[str]:
        """How many forks find the recorded code: ``same``, ``changed`` or ``unknown``."""
        return Counter(trial.fork.code for trial in self.trials if trial.fork)


def plan_experiment(dataset: GoldenDataset, options: EvalOptions, *, prices: Prices, store: Store) -> ExperimentPlan:
    """Say what an experiment would do, and about what it would cost; nothing is run, called or written.

    Args:
        dataset: A frozen dataset.
        options: What would be run and how.
        prices: The settings' prices, by model name; the dataset's own come before them.
        store: Where the age of recorded results is looked up.

    Raises:
        UsageError: The experiment could not be run either: an unknown case, more trials than recorded, options that
            do not go together.
        ChangeError: No case has what the change addresses.
        DatasetEdited: The dataset's files differ from its version.
    """
    require_cases(dataset)
    dataset.require_verified()
    target = options.target or dataset.target
    if not target:
        raise UsageError(f"dataset {str(dataset.path)!r} names no target; add one to dataset.toml or use --target")
    function = load_target(target)
    jobs = plan_jobs(dataset, options)
    options = rooted(dataset, jobs, options)
    require_fork_options(options)
    require_controls(dataset, jobs, options)
    require_some_addressed((dataset.recording(job.case.id, trial=job.trial) for job in jobs), options.change)
    planner = _Planner(
        dataset=dataset,
        options=options,
        target=function,
        code_version=code_version(dataset.code) if dataset.code else None,
        prices={**prices, **dataset.prices},
        store=store,
    )
    return ExperimentPlan(
        dataset=dataset.name,
        version=dataset.version,
        target=target,
        mode=options.mode,
        change=options.change,
        trials=tuple(planner.trial(job) for job in jobs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    dataset: GoldenDataset
    options: EvalOptions
    target: Callable[..., Any]
    code_version: str | None
    prices: Prices
    store: Store

    def trial(self, job: Job) -> TrialPlan:
        found = self.dataset.recording(job.case.id, trial=job.trial)
        blank = TrialPlan(case=job.case.id, trial=job.trial)
        if found is None:
            # Nothing is recorded that could tell.
            return blank
        parent = priced_run(found, self.prices)
        change = self.options.change
        if change is not None:
            try:
                return self._fork(job, parent, change)
            except ChangeError as reason:
                return replace(blank, left=str(reason), answered=_calls(parent))
        calls = _calls(parent)
        if self.options.mode == "live":
            return replace(blank, certain=calls, at_most=calls)
        return replace(blank, answered=calls)

    def _fork(self, job: Job, parent: Recording, change: Change) -> TrialPlan:
        options = self.options
        plan = plan_fork(
            parent,
            change,
            target=self.target,
            options=ReplayOptions(
                code_version=self.code_version,
                expired=options.expired,
                allow_side_effects=options.allow_side_effects,
            ),
            prices=self.prices,
            store=self.store,
        )
        own = None if options.mode == "live" else self.dataset.recording(job.case.id, arm=change.arm, trial=job.trial)
        recorded = own is not None and plan.code == "same" and own.run.code_version == parent.run.code_version
        controls = options.controls
        if options.mode != "live":
            controls = len(missing_controls(self.dataset, job, change, controls))
        return TrialPlan(
            case=job.case.id,
            trial=job.trial,
            fork=plan,
            recorded=recorded,
            certain=Estimate() if recorded else plan.certain,
            at_most=Estimate() if recorded else plan.at_most,
            answered=plan.answered + plan.at_most if recorded else plan.answered,
            controls=sum((plan.control for _ in range(controls)), Estimate()),
        )


def _calls(parent: Recording) -> Estimate:
    """All calls of a recording that left the process."""
    return estimate(message for message in parent.messages if message.provider != LOCAL)
