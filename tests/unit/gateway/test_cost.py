"""Money is decimal, and unknown stays unknown."""

from dataclasses import replace
from decimal import Decimal

from harness.gateway import cost_of, price_of, priced, record_local
from harness.record import Usage
from harness.session import Mode, RunPlan, planned
from harness.settings import Price
from harness.testing import MemorySink

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


def message(**changes):
    sink = MemorySink()
    with planned(RunPlan(mode=Mode.LIVE, sink=sink)):
        record_local("/embeddings", {"input": "a", "model": "asked"}, lambda: {"data": []})
    return replace(sink.recording().messages[0], **changes)


def test_the_model_asked_for_is_priced_before_the_one_that_answered():
    asked, served = Price(input=Decimal(1), output=Decimal(1)), Price(input=Decimal(2), output=Decimal(2))
    answered = message(model_served="served")
    assert price_of(answered, {"served": served, "asked": asked}) is asked
    assert price_of(answered, {"served": served}) is served
    assert price_of(answered, {}) is None


def test_a_cost_keeps_the_currency_of_its_price():
    euros = Price(input=Decimal(1), output=Decimal(1), currency="EUR")
    found = priced(message(usage=Usage(input_tokens=1_000_000, output_tokens=0)), {"asked": euros})
    assert (found.cost, found.currency) == (1, "EUR")
    assert priced(found, {}) == found
