"""From an experiment's result to the summary."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby

from harness.experiment import ExperimentResult, TrialResult, effects, shared_differences
from harness.report._cases import Budget, build_case
from harness.report._counterfactual import control_counts, tallies
from harness.report._difference import excerpt, shown
from harness.report._format import STATES, one_line
from harness.report._headline import headline, outcome
from harness.report._scores import score_rows
from harness.report._tools import tool_tallies
from harness.report.summary import (
    CaseState,
    CaseView,
    Divergence,
    Spending,
    Summary,
    Work,
)

CHANGE_VALUE = 4_000
"""Characters of a changed prompt or value that are shown."""


def build(result: ExperimentResult) -> Summary:
    """Compute everything a report shows.

    Content is read by hash through the trials' recordings; what is gone is noted, not an error.
    """
    rows = score_rows(result)
    failed = {score.name: score.evaluator for score in result.scores if _failed(result, score.name)}
    cases = _cases(result, Budget(len(result.trials)), failed)
    change = result.change
    return Summary(
        experiment=result.id,
        dataset=result.dataset,
        dataset_path=result.dataset_path,
        version=result.version,
        digest=result.digest,
        target=result.target,
        mode=result.mode,
        change=None if change is None else " ".join(filter(None, (change.kind, change.name, "at", change.at))),
        change_value=None if change is None else excerpt(shown(change.value), CHANGE_VALUE),
        started_at=result.started_at,
        ended_at=result.ended_at,
        verdict=result.verdict,
        exit_code=result.exit_code,
        outcome=outcome(result),
        headline=headline(result),
        trials=len(result.trials),
        outputs_equal=sum(trial.equal is True for trial in result.trials),
        outputs_compared=sum(trial.equal is not None for trial in result.trials),
        spending=_spending(result),
        work=_work(result),
        scores=rows,
        checks=result.checks,
        divergences=_divergences(result.trials),
        # An undeclared change is said once, whatever number of cases has it.
        problems=tuple(one for case in cases for one in case.problems if one.kind != "undeclared"),
        cases=cases,
        tallies=tallies(result),
        effects=effects(result.trials),
        controls=max((len(trial.controls) for trial in result.trials), default=0),
        control_counts=control_counts(result),
        tools=tool_tallies(result.trials),
        undeclared=_undeclared(result),
        drift=tuple(dict.fromkeys(line for trial in result.trials for line in _drift(trial))),
        notes=result.notes,
        left_out=_left_out(cases),
        states=_states(cases),
    )


def _undeclared(result: ExperimentResult) -> tuple[str, ...]:
    found = [(trial.case, trial.outcome.undeclared) for trial in result.trials]
    return tuple(map(str, shared_differences(found, len({trial.case for trial in result.trials}))))


def _drift(trial: TrialResult) -> tuple[str, ...]:
    return (*trial.outcome.drift, *(line for control in trial.controls for line in control.drift))


def _failed(result: ExperimentResult, name: str) -> bool:
    """Whether the gate failed because of this score."""
    verdict = result.verdicts.get(name)
    if verdict is not None and verdict.gating and verdict.word == "regressed":
        return True
    return any(not check.passed and check.name == name for check in result.checks)


def _cases(result: ExperimentResult, budget: Budget, failed: dict[str, str]) -> tuple[CaseView, ...]:
    groups = [tuple(group) for _, group in groupby(result.trials, key=lambda trial: trial.case)]
    order = sorted(range(len(groups)), key=lambda index: all(trial.equal for trial in groups[index]))
    built = {index: build_case(groups[index], failed=failed, budget=budget) for index in order}
    return tuple(built[index] for index in range(len(groups)))


def _divergences(trials: tuple[TrialResult, ...]) -> tuple[Divergence, ...]:
    first: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for trial in trials:
        step = trial.outcome.diff.first_divergence
        if step is not None and trial.outcome.status != "missing":  # what was not computed does not differ
            first[step][trial.case] = None
    rows = [Divergence(step, tuple(cases)) for step, cases in first.items()]
    return tuple(sorted(rows, key=lambda row: (-len(row.cases), row.step)))


def _spending(result: ExperimentResult) -> Spending:
    counts = result.counts
    tokens, cost = counts.tokens, counts.cost
    return Spending(
        tokens_spent=tokens[0],
        tokens_saved=tokens[1],
        cost_spent=cost[0],
        cost_saved=cost[1],
        currency=counts.currency,
        known=counts,
    )


def _work(result: ExperimentResult) -> Work:
    counts = result.counts
    return Work(
        steps_reused=counts.steps_reused,
        steps_run=counts.steps_run,
        tools_answered=counts.tools_answered,
        tools_called=counts.tools_called,
        tools_dry=counts.tools_dry,
        provider_calls=counts.provider_calls,
    )


def _states(cases: tuple[CaseView, ...]) -> tuple[tuple[CaseState, int], ...]:
    amounts = ((state, sum(case.state == state for case in cases)) for state in STATES)
    return tuple((state, amount) for state, amount in amounts if amount)


def _left_out(cases: tuple[CaseView, ...]) -> str:
    without = [case.case for case in cases if any(trial.note.startswith(Budget.SPENT) for trial in case.trials)]
    if not without:
        return ""
    names = ", ".join(one_line(name, 40) for name in without[:3])
    return f"The report is bounded: differences of {len(without):,} cases are not shown ({names}, ...)."
