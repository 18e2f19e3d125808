"""What a run did and what it saved."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from harness.record import MessageRecord, Recording
from harness.replay._values import Counts


def count(run: Recording) -> Counts:
    """Counts of one run."""
    agents = [step for step in run.steps if step.kind != "tool" and step.parent_id is not None]
    tools = [step for step in run.steps if step.kind == "tool"]
    fresh = [message for message in run.messages if message.cache_state == "live"]
    saved = [message for message in run.messages if message.cache_state != "live"]
    spent_tokens, unknown_spent = _tokens(fresh)
    saved_tokens, unknown_saved = _tokens(saved)
    return Counts(
        steps_reused=sum(step.state == "reused" for step in agents),
        steps_run=sum(step.state == "run" for step in agents),
        tools_answered=sum(step.state == "answered" for step in tools),
        tools_called=sum(step.state == "called" for step in tools),
        tools_dry=sum(step.state == "dry" for step in tools),
        provider_calls=sum(len(message.exchanges) for message in fresh if message.provider != "local"),
        tokens_spent=spent_tokens,
        tokens_saved=saved_tokens,
        unknown_usage=unknown_spent + unknown_saved,
        cost_spent=_cost(fresh),
        cost_saved=_cost(saved),
    )


def _tokens(messages: Iterable[MessageRecord]) -> tuple[int, int]:
    total, unknown = 0, 0
    for message in messages:
        if message.usage.total is None:
            unknown += 1
        else:
            total += message.usage.total
    return total, unknown


def _cost(messages: Iterable[MessageRecord]) -> Decimal | None:
    known = [message.cost for message in messages if message.cost is not None]
    return sum(known, Decimal(0)) if known else None
