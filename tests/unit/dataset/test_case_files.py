"""Case files: strict, diff-friendly, and named so that no path can hide in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.dataset import Case, EvaluatorSpec, Gate, GoldenDataset, RecordingRef, case_schema
from harness.dataset._case import read_case, write_case
from harness.errors import DatasetError, DatasetMissing

HOSTILE = [
    "../x",
    "a/b",
    "a\\b",
    "..",
    ".hidden",
    "",
    "a" * 101,
    "x.",
    "CON",
    "nul.txt",
    "a..b",
    "a b",
    "é",
    "a\0",
    "a\n",
]


def test_a_case_file_is_sorted_indented_and_ends_with_a_newline(dataset: GoldenDataset) -> None:
    data = (dataset.path / "cases/late.json").read_bytes()
    table = json.loads(data)
    assert data == json.dumps(table, indent=2, sort_keys=True).encode() + b"\n"
    assert table["$schema"] == "../schema/case.v1.json"


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        Case,
        id=st.from_regex(r"\A[a-z][a-z0-9-]{0,20}\Z").filter(lambda name: name not in {"con", "prn", "aux", "nul"}),
        input=st.recursive(st.none() | st.integers() | st.text(), lambda x: st.dictionaries(st.text(), x)),
        tags=st.lists(st.text()).map(tuple),
        recordings=st.builds(RecordingRef, arm=st.text(), trial=st.integers(0), digest=st.just("0" * 64)).map(
            lambda ref: (ref,)
        ),
    )
)
def test_any_case_comes_back_equal(case: Case) -> None:
    assert read_case(write_case(case), "x") == case


def test_a_byte_order_mark_changes_nothing(dataset: GoldenDataset) -> None:
    dataset.snapshot()
    path = dataset.path / "cases/late.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert GoldenDataset.load(dataset.path).verify() == ()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"id": "late", "input": 1, "colour": "red"}', "unknown key 'colour'"),
        (b'{"id": "late", "input": 1, "input": 2}', "'input' occurs twice"),
        (b'{"id": "other", "input": 1}', "named as the id"),
        (b'{"id": "late"}', "input: Field required"),
        (b'{"id": "late", "input": NaN}', "NaN"),
        (b"[1]", "not an object"),
        (b'{"id": "late", "input": ' + b"[" * 100_000, "nested too deeply"),
        ('{"id": "late", "input": 1}'.encode("utf-16"), "UTF-16; save it as UTF-8"),
        ('{"id": "late", "input": "é"}'.encode("cp1252"), "not UTF-8"),
        (
            json.dumps(
                {"id": "late", "input": 1, "recordings": [{"arm": "recorded", "trial": 0, "digest": "../../x"}]}
            ).encode(),
            "digest",
        ),
        (
            json.dumps(
                {"id": "late", "input": 1, "recordings": [{"arm": "a", "trial": 0, "digest": "0" * 64}] * 2}
            ).encode(),
            "two recordings",
        ),
    ],
)
def test_a_malformed_case_is_named(dataset: GoldenDataset, data: bytes, says: str) -> None:
    (dataset.path / "cases/late.json").write_bytes(data)
    with pytest.raises(DatasetError, match=says) as caught:
        _ = GoldenDataset.load(dataset.path).cases
    assert "cases/late.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_id_is_never_a_path(name: str) -> None:
    with pytest.raises(ValidationError, match="is not a name"):
        Case(id=name, input=1)


@pytest.mark.parametrize("name", [*HOSTILE, "absent"])
def test_asking_for_a_hostile_id_finds_nothing(dataset: GoldenDataset, name: str) -> None:
    with pytest.raises(DatasetMissing, match="has no case"):
        dataset.case(name)


def test_ids_that_differ_in_case_only_would_be_one_file_on_some_systems(dataset: GoldenDataset) -> None:
    with pytest.raises(DatasetError, match="'Late' would share its file with 'late'"):
        dataset.put_case(Case(id="Late", input=1))


def test_two_files_with_ids_that_differ_in_case_only_are_a_problem(dataset: GoldenDataset) -> None:
    text = (dataset.path / "cases/late.json").read_text().replace('"id": "late"', '"id": "LATE"')
    (dataset.path / "cases/LATE.json").write_text(text)
    assert "case files 'LATE.json' and 'late.json' are one file on some systems" in dataset.verify()


def test_cases_are_approved_or_staged_and_sorted(dataset: GoldenDataset) -> None:
    for case_id in ("b", "a-new-one", "a"):
        dataset.put_case(Case(id=case_id, input=1))
    for known in (dataset, GoldenDataset.load(dataset.path)):
        assert [case.id for case in known.cases] == ["late", "lost"]
        assert [case.id for case in known.staged] == ["a", "a-new-one", "b"]


def test_a_new_recording_takes_the_place_of_the_same_arm_and_trial(dataset: GoldenDataset) -> None:
    recording = dataset.recording("late")
    assert recording is not None
    dataset.put_recording("late", recording, arm="fork:01", trial=1)
    dataset.put_recording("late", recording, arm="fork:01", trial=1)
    assert [(ref.arm, ref.trial) for ref in dataset.arms("late")] == [("fork:01", 1), ("recorded", 0)]
    assert dataset.recording("late", arm="fork:01", trial=0) is None


def test_the_schema_beside_the_cases_is_current(dataset: GoldenDataset) -> None:
    assert (dataset.path / "schema/case.v1.json").read_bytes() == case_schema()
    for path in Path(__file__).parents[3].glob("datasets/*/schema/case.v1.json"):
        assert path.read_bytes() == case_schema(), f"run `goldfork dataset snapshot {path.parents[1]}`"


def test_the_schema_knows_every_field() -> None:
    schema = json.loads(case_schema())
    assert set(schema["properties"]) == {"$schema", *Case.model_fields}
    assert schema["additionalProperties"] is False


def test_settings_come_from_dataset_toml(dataset: GoldenDataset) -> None:
    (dataset.path / "dataset.toml").write_text(
        """
name = "triage"
target = "app:run"
trials = 3
[gate]
scorers = ["category"]
[gate.thresholds]
"category.f1_macro" = 0.8
[margins]
category = 0.05
[prices.m]
input = "0.5"
output = 2
[[evaluators]]
name = "category"
use = "classification"
[evaluators.options]
field = "category"
[provenance]
source = "support desk"
""",
        encoding="utf-8",
    )
    loaded = GoldenDataset.load(dataset.path)
    assert (loaded.target, loaded.trials, loaded.margins) == ("app:run", 3, {"category": 0.05})
    assert loaded.gate == Gate(scorers=["category"], thresholds={"category.f1_macro": 0.8}, min_measured=0.9)
    assert loaded.evaluators == (EvaluatorSpec(name="category", use="classification", options={"field": "category"}),)
    assert str(loaded.prices["m"].input) == "0.5"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = 'x'\ngates = 1\n", "unknown key 'gates'"),
        ("name = 'x'\n[gate]\nscorer = []\n", "unknown key 'gate.scorer'"),
        ("name = '../x'\n", "is not a name"),
        ("name = 'x'\nformat = 2\n", "upgrade goldfork"),
        ("name = \n", "not TOML"),
        ("name = 'x'\n" + "[[evaluators]]\nname = 'a'\nuse = 'text'\n" * 2, "two evaluators are named 'a'"),
    ],
)
def test_a_malformed_dataset_toml_is_one_sentence(dataset: GoldenDataset, text: str, says: str) -> None:
    (dataset.path / "dataset.toml").write_text(text, encoding="utf-8")
    with pytest.raises(DatasetError, match=says) as caught:
        GoldenDataset.load(dataset.path)
    assert "\n" not in str(caught.value)


def test_a_baseline_is_kept_as_written(dataset: GoldenDataset) -> None:
    assert dataset.read_baseline() is None
    dataset.write_baseline({"cases": {"late": {"0": {"score": 0.5}}}})
    assert dataset.read_baseline() == {"cases": {"late": {"0": {"score": 0.5}}}}
