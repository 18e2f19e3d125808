"""Places of differences: JSON paths that name one place each, and lists that are aligned."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.pipeline import step, workflow
from harness.replay import live_run, value_changes


def places(before, after):
    return [(one.path, one.kind) for one in value_changes(before, after)]


def test_a_key_that_is_no_plain_name_is_quoted():
    assert places({"a.b": 1, "a": {"b": 1}}, {"a.b": 2, "a": {"b": 2}}) == [("$['a.b']", "value"), ("$.a.b", "value")]


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("name", "$.name"),
        ("größe_2", "$.größe_2"),
        ("", "$['']"),
        ("2nd", "$['2nd']"),
        ("it's", r"$['it\'s']"),
        ('say "hi"', """$['say "hi"']"""),
        ("a\\b\n", r"$['a\\b\n']"),
        ("a b", "$['a b']"),
        ("x\n", r"$['x\n']"),
    ],
)
def test_paths_follow_the_standard(key, path):
    assert places({key: 1}, {}) == [(path, "removed")]


def test_a_changed_argument_is_named_the_same_way():
    @step
    def fill(box):
        box["a.b"] = 1

    @workflow("filling")
    def run(n):
        fill({})

    (found,) = live_run(run, {"n": 1}).mutations
    assert found.path == "$['a.b']"


def test_an_item_put_in_front_is_one_place():
    assert places(list(range(100)), [-1, *range(100)]) == [("$[0]", "added")]
    assert places(list(range(100)), list(range(1, 100))) == [("$[0]", "removed")]


def test_items_that_changed_are_looked_into():
    before = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "c"}]
    after = [{"id": 0, "text": "z"}, {"id": 1, "text": "a"}, {"id": 2, "text": "B"}, {"id": 3, "text": "c"}]
    assert places(before, after) == [("$[0]", "added"), ("$[2].text", "text")]


def test_long_lists_without_equal_ends_are_compared_place_by_place():
    before, after = [[n] for n in range(700)], [[n] for n in range(1, 701)]
    assert len(places([["x"], *before], [*after, ["y"]])) == 701


ITEMS = st.lists(st.integers(0, 3) | st.lists(st.integers(0, 2), max_size=2), max_size=8)


@settings(max_examples=200, deadline=None)
@given(ITEMS, ITEMS)
def test_what_is_told_leads_from_one_list_to_the_other(before, after):
    changes = list(value_changes(before, after))
    assert (changes == []) == (before == after)
    top = [(one.kind, int(one.path[2:-1])) for one in changes if one.path.count("[") == 1]
    added = [at for kind, at in top if kind == "added"]
    removed = [at for kind, at in top if kind == "removed"]
    kept = [item for at, item in enumerate(before) if at not in removed]
    assert len(kept) + len(added) == len(after)
    touched = {
        int(one.path[2:].partition("]")[0]) for one in changes if one.kind != "removed" or one.path.count("[") > 1
    }
    same = [item for at, item in enumerate(after) if at not in touched]
    left = iter(kept)
    assert all(any(item == other for other in left) for item in same)
