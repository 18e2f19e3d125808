"""What embeddings miss, and how long texts are cut into windows without losing a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators._guards import differences
from evaluators._windows import BUDGET, estimate, windows


@pytest.mark.parametrize(
    ("expected", "got", "guards"),
    [
        ("We refund 500 EUR.", "We refund 5000 EUR.", {"numbers": (["500"], ["5000"])}),
        ("1,250.50 units", "1250.5 units", {}),
        ("within five days", "within 5 days", {}),
        ("pay 50%", "pay 50 percent", {"numbers": (["50%"], ["50"])}),
        ("due 5 March 2026", "due 2026-03-05", {}),
        ("due March 5", "due the 6th of March", {"dates": (["--03-05"], ["--03-06"])}),
        ("call on Monday", "call on Friday", {"dates": (["monday"], ["friday"])}),
        ("It is refundable.", "It isn't refundable.", {"negation": ([], ["not"])}),
        ("It is not impolite.", "It is not impolite.", {}),
        ("refund approved", "refund denied", {"negation": (["approved"], ["denied"])}),
        ("withhold the drug", "continue the drug", {"negation": (["withhold"], ["continue"])}),
        ("open, then close", "close, then open", {}),
        ("Ask Anna Meier about it.", "Ask Ana Maier about it.", {"names": (["Anna Meier"], ["Ana Maier"])}),
        ("Parcels are late. We are sorry.", "We are sorry. Parcels are late.", {}),
    ],
)
def test_guards(expected, got, guards):
    found = differences(expected, got)
    names = {"names"} if "names" in guards else set()
    assert {name for name in found if name != "names"} | names == set(guards)
    for name, (missing, extra) in guards.items():
        assert found[name] == {"missing": missing, "extra": extra}


@given(st.text(max_size=120))
def test_a_text_never_differs_from_itself(text):
    assert differences(text, text) == {}


def test_guards_of_long_hostile_texts_end():
    for text in ("1" * 50_000, "1," * 20_000, "A" * 50_000, "A b " * 10_000, "not " * 10_000, "5 march " * 5_000):
        differences(text, text + " 7")


def test_a_short_text_is_one_window_as_it_is():
    assert windows("  Two  spaces\nand a line. ") == ["Two  spaces\nand a line."]
    assert windows(" \n ") == []


@given(st.text(alphabet=st.sampled_from("ab ,1ä日\n"), max_size=300), st.integers(1, 20))
def test_windows_lose_nothing_and_stay_within_the_budget(text, budget):
    found = windows(text, budget=budget)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(estimate(window) <= budget for window in found)


def test_a_word_without_end_is_cut_into_windows():
    found = windows("x" * 5000)
    assert "".join(found) == "x" * 5000
    assert all(estimate(window) <= BUDGET for window in found)
