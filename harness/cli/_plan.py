"""``goldfork run fork --plan``: what a fork would do, for a person and for a machine."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from harness.cli._app import console, print_json, visible
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
        f"upper estimate, from what was recorded: at most {_sum(plan.at_most)} anew, of these {_sum(plan.certain)} for "
        f"certain; {_sum(plan.answered)} answered from the recording. New text may be longer, and new steps may call.",
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
