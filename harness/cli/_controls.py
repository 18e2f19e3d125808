"""``goldfork run fork --controls K``: the same fork with nothing changed, beside what the change did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cli._app import console, visible
from harness.cli._references import Earlier
from harness.experiment import ControlTrial, output_word
from harness.record import Recording
from harness.replay import Counts, ReplayOptions, RunOutcome, control_arm, control_run
from harness.report import GIVEN
from harness.session import Change, Sink


@dataclass(frozen=True, slots=True)
class Controls:
    """Control forks of one run."""

    trials: tuple[ControlTrial, ...]
    counts: Counts


def run_controls(
    parent: Recording,
    *,
    change: Change,
    count: int,
    target: Callable[..., Any],
    sink: Sink,
    mode: str,
    code_version: str | None,
    earlier: Earlier,
) -> Controls:
    """Run them one after the other; each is a run in the store."""
    found = []
    for number in range(1, count + 1):
        outcome = control_run(
            parent,
            change=change,
            number=number,
            target=target,
            mode=mode,
            arm=earlier(control_arm(parent, change, number)),
            sink=sink,
            options=ReplayOptions(code_version=code_version),
        )
        found.append(_control(number, outcome))
    return Controls(tuple(found), sum((one.counts for one in found), Counts()))


def _control(number: int, outcome: RunOutcome) -> ControlTrial:
    record = outcome.run.run
    return ControlTrial(
        number=number,
        arm=record.arm,
        run=record.id,
        status=outcome.status,
        output_hash=record.output_hash,
        equal=outcome.diff.output_equal,
        first_divergence=outcome.diff.first_divergence,
        error=outcome.misses[0] if outcome.misses else outcome.error,
        counts=outcome.counts,
        drift=outcome.drift,
    )


def controls_json(controls: Controls, outcome: RunOutcome) -> dict[str, Any]:
    """The machine form (docs/json.md)."""
    word, reason = output_word(outcome.diff.output_equal, controls.trials)
    tokens, cost = controls.counts.tokens, controls.counts.cost
    return {
        "controls": [
            {
                "number": one.number,
                "run": one.run,
                "arm": one.arm,
                "status": one.status,
                "error": one.error,
                "output_equal": one.equal,
                "first_divergence": one.first_divergence,
                "drift": list(one.drift),
            }
            for one in controls.trials
        ],
        "jitter": {"word": word, "reason": reason, "given": "the recorded prefix"},
        "control_cost": {
            "provider_calls": controls.counts.provider_calls,
            "tokens": tokens[0],
            "cost": None if cost[0] is None else f"{cost[0]:f}",
            "currency": controls.counts.currency,
        },
    }


def print_controls(controls: Controls, outcome: RunOutcome) -> None:
    """One line per control, then the word."""
    out = console()
    for one in controls.trials:
        told = {True: "output equal to the recorded one", False: "output differs", None: one.error or "no output"}
        where = f", first at {one.first_divergence}" if one.first_divergence else ""
        out.print(visible(f"control {one.number} ({one.run}): {told[one.equal]}{where}"), markup=False, soft_wrap=True)
    word, reason = output_word(outcome.diff.output_equal, controls.trials)
    spent = f"{controls.counts.provider_calls} calls, {_tokens(controls.counts)} tokens spent on controls"
    out.print(visible(f"{word}: {reason} · {spent}"), markup=False)
    out.print(GIVEN, markup=False, style="dim")


def _tokens(counts: Counts) -> str:
    return f"{'at least ' * (counts.unknown_spent > 0)}{counts.tokens_spent}"


def failed(controls: Sequence[ControlTrial]) -> bool:
    """Whether one of them gave no output."""
    return any(one.status != "ok" for one in controls)
