"""Versions: frozen once, verified always, and every edit named."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

from harness.dataset import Case, GoldenDataset, check, diff, freeze
from harness.errors import DatasetEdited, DatasetError

DAY = date(2026, 11, 30)


@pytest.fixture
def frozen(dataset: GoldenDataset) -> GoldenDataset:
    dataset.snapshot(note="first")
    return dataset


def recording_of(dataset: GoldenDataset, case_id: str) -> Path:
    return dataset.path / f"recordings/{dataset.arms(case_id)[0].digest}.jsonl"


def without_message(path: Path) -> None:
    """Delete the first message line."""
    lines = path.read_bytes().split(b"\n")
    index = next(n for n, line in enumerate(lines) if b'"record":"message"' in line)
    path.write_bytes(b"\n".join(lines[:index] + lines[index + 1 :]))


def test_a_frozen_dataset_is_intact(frozen: GoldenDataset) -> None:
    assert (frozen.version, frozen.verify()) == (1, ())
    frozen.require_verified()
    assert len(frozen.digest) == 64


def test_the_same_content_has_the_same_digest_anywhere(frozen: GoldenDataset, tmp_path: Path) -> None:
    other = GoldenDataset.create(tmp_path / "copy" / "triage", target="app.pipeline:triage")
    for case in frozen.cases:
        other.put_case(case)
        recording = frozen.recording(case.id)
        assert recording is not None
        other.put_recording(case.id, recording)
    other.snapshot()
    assert other.digest == frozen.digest


def test_nothing_changed_makes_no_version(frozen: GoldenDataset) -> None:
    before = {path: path.read_bytes() for path in frozen.path.rglob("*") if path.is_file()}
    assert freeze(frozen).created is False
    assert frozen.version == 1
    assert {path: path.read_bytes() for path in frozen.path.rglob("*") if path.is_file()} == before


def test_staged_cases_stay_outside_until_approved(frozen: GoldenDataset) -> None:
    frozen.put_case(Case(id="new", input={}))
    assert frozen.verify() == ()
    assert check(frozen).notes[0] == "1 staged, waiting for approval: new"
    assert frozen.snapshot() == 1
    assert frozen.snapshot(approve="bob") == 2
    assert frozen.case("new").approver == "bob"
    assert frozen.case("late").approver == "ann"


def test_a_dataset_without_approved_case_is_not_frozen(tmp_path: Path) -> None:
    made = GoldenDataset.create(tmp_path / "empty", target="a:b")
    made.put_case(Case(id="new", input={}))
    with pytest.raises(DatasetError, match="no approved case"):
        made.snapshot()


def test_comments_and_order_of_dataset_toml_stay(frozen: GoldenDataset) -> None:
    path = frozen.path / "dataset.toml"
    text = path.read_text().replace("trials = 1", "# keep me\ntrials = 2  # and me")
    path.write_text(text.replace("[margins]\n", "[margins]\ncategory = 0.1\n"))
    frozen.reload()
    freeze(frozen, note='with "quotes", a \\ and \x7f', today=DAY)
    after = path.read_text()
    assert "# keep me\ntrials = 2  # and me" in after
    assert tomllib.loads(after)["history"][1]["note"] == 'with "quotes", a \\ and \x7f'
    assert after.count("\nversion = 2\n") == 2
    assert (frozen.version, frozen.trials, frozen.verify()) == (2, 2, ())


@pytest.mark.parametrize("layout", ["history = []", "'version' = 0", 'description = """\nversion = 9\n"""'])
def test_a_layout_that_cannot_be_edited_safely_is_left_alone(dataset: GoldenDataset, layout: str) -> None:
    path = dataset.path / "dataset.toml"
    text = f"name = 'triage'\n{layout}\n"
    path.write_text(text)
    with pytest.raises(DatasetError, match=r"dataset\.toml cannot be edited"):
        dataset.snapshot()
    assert path.read_text() == text


def test_text_that_looks_like_a_table_is_not_edited(dataset: GoldenDataset) -> None:
    path = dataset.path / "dataset.toml"
    path.write_text('name = "triage"\nversion = 0\ndescription = """\n[gate]\ndigest = 1\n"""\n')
    dataset.snapshot()
    assert dataset.manifest.description == "[gate]\ndigest = 1\n"
    assert dataset.verify() == ()


def test_an_edited_case_is_named(frozen: GoldenDataset) -> None:
    path = frozen.path / "cases/late.json"
    path.write_text(path.read_text().replace('"split": "test"', '"split": "dev"'))
    frozen.reload()
    assert frozen.verify() == ("case 'late' was changed since version 1 and belongs to no version",)
    with pytest.raises(DatasetEdited, match=r"'late' was changed.*goldfork dataset snapshot"):
        frozen.require_verified()
    assert frozen.snapshot() == 2
    assert frozen.verify() == ()


def test_an_edited_setting_is_named(frozen: GoldenDataset) -> None:
    path = frozen.path / "dataset.toml"
    path.write_text(path.read_text().replace("trials = 1", "trials = 9"))
    frozen.reload()
    assert frozen.verify() == ("dataset.toml was changed since version 1 and belongs to no version",)


def test_added_and_removed_cases_are_named(frozen: GoldenDataset) -> None:
    frozen.put_case(Case(id="new", input={}, approver="ann"))
    (frozen.path / "cases/lost.json").unlink()
    problems = "\n".join(GoldenDataset.load(frozen.path).verify())
    assert "case 'new' was added since version 1" in problems
    assert "case 'lost' was removed" in problems
    assert "belongs to no case" in problems


def test_an_edited_list_of_contents_does_not_hide_an_edit(frozen: GoldenDataset) -> None:
    path = frozen.path / "cases/late.json"
    path.write_text(path.read_text().replace('"split": "test"', '"split": "dev"'))
    listing = frozen.path / "version.json"
    table = json.loads(listing.read_text())
    table["cases"]["late"] = "0" * 64
    listing.write_text(json.dumps(table))
    assert "version.json is missing or edited too" in GoldenDataset.load(frozen.path).verify()[0]


def test_a_hand_edited_version_number_is_named(frozen: GoldenDataset) -> None:
    path = frozen.path / "dataset.toml"
    path.write_text(re.sub(r"(?m)^version = 1$", "version = 7", path.read_text(), count=1))
    frozen.reload()
    assert frozen.verify() == ("dataset.toml says version 7, which is not the last one of its history",)


@pytest.mark.parametrize("suffix", ["jsonl", "part"])
@pytest.mark.parametrize(("edit", "word"), [(True, "was edited"), (False, "missing")])
def test_missing_and_edited_recordings_and_parts_are_named(
    frozen: GoldenDataset, suffix: str, edit: bool, word: str
) -> None:
    path = next(iter(frozen.path.glob(f"recordings/*.{suffix}")))
    if edit:
        path.write_bytes(path.read_bytes() + b"\n")
    else:
        path.unlink()
    assert any(path.stem in problem and word in problem for problem in frozen.verify())


def test_orphan_and_foreign_files_are_named(frozen: GoldenDataset) -> None:
    for name in (f"recordings/{'0' * 64}.jsonl", f"recordings/{'1' * 64}.part", "recordings/notes.txt", "cases/x.yaml"):
        (frozen.path / name).write_text("x")
    problems = frozen.verify()
    assert len(problems) == 4
    assert "cases/x.yaml is not a case file" in problems


def test_a_deleted_message_line_can_be_frozen_and_is_said(frozen: GoldenDataset) -> None:
    path = recording_of(frozen, "lost")
    without_message(path)
    assert any("of case 'lost' was edited" in problem for problem in frozen.verify())
    result = freeze(frozen)
    assert result.version == 2
    assert result.readdressed[0].startswith("recording of case 'lost', arm 'recorded', trial 0 was edited")
    assert frozen.verify() == ()
    lost, late = frozen.recording("lost"), frozen.recording("late")
    assert lost is not None
    assert late is not None
    assert (len(lost.messages), len(late.messages)) == (2, 2)


def test_an_edit_of_a_recording_that_two_cases_share_reaches_both(frozen: GoldenDataset) -> None:
    frozen.put_case(frozen.case("lost").model_copy(update={"id": "lost-too"}))
    without_message(recording_of(frozen, "lost"))
    assert len(freeze(frozen).readdressed) == 2
    assert frozen.verify() == ()
    assert frozen.arms("lost") == frozen.arms("lost-too")


def test_a_recording_that_no_longer_parses_is_not_frozen(frozen: GoldenDataset) -> None:
    path = recording_of(frozen, "lost")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DatasetError, match="is not JSON"):
        freeze(frozen)
    assert frozen.version == 1


def test_replaced_recordings_are_removed_with_their_parts(frozen: GoldenDataset) -> None:
    recording = frozen.recording("late")
    assert recording is not None
    frozen.put_recording("lost", recording)
    removed = freeze(frozen).removed
    assert any(name.endswith(".jsonl") for name in removed)
    assert any(name.endswith(".part") for name in removed)
    assert frozen.verify() == ()


def test_diff_names_fields(frozen: GoldenDataset, tmp_path: Path) -> None:
    other = GoldenDataset.create(tmp_path / "new" / "triage", target="app.pipeline:other")
    other.put_case(frozen.case("late").model_copy(update={"metadata": {"priority": 1}, "recordings": ()}))
    other.put_case(Case(id="new", input={}))
    found = diff(frozen, other)
    assert (found.added, found.removed, found.equal) == (("new",), ("lost",), False)
    assert [change.field for change in found.changed["late"]] == ["metadata.priority", "recordings.recorded/0"]
    assert [(c.field, c.before, c.after) for c in found.settings] == [
        ("target", "app.pipeline:triage", "app.pipeline:other")
    ]
    assert diff(frozen, frozen).equal
