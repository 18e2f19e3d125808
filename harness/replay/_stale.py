"""Tool results that a fork does not take from the recording: past their ttl, or declared to be called anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from harness.errors import ChangeError
from harness.record import Recording, StepRecord
from harness.session import Change
from harness.store import Store

Expired = Literal["keep", "refresh"]
_DEEPEST = 100
"""Recordings made of recordings that are followed to find when a result was made."""


@dataclass(frozen=True, slots=True)
class ExpiredCall:
    """A recorded result that is older than its tool lets it count as fresh."""

    step: StepRecord
    age: float
    """Seconds since the call that made it."""
    ttl: float


def expired_calls(parent: Recording, *, now: datetime, store: Store | None) -> dict[str, ExpiredCall]:
    """The parent's time-bound tool calls whose result is past its ttl, by step id.

    Args:
        parent: The recording.
        now: The aware time by the fork's clock.
        store: Where the run is looked up that made a result which the parent had itself from a recording or a cache.
            Without it the age is counted from the parent's call, and is the least that it can be.
    """
    found = {}
    for step in parent.steps:
        if step.kind != "tool" or step.determinism != "time-bound" or step.ttl is None or step.status != "ok":
            continue
        age = (now - _made_at(step, store)) / timedelta(seconds=1)
        if age >= step.ttl:
            found[step.id] = ExpiredCall(step, age, step.ttl)
    return found


def _made_at(step: StepRecord, store: Store | None) -> datetime:
    """When the call started that made a result, through as many recordings as it was handed on."""
    made, origin = step.started_at, step.reused_from
    for _ in range(_DEEPEST):
        rows = store.load("steps", id=origin) if store is not None and origin is not None else []
        if not rows:
            break
        made, origin = min(made, rows[0]["started_at"]), rows[0]["reused_from"]
    return made


def expired_report(
    run: Recording, parent: Recording, expired: Mapping[str, ExpiredCall], arms: Sequence[Recording] = ()
) -> list[dict[str, Any]]:
    """What became of the expired results: ``kept`` or ``refreshed``, with tool, step, age and ttl in seconds.

    Args:
        run: The fork.
        parent: What it was forked from.
        expired: What ``expired_calls`` found.
        arms: Earlier recordings of this very fork; what they kept, and this run took from them, is kept.
    """
    handed_on = {step.id: step.reused_from for arm in arms for step in arm.steps if step.kind == "tool"}
    places = {(step.scope, step.key, step.occurrence): step.id for step in parent.steps if step.kind == "tool"}
    found = []
    for step in run.steps:
        call = expired.get(places.get((step.scope, step.key, step.occurrence), "")) if step.kind == "tool" else None
        if call is None:
            continue
        origin = step.reused_from
        while origin in handed_on:
            origin = handed_on[origin]
        kept = origin == call.step.id
        found.append(
            {
                "tool": step.name,
                "step": step.address,
                "age_s": round(call.age, 3),
                "ttl_s": call.ttl,
                "action": "kept" if kept else "refreshed",
            }
        )
    return found


def refresh_change(tools: Sequence[str], at: str = "") -> Change:
    """The change that says: these tools are called anew at and below the fork step, in the whole run without one."""
    return Change(kind="refresh", at=at, value=sorted(set(tools)))


def refreshed_calls(parent: Recording, change: Change) -> set[str]:
    """Ids of the parent's tool calls that a refresh makes anew.

    Raises:
        ChangeError: The fork step calls no such tool, or it is a side effect.
    """
    inside = list(_within(parent, change))
    for name in change.value:
        calls = [step for step in inside if step.name == name]
        if not calls:
            known = ", ".join(dict.fromkeys(step.name for step in inside)) or "none"
            raise ChangeError(
                f"run {parent.run.id} calls no tool {name!r} at or below {change.at!r}; it calls: {known}"
            )
        if any(step.determinism == "side-effect" for step in calls):
            raise ChangeError(
                f"tool {name!r} is a side effect, which is executed in a fork only with allow_side_effects "
                "(--allow-side-effects); it cannot be refreshed"
            )
    return {step.id for step in inside if step.name in change.value}


def _within(parent: Recording, change: Change) -> Iterator[StepRecord]:
    """Tool calls at and below the fork step; ``steps`` is in order of start, so that parents come first."""
    inside: set[str] = set()
    for step in parent.steps:
        addressed = step.kind != "tool" and change.addresses(step.scope, step.name, step.occurrence)
        if addressed or step.parent_id in inside:
            inside.add(step.id)
            if step.kind == "tool":
                yield step
