"""Nothing of a value is lost in its snapshot, and nothing that its class does reaches the run."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from enum import Flag, IntFlag
from functools import cached_property
from pathlib import PurePosixPath, PureWindowsPath
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from harness.pipeline import NotReusable, plain, register_codec, restore, snapshot
from harness.pipeline._snapshot import output_snapshot

BERLIN = ZoneInfo("Europe/Berlin")


class Right(Flag):
    READ = 1
    WRITE = 2


class Bits(IntFlag):
    A = 1


@dataclass
class Agent:
    name: str
    memory: list[str] = field(default_factory=list, init=False)

    @cached_property
    def size(self):
        return object()


@dataclass(frozen=True)
class Frozen:
    a: int
    twice: int = field(init=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "twice", self.a * 2)


@dataclass
class Refusing:
    a: int

    def __post_init__(self):
        assert self.a < 5


@dataclass
class Stack(list):
    """A dataclass whose content is not in its fields."""

    name: str = ""


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0
    b: int | None = None


class Private(BaseModel):
    named: int = Field(alias="n")
    _seen: list[str] = PrivateAttr(default_factory=list)


def agent(*memory, **attributes):
    made = Agent("x")
    made.memory = list(memory)
    vars(made).update(attributes)
    return made


def private(*seen):
    made = Private(n=1)
    made._seen = list(seen)
    return made


def frozen(twice):
    made = Frozen(1)
    object.__setattr__(made, "twice", twice)
    return made


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (agent("one"), agent("two")),
        (agent(), agent(mood="good")),
        (frozen(2), frozen(3)),
        (Open(a=1, c="one"), Open(a=1, c="two")),
        (Open(a=1), Open(a=1, b=None)),
        (private("a"), private("b")),
        (Right.READ | Right.WRITE, Right.READ),
        (datetime(2026, 3, 29, tzinfo=BERLIN), datetime.fromisoformat("2026-03-29T00:00:00+01:00")),
        (time(1, tzinfo=BERLIN), time(1)),
        (PureWindowsPath("a"), PurePosixPath("a")),
    ],
)
def test_values_that_differ_anywhere_have_different_snapshots_and_come_back(left, right):
    assert snapshot(left).hash != snapshot(right).hash
    for value in (left, right):
        again = restore(output_snapshot(value).data)
        assert type(again) is type(value)
        assert again == value
        assert snapshot(again).data == snapshot(value).data


def test_what_a_model_was_not_given_is_left_out_again():
    again = restore(snapshot(Open(a=1)).data)
    assert again.model_dump(exclude_unset=True) == {"a": 1}


def test_a_cache_is_not_part_of_a_value():
    made = agent("one")
    before = snapshot(made)
    assert made.size
    assert snapshot(made) == before


@pytest.mark.parametrize("value", [Right.READ | Right.WRITE, Right(0), Bits(1), Bits(9)])
def test_combinations_of_flags_come_back(value):
    assert restore(output_snapshot(value).data) is value


def test_a_model_made_without_validation_comes_back_as_it_was():
    value = Open.model_construct(a="no number")
    del value.b
    again = restore(output_snapshot(value).data)
    assert vars(again) == {"a": "no number"}


def test_a_dataclass_that_is_a_container_has_no_snapshot():
    stack = Stack("x")
    stack.append(1)
    assert snapshot(stack) is None


class Angry:
    def __init__(self, where):
        self.where = where

    def __eq__(self, other):
        if self.where == "eq":
            raise ZeroDivisionError
        return True

    __hash__ = None


def refuse(where):
    if where in {"encode", "decode"}:
        raise LookupError(where)
    return Angry(where)


register_codec(
    Angry, name="angry", encode=lambda a: a.where if a.where != "encode" else refuse("encode"), decode=refuse
)


def test_whatever_a_class_raises_stays_in_the_snapshot():
    assert snapshot(Angry("encode")) is None
    for value in (Angry("decode"), Angry("eq"), broken()):
        taken = output_snapshot(value)
        with pytest.raises(NotReusable):
            restore(taken.data)


def broken():
    made = Refusing(1)
    made.a = 9
    return made


def test_a_deleted_field_means_no_snapshot():
    made = Refusing(1)
    del made.a
    assert snapshot(made) is None


def test_hostile_snapshots_set_nothing_that_is_no_field():
    data = json.loads(snapshot(agent(mood=1)).data)
    data["state"] = {"__class__": "x"}
    with pytest.raises(NotReusable, match="no field"):
        restore(json.dumps(data).encode())
    data = json.loads(snapshot(Open(a=1)).data)
    data["private"] = {"_other": 1}
    with pytest.raises(NotReusable, match="no field"):
        restore(json.dumps(data).encode())


def test_plain_shows_extra_and_derived_fields():
    assert plain(snapshot(Open(a=1, c=2)).data) == {"a": 1, "b": None, "c": 2}
    assert plain(snapshot(agent("m")).data) == {"name": "x", "memory": ["m"]}


keys = st.text(alphabet="abé\U0001f600\uffee", max_size=2) | st.integers(0, 3)
trees = st.recursive(
    st.integers(),
    lambda inner: st.dictionaries(keys, inner, max_size=4) | st.lists(inner, max_size=2) | st.tuples(inner),
    max_leaves=10,
)


def items(value):
    """A value with dicts as lists of pairs, so that equality depends on their order."""
    if isinstance(value, dict):
        return [(key, items(item)) for key, item in value.items()]
    return [items(item) for item in value] if isinstance(value, list | tuple) else value


def shuffled(value):
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    return type(value)(map(shuffled, value)) if isinstance(value, list | tuple) else value


@given(trees)
def test_the_ordered_form_has_every_dict_in_its_order(value):
    taken = snapshot(value)
    again = restore(taken.order or taken.data)
    assert again == value
    assert items(again) == items(value)
    assert snapshot(shuffled(value)).hash == taken.hash
    assert plain(taken.order or taken.data) == plain(taken.data)


def test_sorted_values_have_no_ordered_form():
    assert snapshot({"a": [{"b": 1, "c": 2}], "d": UTC.utcoffset(None)}).order is None
    assert snapshot({"b": 1, "a": 2}).order is not None
    assert snapshot({"b": 1, "a": 2}, ordered=False).order is None
