"""Tool keys tell apart what a tool can tell apart."""

import dataclasses
import enum
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from uuid import UUID

import pydantic
import pytest

from harness.canonical import tool_key
from harness.errors import CanonicalError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Word(enum.StrEnum):
    A = "a"


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Order(pydantic.BaseModel):
    when: date
    total: Decimal


def key(value, version="1"):
    return tool_key("t", version, {"x": value})


def test_name_version_and_arguments_count():
    made = {tool_key(name, version, {"x": x}) for name in ("a", "b") for version in (None, "", "1") for x in (1, 2)}
    assert len(made) == 12
    assert all(text.startswith("v1:") and len(text) == 67 for text in made)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (1, 1.0),
        ((1, 2), [1, 2]),
        ({0, 8}, {8, 0}),  # Both hash to one slot, so that they are listed as they were put in.
        (frozenset("ab"), {"b", "a"}),
        ({1: "a", "1": "b"}, {"1": "b", 1: "a"}),
        (PurePosixPath("a/b"), Path("a/b")),
        (Word.A, "a"),
        (Point(1, 2), Point(1, 2)),
        (Order(when=date(2026, 1, 1), total="1"), Order(total=Decimal(1), when="2026-01-01")),
        (b"x", bytearray(b"x")),
        (math.nan, -math.nan),
    ],
)
def test_equal(left, right):
    assert key(left) == key(right)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (0, None),
        (1, "1"),
        ({1: 0}, {"1": 0}),
        ([1, 2], {1, 2}),
        (b"x", "x"),
        (NOON, NOON.isoformat()),
        (NOON, NOON.replace(tzinfo=None)),
        (NOON, NOON.astimezone(timezone(timedelta(hours=1)))),
        (date(2026, 1, 1), datetime(2026, 1, 1)),  # noqa: DTZ001 - a naive time is a value like any other here
        (timedelta(days=1), timedelta(seconds=1)),
        (timedelta(microseconds=1), timedelta(0)),
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal(1), 1),
        (UUID(int=1), str(UUID(int=1))),
        (Path("a"), "a"),
        (Colour.RED, Colour.BLUE),
        (Colour.RED, "red"),
        (Point(1, 2), {"x": 1, "y": 2}),
        (math.nan, "nan"),
        (math.inf, -math.inf),
        (math.nan, None),
        (2**53, 2**53 + 1),
        ({"⟦set⟧": ["a"]}, {"a"}),
    ],
)
def test_different(left, right):
    assert key(left) != key(right)


@pytest.mark.parametrize(
    "value", [object(), lambda: 1, {"deep": [object()]}, 1j], ids=["object", "function", "deep", "complex"]
)
def test_what_cannot_be_serialised_is_not_cached(value):
    with pytest.raises(CanonicalError, match="cannot be cached"):
        key(value)


def test_a_cycle_is_not_cached():
    loop: list = []
    loop.append(loop)
    with pytest.raises(CanonicalError):
        key(loop)
