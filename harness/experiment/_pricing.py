"""The dataset's own prices, which come before the settings'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.gateway import cost_of
from harness.record import MessageRecord, Recording
from harness.replay import Counts, RunOutcome, count
from harness.settings import Price

Prices = Mapping[str, Price]
"""Price by model name, as asked for or as served."""


def priced_outcome(outcome: RunOutcome, prices: Prices) -> RunOutcome:
    """The outcome with the cost of its messages by these prices, which are all in one currency."""
    if not prices:
        return outcome
    run = _priced(outcome.run, prices)
    return replace(outcome, run=run, counts=_with_money(outcome.counts, run, prices))


def priced_counts(run: Recording, prices: Prices) -> Counts:
    """What a run did, its cost by these prices."""
    priced = _priced(run, prices) if prices else run
    return _with_money(count(priced), priced, prices)


def _with_money(counts: Counts, run: Recording, prices: Prices) -> Counts:
    found = count(run)
    currency = next((price.currency for price in prices.values()), counts.currency)
    return replace(counts, cost_spent=found.cost_spent, cost_saved=found.cost_saved, currency=currency)


def _priced(run: Recording, prices: Prices) -> Recording:
    return replace(run, messages=tuple(_with_cost(message, prices) for message in run.messages))


def _with_cost(message: MessageRecord, prices: Prices) -> MessageRecord:
    names = (message.model_served, message.model)
    price = next((prices[name] for name in names if name is not None and name in prices), None)
    return message if price is None else replace(message, cost=cost_of(message.usage, price))
