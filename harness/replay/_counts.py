"""What a run did and what it saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from harness.record import LOCAL, MessageRecord, Recording
from harness.replay._values import Counts, same_currency

_REFUSED = 400
"""An answer with this HTTP status or a higher one came without tokens, so nothing is unknown about it."""


def count(run: Recording) -> Counts:
    """Counts of one run. What this process answered itself took no tokens from a provider and saved none.

    Raises:
        UsageError: Its messages have costs in several currencies.
    """
    agents = [step for step in run.steps if step.kind != "tool" and step.parent_id is not None]
    tools = [step for step in run.steps if step.kind == "tool"]
    away = [message for message in run.messages if message.provider != LOCAL]
    live = [message for message in away if message.cache_state == "live"]
    spent = _used(live)
    saved = _used(message for message in away if message.cache_state != "live")
    return Counts(
        steps_reused=sum(step.state == "reused" for step in agents),
        steps_run=sum(step.state == "run" for step in agents),
        tools_answered=sum(step.state == "answered" for step in tools),
        tools_called=sum(step.state == "called" for step in tools),
        tools_dry=sum(step.state == "dry" for step in tools),
        provider_calls=sum(len(message.exchanges) for message in live),
        tokens_spent=spent.tokens,
        tokens_saved=saved.tokens,
        unknown_spent=spent.unknown,
        unknown_saved=saved.unknown,
        cost_spent=spent.cost,
        cost_saved=saved.cost,
        unpriced_spent=spent.unpriced,
        unpriced_saved=saved.unpriced,
        currency=same_currency(spent.currency, saved.currency) or "USD",
    )


def count_attempts(attempts: Sequence[Sequence[Recording]]) -> Counts:
    """Counts of one thing that was tried several times; the last attempt is the one that counts.

    Whatever any attempt spent is spent. Saved is what the last attempt took from a recording that none of them made:
    an answer that an earlier attempt paid for saved nothing.

    Args:
        attempts: The runs of each attempt, in order; there must be one attempt at least.
    """
    paid: set[str] = set()
    total = Counts()
    for number, attempt in enumerate(attempts, 1):
        for run in attempt:
            paid |= {m.id for m in run.messages if m.cache_state == "live" or m.replay_of in paid}
            ours = count(replace(run, messages=tuple(m for m in run.messages if m.replay_of not in paid)))
            total = total + (ours if number == len(attempts) else ours.spending())
    return total


@dataclass(frozen=True, slots=True)
class _Used:
    tokens: int
    unknown: int
    cost: Decimal | None
    unpriced: int
    currency: str | None


def _used(messages: Iterable[MessageRecord]) -> _Used:
    tokens = unknown = unpriced = 0
    cost: Decimal | None = None
    currency: str | None = None
    for message in messages:
        if message.usage.total is not None:
            tokens += message.usage.total
        elif _refused(message):
            continue
        else:
            unknown += 1
        if message.cost is None:
            unpriced += 1
        else:
            currency = same_currency(currency, message.currency)
            cost = message.cost if cost is None else cost + message.cost
    return _Used(tokens, unknown, cost, unpriced, currency)


def _refused(message: MessageRecord) -> bool:
    answer = message.answer
    return answer is not None and answer.status is not None and answer.status >= _REFUSED
