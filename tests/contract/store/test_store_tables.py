"""The tables that evaluation writes through ``save`` and reads through ``load``."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from harness.errors import UsageError


def test_rows_come_back_with_what_has_no_column(store):
    started = datetime(2026, 11, 30, tzinfo=UTC)
    store.save(
        "experiments",
        [
            {
                "id": "e1",
                "dataset": "triage",
                "budget": Decimal("2.50"),
                "started_at": started,
                "options": {"k": [1, 2**70]},
            }
        ],
    )
    [row] = store.load("experiments", dataset="triage")
    assert (row["id"], row["budget"], row["started_at"]) == ("e1", Decimal("2.50"), started)
    assert row["options"] == {"k": [1, 2**70]}
    assert row["verdict"] is None


def test_a_second_save_changes_only_what_it_names(store):
    store.save("trials", [{"experiment": "e", "case": "c", "trial": 1, "status": "ok", "run_id": "r", "note": "x"}])
    before = store.load("trials")
    store.save("trials", [{"experiment": "e", "case": "c", "trial": 1, "equal": True}])
    assert store.load("trials") == [{**before[0], "equal": True}]


def test_rows_are_ordered_by_key_and_filtered_by_columns(store):
    store.save("scores", [{"experiment": "e", "case": c, "name": n, "value": 0.5} for c in "ba" for n in ("y", "x")])
    assert [(row["case"], row["name"]) for row in store.load("scores")] == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("b", "y"),
    ]
    assert len(store.load("scores", case="a", name="y")) == 1
    assert store.load("scores", reason=None, case="b")[0]["value"] == 0.5


def test_values_keep_their_kind(store):
    values = [True, 1, 0.1, "label", None, {"a": [1]}]
    store.save("scores", [{"experiment": "e", "name": f"n{n}", "value": value} for n, value in enumerate(values)])
    assert [row["value"] for row in store.load("scores")] == values


def test_a_key_is_claimed_once(store):
    assert store.claim("leases", {"name": "nightly", "owner": "a"})
    assert not store.claim("leases", {"name": "nightly", "owner": "b"})
    assert [row["owner"] for row in store.load("leases")] == ["a"]


@pytest.mark.parametrize(
    ("table", "row", "match"),
    [
        ("nothing", {}, "no table 'nothing'"),
        ("messages", {"id": "x"}, r"Store\.write"),
        ("experiments", {"dataset": "d"}, "lacks 'id'"),
        ("reservations", {"id": "r", "amount": "much"}, "amount of money"),
        ("tool_cache", {"key": "k", "output_hash": "short"}, "SHA-256"),
    ],
)
def test_what_cannot_be_saved_is_explained(store, table, row, match):
    with pytest.raises(UsageError, match=match):
        store.save(table, [row])


def test_an_unknown_column_to_filter_by_is_named(store):
    with pytest.raises(UsageError, match="no column 'colour'"):
        store.load("scores", colour="red")
