"""Canonical JSON agrees with RFC 8785, and is its own inverse."""

import json
import math
import struct

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from harness.canonical import MAX_DEPTH, canonical_json, content_hash, from_canonical, parse_json
from harness.canonical._json import exact_json, fast_json
from harness.errors import CanonicalError

SAFE = 2**53 - 1
texts = st.text(st.characters(exclude_categories=["Cs"]))
untagged = texts.filter(lambda text: not text.startswith("⟦"))
numbers = st.integers(-SAFE, SAFE) | st.floats(allow_nan=False, allow_infinity=False)
safe_values = st.recursive(
    st.none() | st.booleans() | numbers | untagged,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)
any_values = st.recursive(
    st.none() | st.booleans() | numbers | st.integers() | texts | st.sampled_from(["⟦int⟧7", "⟦text⟧", "⟦x"]),
    lambda inner: st.lists(inner) | st.dictionaries(texts | st.sampled_from(["⟦int⟧1"]), inner),
    max_leaves=20,
)


@given(safe_values)
def test_agrees_with_the_reference(value):
    assert canonical_json(value) == rfc8785.dumps(value)


@given(st.integers(0, 2**64 - 1))
def test_every_double_is_printed_as_the_reference_prints_it(bits):
    value = struct.unpack("d", struct.pack("Q", bits))[0]
    if math.isfinite(value):
        assert canonical_json(value) == rfc8785.dumps(value)


@given(any_values)
def test_fast_path_never_differs_from_the_exact_one(value):
    assert fast_json(value) in {None, exact_json(value)}


@given(any_values)
def test_reading_back_gives_the_same_value(value):
    assert from_canonical(canonical_json(value)) == value


@given(any_values)
def test_key_order_and_spacing_do_not_matter(value):
    def turned(part):
        if isinstance(part, dict):
            return {key: turned(part[key]) for key in reversed(part)}
        return [turned(item) for item in part] if isinstance(part, list) else part

    spaced = json.dumps(turned(value), indent=3).encode()
    assert canonical_json(parse_json(spaced)) == canonical_json(value)


@given(any_values, any_values)
def test_different_values_have_different_forms(left, right):
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    if same or canonical_json(left) == canonical_json(right):
        assert from_canonical(canonical_json(left)) == from_canonical(canonical_json(right))


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e-7, "1e-7"),
        (1e-6, "0.000001"),
        (0.00001, "0.00001"),
        (1.5e-5, "0.000015"),
        (1e16, "10000000000000000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.25e300, "1.25e+300"),
        (-123.5, "-123.5"),
        (1.5, "1.5"),
        (0.5, "0.5"),
        (0.015, "0.015"),
        (123456789012345680000.0, "123456789012345680000"),
        (333333333.33333329, "333333333.3333333"),
        (5e-324, "5e-324"),
        (True, "true"),
        (SAFE, "9007199254740991"),
        (-SAFE, "-9007199254740991"),
        (2**53, '"⟦int⟧9007199254740992"'),
        (-(2**70), '"⟦int⟧-1180591620717411303424"'),
        ("⟦int⟧1", '"⟦text⟧⟦int⟧1"'),
        ("⟦text⟧", '"⟦text⟧⟦text⟧"'),
        ("see ⟦int⟧1", '"see ⟦int⟧1"'),
        ('\x00\x1f\x7f\u2028/"\\', '"\\u0000\\u001f\x7f\u2028/\\"\\\\"'),
        ({"\ufb33": 1, "😀": 2, "€": 3}, '{"€":3,"😀":2,"\ufb33":1}'),
        ((1, [2]), "[1,[2]]"),
        ([], "[]"),
        ({"a": {}, "": 1}, '{"":1,"a":{}}'),
    ],
)
def test_forms(value, form):
    assert canonical_json(value).decode() == form
    assert exact_json(value).decode() == form


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        [None, math.inf],
        {"a": [-math.inf]},
        "\ud83d",
        {"\udc00": 1},
        {1: 2},
        {"a": {None: 1}},
        {"x": b"bytes"},
        {"x": {1, 2}},
        {"x": object},
    ],
    ids=repr,
)
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(CanonicalError):
        canonical_json(value)


def test_types_that_only_the_fast_encoder_knows_are_refused():
    from datetime import UTC, datetime
    from enum import Enum
    from uuid import UUID

    for value in (datetime.now(UTC), UUID(int=1), Enum("Colour", "RED").RED):
        with pytest.raises(CanonicalError):
            canonical_json([value])


def test_a_cycle_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(CanonicalError):
        canonical_json(loop)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 2000, 100_000])
@pytest.mark.parametrize(("left", "middle", "right"), [("[", "", "]"), ('{"a":', "1", "}"), ('[{"a":', "1", "}]")])
def test_deep_nesting_is_a_canonical_error(depth, left, middle, right):
    text = (left * depth + middle + right * depth).encode()
    with pytest.raises(CanonicalError, match="nests deeper"):
        parse_json(text)


def test_the_deepest_value_is_read_and_written_by_both_encoders():
    value = parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert fast_json(value) == exact_json(value)
    with pytest.raises(CanonicalError):
        canonical_json([value])


@pytest.mark.parametrize(
    "text",
    [b'{"a":1,"a":1}', b'[{"x":{"b":1,"c":2,"b":3}}]', b'{"a":1,"\\u0061":2}'],
)
def test_repeated_keys_are_refused_by_name(text):
    with pytest.raises(CanonicalError, match="twice"):
        parse_json(text)


@pytest.mark.parametrize(
    "text", [b"", b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b'"\xff"', b"{'a':1}", b"[1,]", b"\xef\xbb\xbf{}"]
)
def test_what_is_not_json_is_refused(text):
    with pytest.raises(CanonicalError):
        parse_json(text)


def test_integers_are_read_exactly():
    assert parse_json(b"[9007199254740993,123456789012345678901234567890]") == [
        9007199254740993,
        123456789012345678901234567890,
    ]


def test_a_tag_without_an_integer_is_not_canonical():
    with pytest.raises(CanonicalError):
        from_canonical('"⟦int⟧seven"'.encode())


def test_content_hash_is_plain_sha256():
    assert content_hash(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_c014_values_that_databases_and_browsers_cannot_carry():
    text = rb'{"tool_output":"col1\u0000col2","id":9007199254740993,"ratio":0.1,"deep":"%b"}' % (b"[" * 2000)
    value = parse_json(text)
    form = canonical_json(value)
    assert b"\x00" not in form
    assert from_canonical(form) == value == json.loads(text)
    assert from_canonical(form)["id"] == 9007199254740993
    with pytest.raises(CanonicalError, match="surrogate"):
        canonical_json(parse_json(rb'{"partial_emoji":"\ud83d"}'))
