"""Nothing outside a dataset's folder is read or written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.dataset import Case, GoldenDataset
from harness.dataset._folder import Folder
from harness.errors import DatasetError, DatasetMissing

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "name", ["../outside.txt", "cases/../../outside.txt", "/etc/hosts", "..\\outside.txt", "a\0b", "", "cases\\..\\x"]
)
def test_no_spelling_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside.txt").write_text("MARK")
    (tmp_path / "in").mkdir()
    folder = Folder(tmp_path / "in")
    with pytest.raises(DatasetError, match="not a file name inside"):
        folder.read(name)
    with pytest.raises(DatasetError, match="not a file name inside"):
        folder.write(name, b"x")


def test_a_link_out_of_the_folder_is_not_followed(dataset: GoldenDataset, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('{"id": "link", "input": "MARK"}')
    (dataset.path / "cases/link.json").symlink_to(outside)
    with pytest.raises(DatasetError, match="symbolic link"):
        _ = GoldenDataset.load(dataset.path).cases
    assert any("symbolic link" in problem for problem in dataset.verify())


def test_a_linked_subfolder_is_not_written_to(dataset: GoldenDataset, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (dataset.path / "baseline.json").symlink_to(outside / "baseline.json")
    for path in (dataset.path / "cases").iterdir():
        path.unlink()
    (dataset.path / "cases").rmdir()
    (dataset.path / "cases").symlink_to(outside, target_is_directory=True)
    with pytest.raises(DatasetError, match="symbolic link"):
        dataset.put_case(Case(id="x", input=1))
    with pytest.raises(DatasetError, match="symbolic link"):
        dataset.write_baseline({})
    assert list(outside.iterdir()) == []


def test_the_folder_itself_may_be_a_link(dataset: GoldenDataset, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(dataset.path, target_is_directory=True)
    assert len(GoldenDataset.load(tmp_path / "link").cases) == 2


def test_a_write_leaves_no_draft_behind(dataset: GoldenDataset) -> None:
    assert not [path for path in dataset.path.rglob("*") if path.name.endswith(".tmp")]


def test_a_folder_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing, match="no dataset folder"):
        GoldenDataset.load(tmp_path / "absent")
    with pytest.raises(DatasetMissing, match=r"'dataset\.toml'"):
        GoldenDataset.load(tmp_path)


def test_a_dataset_is_not_made_twice_nor_under_a_bad_name(dataset: GoldenDataset, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="already"):
        GoldenDataset.create(dataset.path, target="a:b")
    with pytest.raises(DatasetError, match="is not a name"):
        GoldenDataset.create(tmp_path / "my data", target="a:b")
    assert not (tmp_path / "my data").exists()


def test_the_datasets_folder_holds_data_only() -> None:
    assert [path for path in (ROOT / "datasets").rglob("*") if path.suffix in {".py", ".pyc", ".pyi"}] == []


def test_the_datasets_folder_does_not_stand_for_a_package_of_that_name(tmp_path: Path) -> None:
    code = "import importlib.util as u; print(getattr(u.find_spec('datasets'), 'submodule_search_locations', None))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True, check=True
    )
    assert str(ROOT / "datasets") not in done.stdout
