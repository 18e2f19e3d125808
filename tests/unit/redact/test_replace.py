"""Replacement is consistent, and leaves nothing to find."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.redact import Redactor, scan, scan_value

VALUE = {
    "to": "jane@example.com",
    "note for bob@x.io": ["call +49 30 901820", {"card": 4111111111111111, "n": 7, "ok": True, "none": None}],
    "password": "correct horse",
    "phone": 5550199123,
    "api_key": "$FROM_ENV",
    "max_tokens": 1024,
}


def test_findings_come_with_their_json_path():
    assert [(path, finding.kind, finding.text) for path, finding in scan_value(VALUE)] == [
        ("$.to", "mail", "jane@example.com"),
        ('$["note for bob@x.io"]', "mail", "bob@x.io"),
        ('$["note for bob@x.io"][0]', "phone", "+49 30 901820"),
        ('$["note for bob@x.io"][1].card', "card", "4111111111111111"),
        ("$.password", "secret", "correct horse"),
        ("$.phone", "phone", "5550199123"),
    ]


def test_values_are_replaced_in_place():
    assert Redactor().value(VALUE) == {
        "to": "⟦mail#1⟧",
        "note for ⟦mail#2⟧": ["call ⟦phone#1⟧", {"card": "⟦card#1⟧", "n": 7, "ok": True, "none": None}],
        "password": "⟦secret#1⟧",
        "phone": "⟦phone#2⟧",
        "api_key": "$FROM_ENV",
        "max_tokens": 1024,
    }


def test_the_same_thing_gets_the_same_placeholder_across_texts_and_spellings():
    redactor = Redactor()
    assert redactor.text("a@b.io or c@d.io") == "⟦mail#1⟧ or ⟦mail#2⟧"
    assert redactor.text("C@D.io") == "⟦mail#2⟧"
    assert redactor.text("+49 30 901820, +4930901820") == "⟦phone#1⟧, ⟦phone#1⟧"
    assert redactor.counts == {"mail": 2, "phone": 1}


def test_a_secret_once_recognised_is_replaced_where_nothing_gives_it_away():
    value = ["it is hunter2x, really", {"password": "hunter2x"}]
    assert Redactor().value(value) == ["it is ⟦secret#1⟧, really", {"password": "⟦secret#1⟧"}]
    redactor = Redactor()
    redactor.text("password=hunter2x")
    assert redactor.text("hunter2x!") == "⟦secret#1⟧!"


def test_a_value_without_findings_is_the_same_value():
    value = {"a": [1, 2.5, None, True, "text", 2**60], "b": {}}
    assert Redactor().value(value) == value
    assert scan_value(value) == []


@pytest.mark.parametrize("kind", [list, dict])
def test_deep_values_are_scanned(kind):
    value = "a@b.io"
    for _ in range(5000):
        value = [value] if kind is list else {"a": value}
    assert len(scan_value(value)) == 1


things = st.sampled_from(["a@b.io", "+49 30 901820", "4111111111111111", "sk-Ab1Cd2Ef3Gh4Ij5Kl6", "password=hunter2x"])
glue = st.sampled_from([" ", ", ", "\n", "; see ", " - ", '"', "(", ")"])


@given(st.lists(st.tuples(things, glue)))
def test_nothing_is_left_to_find(pairs):
    text = "".join(thing + between for thing, between in pairs)
    redactor = Redactor()
    clean = redactor.text(text)
    assert scan(clean) == []
    assert redactor.text(clean) == clean


@given(
    st.recursive(
        st.text() | things | st.integers() | st.none(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=8,
    )
)
def test_redaction_keeps_the_shape(value):
    made = Redactor().value(value)
    assert json.dumps(made) is not None
    assert scan_value(made) == []
    if not scan_value(value):
        assert made == value
