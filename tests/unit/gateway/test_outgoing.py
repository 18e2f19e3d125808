"""Rewriting one top-level field and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.gateway._rewrite import rewritten
from harness.session import Change

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def put(raw, name, value, add=True):
    return rewritten(raw, Change(kind="param", at="x", name=name, value=value), generates=add)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.text(), JSON, st.sampled_from([None, 2]), st.booleans())
def test_setting_a_field_changes_that_field_only(body, name, value, indent, ascii_only):
    raw = json.dumps(body, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        raw.decode()
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        return
    made = put(raw, name, value)
    assert made is not None
    assert json.loads(made) == {**body, name: value}
    if name not in body and body:
        assert made.startswith(raw.rstrip(b"}\n "))


def test_other_bytes_are_kept():
    raw = b'{ "a":1.0, "temperature" : 1,"b":[1,{"temperature":3}] }'
    assert put(raw, "temperature", 0.5) == raw.replace(b": 1,", b": 0.5,")


@pytest.mark.parametrize("raw", [b"[1]", b"", b"{", b'{"a"}', b"\xff", b"nonsense"])
def test_what_is_no_object_is_left_alone(raw):
    assert put(raw, "a", 1) is None


def test_a_parameter_is_added_only_where_the_endpoint_takes_it():
    assert put(b'{"input":"a"}', "temperature", 0, add=False) is None
    assert put(b'{"model":"m"}', "model", "n", add=False) == b'{"model":"n"}'
