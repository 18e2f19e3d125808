"""What a message cost."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from harness.record import Usage
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


def price_for(run: RunState, *models: str | None) -> Price | None:
    """The price that the settings give for the first of these model names that has one."""
    if run not in _prices:
        from harness.settings import load_settings

        _prices[run] = load_settings().prices
    table = _prices[run]
    return next((table[name] for name in models if name is not None and name in table), None)
