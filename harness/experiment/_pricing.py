"""The dataset's own prices, which come before the settings'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.gateway import priced
from harness.record import Recording
from harness.replay import RunOutcome, count
from harness.settings import Price

Prices = Mapping[str, Price]
"""Price by model name, as asked for or as served."""


def priced_outcome(outcome: RunOutcome, prices: Prices) -> RunOutcome:
    """The outcome with the cost of its messages by these prices.

    Raises:
        UsageError: Its costs are in several currencies.
    """
    if not prices:
        return outcome
    run = priced_run(outcome.run, prices)
    return replace(outcome, run=run, counts=count(run))


def priced_run(run: Recording, prices: Prices) -> Recording:
    """The run with the cost of each message by these prices; a model without one keeps the cost that it has."""
    return replace(run, messages=tuple(priced(message, prices) for message in run.messages)) if prices else run
