"""What a message cost."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from harness.record import MessageRecord, Usage
from harness.session import RunState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.settings import Price

_MILLION = Decimal(1_000_000)
_prices: WeakKeyDictionary[RunState, Mapping[str, Price]] = WeakKeyDictionary()


def cost_of(usage: Usage, price: Price | None) -> Decimal | None:
    """Money for the tokens, in the price's currency; ``None`` when tokens or price are unknown."""
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    rate = price.input if price.cached is None else price.cached
    money = (usage.input_tokens - cached) * price.input + cached * rate + usage.output_tokens * price.output
    return money / _MILLION


def price_of(message: MessageRecord, prices: Mapping[str, Price]) -> Price | None:
    """The price of a message: that of the model asked for, else that of the model which answered."""
    names = (message.model, message.model_served)
    return next((prices[name] for name in names if name is not None and name in prices), None)


def priced(message: MessageRecord, prices: Mapping[str, Price]) -> MessageRecord:
    """The message with its cost by these prices; as it was when they name neither of its models."""
    price = price_of(message, prices)
    if price is None:
        return message
    return replace(message, cost=cost_of(message.usage, price), currency=price.currency)


def prices_of(run: RunState) -> Mapping[str, Price]:
    """The settings' prices as they were when the run first asked."""
    if run not in _prices:
        from harness.settings import load_settings

        _prices[run] = load_settings().prices
    return _prices[run]
