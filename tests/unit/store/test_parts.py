"""Splitting request bodies and joining them byte for byte."""

import hashlib
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.record import join_body, layout_parts, split_body

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
_ITEM = st.dictionaries(st.sampled_from(["role", "content", "type", "tool_calls", "ü"]), _JSON, max_size=4)
_BODY = st.fixed_dictionaries(
    {"messages": st.lists(_ITEM, min_size=1, max_size=6)},
    optional={
        "tools": st.lists(_ITEM | st.text(min_size=250, max_size=300), max_size=4),
        "input": st.lists(_ITEM, max_size=3) | st.text(max_size=300),
        "instructions": st.text(max_size=300),
        "temperature": st.floats(allow_nan=False),
        "metadata": _JSON,
    },
).flatmap(lambda body: st.permutations(list(body.items())).map(dict))
_STYLES = st.sampled_from(
    [
        {"separators": (",", ":")},
        {},
        {"indent": 2},
        {"ensure_ascii": False},
        {"indent": "\t", "separators": (" , ", " : ")},
    ]
)
_some = settings(max_examples=60, deadline=None)


def _joined(found):
    parts = {hashlib.sha256(part).hexdigest(): part for part in found.parts}
    assert set(layout_parts(found.layout)) == set(parts)
    return join_body(found.layout, found.growing, parts.__getitem__)


def _encoded(body, style):
    return json.dumps(body, **style).encode("utf-8", "surrogatepass")


@_some
@given(_BODY, _STYLES)
def test_joining_gives_the_identical_bytes(body, style):
    data = _encoded(body, style)
    found = split_body(data)
    assert _joined(found) == data
    lists = [value for value in body.values() if isinstance(value, list)]
    assert len(found.growing) in {len(value) for value in lists}


@_some
@given(
    st.binary(max_size=200)
    | (_JSON | _BODY.map(lambda body: {"a": body, "b": 1})).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_split_right_or_not_at_all(data):
    found = split_body(data)
    assert found is None or _joined(found) == data


@pytest.mark.parametrize("style", [{"separators": (",", ":")}, {}, {"indent": 2}])
def test_turns_of_a_conversation_share_all_but_what_is_new(style):
    tools = [{"type": "function", "function": {"name": f"f{n}", "description": "what it does " * 30}} for n in range(3)]
    messages = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "zweite Grüße"}]
    first = split_body(_encoded({"model": "m", "messages": messages, "tools": tools}, style))
    messages += [{"role": "user", "content": "third"}]
    second = split_body(_encoded({"model": "m", "messages": messages, "tools": tools}, style))
    assert first.layout == second.layout
    assert first.parts == second.parts
    assert len(first.parts) == 3
    assert second.growing[:2] == first.growing


@_some
@given(_BODY, _STYLES, st.lists(_ITEM, max_size=3))
def test_a_turn_that_follows_another_is_split_alike(body, style, more):
    # A list that makes up most of the first turn only would be taken for the growing one there.
    assume(len(_encoded(body.get("metadata"), style)) <= 150)
    longer = {**body, "messages": body["messages"] + more}
    whole = split_body(_encoded(longer, style))
    resumed = split_body(_encoded(longer, style), split_body(_encoded(body, style)).prefix)
    assert (resumed.layout, resumed.prefix) == (whole.layout, whole.prefix)
    assert set(resumed.parts) == set(whole.parts)
    assert whole.growing[len(whole.growing) - len(resumed.growing) :] == resumed.growing


def test_a_turn_that_follows_another_is_looked_at_from_there_on():
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "seed": 1}
    first = split_body(_encoded(body, {}))
    assert first.prefix.depth == 1
    body["messages"] = body["messages"] + [{"role": "assistant", "content": "hi"}]
    second = split_body(_encoded(body, {}), first.prefix)
    assert second.resumed
    assert second.growing == (b' {"role": "assistant", "content": "hi"}',)
    other = split_body(_encoded({**body, "model": "n"}, {}), first.prefix)
    assert not other.resumed
    assert len(other.growing) == 2


@pytest.mark.parametrize(
    "wrap",
    [lambda turns: turns, lambda turns: {"a": 1, "state": {"history": turns, "n": 2}, "z": [3]}],
    ids=["list", "nested"],
)
def test_a_snapshot_shares_the_list_that_makes_up_most_of_it(wrap):
    turns = [{"role": "user", "content": f"turn {number} " * 40} for number in range(6)]
    first = split_body(_encoded(wrap(turns[:5]), {}))
    second = split_body(_encoded(wrap(turns), {}), first.prefix)
    whole = split_body(_encoded(wrap(turns), {}))
    assert _joined(whole) == _encoded(wrap(turns), {})
    assert (len(first.growing), len(second.growing), len(whole.growing)) == (5, 1, 6)
    assert (second.layout, second.prefix) == (whole.layout, whole.prefix)
    assert first.layout == whole.layout


def test_another_parameter_leaves_the_elements_shared():
    body = {"input": [{"role": "user", "content": "hello"}], "instructions": "be brief " * 50, "seed": 1}
    first, second = split_body(_encoded(body, {})), split_body(_encoded({**body, "seed": 2}, {}))
    assert first.layout != second.layout
    assert (first.parts, first.growing) == (second.parts, second.growing)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"messages":[]}',
        b'{"messages":["text","only"]}',
        b'["text","only"]',
        b'{"messages":[{"a":1},]}',
        b'{"messages":[{"a":1}]',
        b'{"messages":[{"a":1} {"b":2}]}',
        b'\xff{"messages":[{"a":1}]}',
        b'{"model":"m","stream":true}',
    ],
)
def test_what_cannot_be_split_is_left_whole(data):
    assert split_body(data) is None


def test_a_repeated_list_and_trailing_bytes_survive():
    data = b' {"messages" : [ {"a":1} , {"b":2}\n], "messages":[{"c":3}]} \n'
    assert _joined(split_body(data)) == data


def test_a_damaged_layout_is_an_error_not_a_body():
    found = split_body(b'{"messages":[{"a":1}],"model":"m"}')
    for damaged in (b"", b"\x02" + found.layout[1:], found.layout[:-1], found.layout[:1] + b"\x07\x00\x00\x00\x00"):
        with pytest.raises(ValueError, match="layout"):
            join_body(damaged, found.growing, {}.__getitem__)
