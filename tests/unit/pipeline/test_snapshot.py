import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from harness.pipeline import NotReusable, plain, register_codec, restore, snapshot
from harness.pipeline._codec import TAG
from harness.pipeline._snapshot import output_snapshot

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.datetimes(timezones=st.just(UTC))
)
hashable = st.integers() | st.text(alphabet=st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.frozensets(hashable, max_size=4)
        | st.sets(hashable, max_size=4)
    ),
    max_leaves=12,
)


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: tuple[int, ...]


class Ticket(BaseModel):
    id: int
    tags: list[str]
    due: date | None = None


class Opaque:
    pass


class Loose:
    """Equal to nothing but itself."""


@settings(deadline=None)
@given(values)
def test_a_value_comes_back_equal_and_of_the_same_type(value):
    taken = snapshot(value)
    again = restore(taken.data)
    assert type(again) is type(value)
    assert again == value
    assert snapshot(again).hash == taken.hash


@settings(deadline=None)
@given(st.dictionaries(st.text(alphabet="abc", max_size=3), st.integers(), max_size=5))
def test_the_order_in_which_a_dict_was_built_does_not_count(value):
    assert snapshot(dict(reversed(value.items()))).hash == snapshot(value).hash


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Point(1, (2, 3)),
        Ticket(id=1, tags=["a"], due=date(2026, 1, 2)),
        Path("/a/b"),
        {"nested": [Point(1, ())]},
        {TAG: "not a tag of ours", "v": 1},
        {1: "int key", "1": "text key"},
        float("inf"),
        -0.0,
        2**70,
    ],
)
def test_types_of_the_application_come_back(value):
    again = restore(snapshot(value).data)
    assert again == value
    assert type(again) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, again) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (True, 1),
        ([1], (1,)),
        ("1", 1),
        ({1}, frozenset({1})),
        (b"a", "a"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        (Decimal("1.0"), Decimal("1.00")),
        (time(1), timedelta(hours=1)),
        (UUID(int=1), str(UUID(int=1))),
        (None, "null"),
        ({"a": 1}, {"a": 2}),
    ],
)
def test_different_values_have_different_hashes(left, right):
    assert snapshot(left).hash != snapshot(right).hash


def test_what_cannot_be_serialised_has_no_snapshot():
    assert snapshot(Opaque()) is None
    assert snapshot({"deep": [Opaque()]}) is None
    assert snapshot("\ud83d") is None


def test_nesting_without_end_has_no_snapshot():
    loop = []
    loop.append(loop)
    assert snapshot(loop) is None


def test_an_output_that_decodes_to_something_else_says_so():
    @dataclass
    class Local:
        x: int

    taken = output_snapshot(Local(1))
    with pytest.raises(NotReusable):
        restore(taken.data)
    assert plain(taken.data) == {"x": 1}


def test_a_type_that_is_not_imported_is_not_imported_for_us():
    taken = snapshot(Point(1, ()))
    hostile = taken.data.replace(Point.__module__.encode(), b"antigravity")
    with pytest.raises(NotReusable, match="not imported"):
        restore(hostile)


def test_a_registered_codec_serves_a_foreign_type():
    class Money:
        def __init__(self, cents):
            self.cents = cents

        def __eq__(self, other):
            return self.cents == other.cents

        __hash__ = None

    register_codec(Money, name="money", encode=lambda m: m.cents, decode=Money)
    assert restore(output_snapshot(Money(5)).data) == Money(5)


def test_plain_drops_the_tags():
    value = {"t": (1, 2.0), "d": Decimal("1.5"), "p": Point(1, (2,)), "k": {3: "x"}}
    assert plain(snapshot(value).data) == {"t": [1, 2.0], "d": "1.5", "p": {"x": 1, "y": [2]}, "k": {"3": "x"}}
