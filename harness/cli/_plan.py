"""``goldfork run fork --plan`` and ``goldfork eval --plan``: what a fork would do, for a person and for a machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from harness.cli._app import console, print_json, visible
from harness.experiment import ExperimentPlan
from harness.replay import Estimate, ForkPlan, PlannedStep

_STYLES = {"reused": "green", "answered": "green", "run": "yellow", "run or reused": "cyan", "dry": "magenta"}
_CODE = {
    "changed": "The code has changed since this run was recorded, so every body runs; calls whose requests stay equal "
    "are answered from the recording all the same.",
    "unknown": "It cannot be told whether the code is the recorded one, so every body runs; calls whose requests stay "
    "equal are answered from the recording all the same.",
}


def show_plan(plan: ForkPlan, *, json: bool) -> None:
    """Print a plan."""
    if json:
        print_json(plan_json(plan))
        return
    out = console()
    table = Table(box=None, header_style="bold")
    table.add_column("step", overflow="fold")
    table.add_column("would be", no_wrap=True)
    table.add_column("calls", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for step in plan.steps:
        word = Text(step.word, style=_STYLES.get(step.word, ""))
        table.add_row(Text(visible(step.address)), word, _calls(step), _tokens(step.estimate), Text(_line(step.reason)))
    out.print(table)
    out.print("steps: " + ", ".join(f"{count} {word}" for word, count in plan.words.items()), markup=False)
    out.print(
        f"upper estimate, from what was recorded: at most {_sum(plan.at_most)} anew, of these the change itself alters "
        f"{_sum(plan.certain)}; {_sum(plan.answered)} answered from the recording. New text may be longer, and new "
        "steps may call.",
        markup=False,
    )
    if plan.code in _CODE:
        out.print(_CODE[plan.code], markup=False, style="yellow")
    out.print("Nothing was run or called.", markup=False)


def plan_json(plan: ForkPlan) -> dict[str, Any]:
    """The machine form (docs/json.md)."""
    return {
        "plan": True,
        "parent": plan.parent,
        "at": plan.change.at,
        "change": plan.change.as_dict(),
        "code": plan.code,
        "steps": [_step_json(step) for step in plan.steps],
        "words": dict(plan.words),
        "certain": _estimate_json(plan.certain),
        "at_most": _estimate_json(plan.at_most),
        "answered": _estimate_json(plan.answered),
        "estimate": "upper",
    }


def _step_json(step: PlannedStep) -> dict[str, Any]:
    keys = ("key", "name", "scope", "occurrence", "kind")
    return {
        **{key: getattr(step, key) for key in keys},
        "state": step.word,
        "reason": step.reason,
        "calls": {"certain": step.certain, "possible": step.possible},
        **{name: _estimate_json(step.estimate)[name] for name in ("tokens", "cost")},
    }


def _estimate_json(one: Estimate) -> dict[str, Any]:
    return {
        "calls": one.calls,
        "tokens": one.tokens,
        "unknown_usage": one.unknown_usage,
        "cost": None if one.cost is None else f"{one.cost:f}",
        "unpriced": one.unpriced,
        "currency": one.currency,
    }


def _calls(step: PlannedStep) -> str:
    if step.certain and step.possible:
        return f"{step.certain} to {step.certain + step.possible}"
    if step.possible:
        return f"0 to {step.possible}"
    return str(step.certain) if step.certain else ""


def _tokens(one: Estimate) -> str:
    if not one.calls:
        return ""
    return f"{one.known_tokens:,}" if one.tokens is not None else "unknown"


def _sum(one: Estimate) -> str:
    calls = f"{one.calls:,} call{'s' * (one.calls != 1)}"
    tokens = f"{one.known_tokens:,} tokens" + (f" and {one.unknown_usage} of unknown size" if one.unknown_usage else "")
    if one.unpriced == one.calls:
        return f"{calls} ({tokens})" if one.calls else calls
    money = f"{one.known_cost:f} {one.currency}" + (f" and {one.unpriced} without a price" if one.unpriced else "")
    return f"{calls} ({tokens}, {money})"


def _line(text: str, most: int = 160) -> str:
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."


def show_experiment_plan(plan: ExperimentPlan, *, json: bool) -> None:
    """Print the plan of a whole dataset."""
    if json:
        print_json(experiment_plan_json(plan))
        return
    out = console()
    forks = [trial for trial in plan.trials if trial.fork is not None]
    recorded = sum(trial.recorded for trial in forks)
    if plan.steps:
        table = Table(box=None, header_style="bold")
        table.add_column("step", overflow="fold")
        table.add_column("would be", overflow="fold")
        for address, words in plan.steps.items():
            told = ", ".join(f"{word} in {count}" for word, count in words.most_common())
            table.add_row(Text(visible(address)), Text(told))
        out.print(table)
    trials = f"{len(plan.trials)} trial{'s' * (len(plan.trials) != 1)}"
    for line in _experiment_lines(plan, len(forks), recorded):
        out.print(visible(line), markup=False)
    changed = plan.code["changed"] + plan.code["unknown"]
    if changed:
        out.print(
            f"In {changed} of {trials} the code is not known to be the recorded one, so every body runs there.",
            markup=False,
            style="yellow",
        )
    out.print("Nothing was run or called.", markup=False)


def _experiment_lines(plan: ExperimentPlan, forks: int, recorded: int) -> Iterator[str]:
    left = [trial for trial in plan.trials if trial.left]
    cases = len({trial.case for trial in plan.trials})
    yield f"{plan.dataset} v{plan.version}: {cases} cases, {len(plan.trials)} trials, mode {plan.mode}"
    if plan.change is not None:
        yield (
            f"{forks} would be forked" + (f", {len(left)} replayed as they are: the change finds nothing" * bool(left))
        )
    if recorded:
        yield f"{recorded} of these forks are recorded with this code and answered from there"
    anew = (
        f"at most {_sum(plan.total('at_most'))} anew, of these the change itself alters {_sum(plan.total('certain'))}"
    )
    yield f"upper estimate, from what was recorded: {anew}; {_sum(plan.total('answered'))} answered from recordings"
    if plan.total("controls").calls:
        yield f"control forks: {_sum(plan.total('controls'))} more"
    if plan.mode == "replay" and plan.total("at_most").calls:
        short = sum(trial.at_most.calls > 0 for trial in plan.trials)
        yield f"mode replay calls nothing: up to {short} trials would lack a recording; --mode auto makes the calls"
    yield "The calls of evaluators are not in these figures, and new text may be longer than what was recorded."


def experiment_plan_json(plan: ExperimentPlan) -> dict[str, Any]:
    """The machine form (docs/json.md)."""
    estimates = ("certain", "at_most", "answered", "controls")
    return {
        "plan": True,
        "dataset": plan.dataset,
        "version": plan.version,
        "target": plan.target,
        "mode": plan.mode,
        "change": plan.change.as_dict() if plan.change else None,
        "code": dict(plan.code),
        "steps": {address: dict(words) for address, words in plan.steps.items()},
        **{name: _estimate_json(plan.total(name)) for name in estimates},
        "estimate": "upper",
        "trials": [
            {
                "case": trial.case,
                "trial": trial.trial,
                "forked": trial.fork is not None,
                "reason": trial.left or None,
                "recorded": trial.recorded,
                **{name: _estimate_json(getattr(trial, name)) for name in estimates},
            }
            for trial in plan.trials
        ],
    }
