"""Report files."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.report import build, renderer, write


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("r.html", "<!doctype html>"),
        ("r.HTML", "<!doctype html>"),
        ("r.md", "**▼ regressed**"),
        ("r.xml", "<?xml"),
        ("r.json", "{"),
        ("r.txt", "REGRESSED"),
    ],
)
def test_the_suffix_names_the_format(result, tmp_path, name, start):
    path = write(build(result), tmp_path / name)

    assert path.read_text(encoding="utf-8").lstrip().startswith(start)


@pytest.mark.parametrize("suffix", [".html", ".md", ".xml", ".json", ".txt"])
def test_every_format_can_hold_hostile_text(hostile, tmp_path, suffix):
    content = write(build(hostile), tmp_path / f"report{suffix}").read_bytes()

    assert content.decode("utf-8")


def test_folders_are_made_and_nothing_else_is_left_there(result, tmp_path):
    path = write(build(result), tmp_path / "a" / "b" / "report.json")

    assert [one.name for one in path.parent.iterdir()] == ["report.json"]


def test_an_existing_report_is_replaced(result, tmp_path):
    path = tmp_path / "report.txt"
    path.write_text("old")
    write(build(result), path)

    assert "old" not in path.read_text(encoding="utf-8").split()


@pytest.mark.parametrize("name", ["report.pdf", "report", "report.html.bak", ".html"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(result, tmp_path, name):
    with pytest.raises(UsageError, match=r"use one of \.html, \.json, \.md, \.txt, \.xml"):
        write(build(result), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError):
        renderer(name)


def test_a_path_that_cannot_be_written_is_a_usage_error(result, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"cannot be written: .*; name another file with -o"):
        write(build(result), tmp_path / "file" / "report.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write(build(result), tmp_path / "folder.html")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "folder.html"]
