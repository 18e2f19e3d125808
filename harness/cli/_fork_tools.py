"""What a replay or fork did to the world: effects kept dry, results past their ttl, arguments that were changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import orjson
import typer
from rich.console import Console

from harness.cli._app import console, visible
from harness.errors import UsageError
from harness.record import Recording
from harness.replay import RunOutcome, mutations, refresh_change
from harness.session import Change

_SHOWN = 200
"""Characters of a call's arguments that the terminal shows."""

ExpiredOption = Annotated[
    Literal["keep", "refresh"],
    typer.Option(
        "--expired", help="refresh: call time-bound tools anew whose result is past its ttl; keep: only list them."
    ),
]
RefreshOption = Annotated[
    list[str] | None,
    typer.Option(
        "--refresh", metavar="TOOL", help="As the one change, call this tool anew at and below the fork step."
    ),
]
EffectsOption = Annotated[
    bool, typer.Option("--allow-side-effects", help="Execute side effects for real instead of keeping them dry.")
]


def declared_change(set_: str, refresh: Sequence[str] | None, at: str) -> Change:
    """The one change that the options of ``run fork`` name.

    Raises:
        UsageError: They name none, or two.
    """
    if bool(set_) == bool(refresh):
        raise UsageError(
            "a fork makes exactly one change: give either --set KIND[:NAME]=VALUE or --refresh TOOL "
            f"({'both were' if set_ else 'neither was'} given)"
        )
    return refresh_change(refresh, at) if refresh else Change.parse(set_, at=at)


def warn_of_effects(where: str) -> None:
    """Say before a fork starts that it will touch the world; ``where`` as in "this fork of run X"."""
    Console(stderr=True, highlight=False).print(
        f"warning: side effects are executed for real in {where}", style="yellow", markup=False
    )
    # The library's own warning of the same, with a place in the code that says nothing to a user of the command.
    warnings.filterwarnings("ignore", message="side effects are executed", category=RuntimeWarning)


def tools_json(outcome: RunOutcome) -> dict[str, Any]:
    """The part of the machine form that is about tools (docs/json.md)."""
    return {
        "blocked": [dict(call) for call in outcome.blocked],
        "expired": [dict(call) for call in outcome.expired],
        "jitter_calls": list(outcome.jitter),
    }


def mutations_json(run: Recording) -> list[dict[str, Any]]:
    """What the steps of a run changed that was not theirs (docs/json.md)."""
    return [asdict(one) for one in mutations(run)]


def print_mutations(run: Recording) -> None:
    """Print the same for a person, a line each."""
    for one in mutations(run):
        console().print(visible(f"mutated: {one}"), style="yellow", markup=False, soft_wrap=True)


def print_tools(outcome: RunOutcome) -> None:
    """Print the same for a person, a line each."""
    out = console()
    for call in outcome.blocked:
        out.print(visible(_dry_line(call)), style="magenta", markup=False)
    for line in _expired_lines(outcome):
        out.print(visible(line), style="yellow", markup=False)
    for line in outcome.jitter:
        out.print(visible(f"may come out otherwise: {line}"), style="yellow", markup=False)


def _dry_line(call: Mapping[str, Any]) -> str:
    arguments = orjson.dumps(call["arguments"], default=str).decode()
    shown = arguments if len(arguments) <= _SHOWN else f"{arguments[:_SHOWN]}…"
    answered = {"nothing": "stopped here: no recording and no stand-in"}.get(
        call["answered_by"], f"answered by the {call['answered_by']}"
    )
    return f"not executed: {call['step']} {shown} · {answered}"


def _expired_lines(outcome: RunOutcome) -> Iterator[str]:
    for call in outcome.expired:
        done = "called anew" if call["action"] == "refreshed" else "kept; --expired refresh calls it anew"
        yield f"expired: {call['step']} · {call['age_s']:.0f} s old, ttl {call['ttl_s']:g} s · {done}"
