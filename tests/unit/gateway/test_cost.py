"""Money is decimal, and unknown stays unknown."""

from decimal import Decimal

from harness.gateway import cost_of
from harness.record import Usage
from harness.settings import Price

PRICE = Price(input=Decimal("0.15"), output=Decimal("0.60"), cached=Decimal("0.075"))


def test_tokens_times_price():
    usage = Usage(input_tokens=1000, output_tokens=100, cached_tokens=400)
    assert cost_of(usage, PRICE) == Decimal("0.00018")


def test_cached_tokens_cost_the_input_price_where_none_is_given():
    price = Price(input=Decimal(1), output=Decimal(2))
    assert cost_of(Usage(input_tokens=1_000_000, output_tokens=0, cached_tokens=5), price) == 1


def test_unknown_stays_unknown():
    assert cost_of(Usage(), PRICE) is None
    assert cost_of(Usage(input_tokens=1), PRICE) is None
    assert cost_of(Usage(input_tokens=1, output_tokens=1), None) is None
