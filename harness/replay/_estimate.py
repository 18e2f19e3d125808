"""Tokens and money of recorded calls, as an estimate of what making them again would take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from harness.record import MessageRecord
from harness.replay._values import same_currency


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What some recorded calls took. Sums are of what is known; the counts say how many calls are not in them."""

    calls: int = 0
    known_tokens: int = 0
    unknown_usage: int = 0
    """Calls that reported no usage."""
    known_cost: Decimal = Decimal(0)
    unpriced: int = 0
    """Calls whose cost is unknown."""
    currency: str = "USD"

    def __add__(self, other: Estimate) -> Estimate:
        """Both together.

        Raises:
            UsageError: Their costs are in different currencies.
        """
        return Estimate(
            calls=self.calls + other.calls,
            known_tokens=self.known_tokens + other.known_tokens,
            unknown_usage=self.unknown_usage + other.unknown_usage,
            known_cost=self.known_cost + other.known_cost,
            unpriced=self.unpriced + other.unpriced,
            currency=same_currency(self._priced_in(), other._priced_in()) or "USD",
        )

    def _priced_in(self) -> str | None:
        return self.currency if self.calls > self.unpriced else None

    @property
    def tokens(self) -> int | None:
        """All tokens, ``None`` when a call's are unknown."""
        return None if self.unknown_usage else self.known_tokens

    @property
    def cost(self) -> Decimal | None:
        """All money, ``None`` when a call's is unknown."""
        return None if self.unpriced else self.known_cost


def estimate(messages: Iterable[MessageRecord]) -> Estimate:
    """Add up recorded calls.

    Raises:
        UsageError: Their costs are in several currencies.
    """
    calls = tokens = unknown = unpriced = 0
    cost, currency = Decimal(0), None
    for message in messages:
        calls += 1
        total = message.usage.total
        tokens, unknown = tokens + (total or 0), unknown + (total is None)
        if message.cost is None:
            unpriced += 1
        else:
            currency = same_currency(currency, message.currency)
            cost += message.cost
    return Estimate(
        calls=calls,
        known_tokens=tokens,
        unknown_usage=unknown,
        known_cost=cost,
        unpriced=unpriced,
        currency=currency or "USD",
    )
