"""``goldfork dataset`` as a person and as a machine use it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli._app import app
from harness.dataset import GoldenDataset
from harness.errors import DatasetMissing, TargetError, UsageError
from harness.replay import live_run
from harness.session import process_store

TARGET = "curation_pipeline:answer"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder with a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDFORK_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def run(home: Path, pipeline: Any) -> str:
    """Id of a run in the store."""
    outcome = live_run(pipeline.answer, {"ticket": "parcel"}, sink=process_store())
    process_store().flush()
    return outcome.run.run.id


def goldfork(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["dataset", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def machine(*arguments: str, code: int = 0) -> dict[str, Any]:
    (line,) = goldfork(*arguments, "--json", code=code).splitlines()
    return json.loads(line)


@pytest.fixture
def made(run: str) -> GoldenDataset:
    """A dataset with one frozen case."""
    goldfork("add", run, "--to", "datasets/tickets", "--id", "parcel", "--target", TARGET)
    goldfork("snapshot", "datasets/tickets", "--approve", "--by", "ann", "-m", "first")
    return GoldenDataset.load("datasets/tickets")


def test_a_run_is_added_approved_and_verified(run: str) -> None:
    added = machine(
        "add", run[:20], "--to", "datasets/tickets", "--id", "parcel", "--tag", "slow", "--tag", "x", "--split", "dev",
        "--target", TARGET, "--expected", '{"reply": 1}'
    )  # fmt: skip
    assert (added["case"], added["proven"], added["tags"], added["split"]) == ("parcel", True, ["slow", "x"], "dev")
    frozen = machine("snapshot", "tickets", "--approve", "--by", "ann")
    assert (frozen["version"], frozen["created"], frozen["approved"]) == (1, True, ["parcel"])
    assert machine("verify", "tickets") == {
        "ok": True, "dataset": "tickets", "version": 1, "problems": [], "notes": []
    }  # fmt: skip
    shown = machine("show", "tickets", "--case", "parcel")
    assert (shown["expected_output"], shown["approver"]) == ({"reply": 1}, "ann")


def test_a_new_dataset_needs_a_target(run: str) -> None:
    with pytest.raises(UsageError, match="say what it evaluates"):
        goldfork("add", run, "--to", "datasets/tickets")
    with pytest.raises(TargetError):
        goldfork("add", run, "--to", "datasets/tickets", "--target", "no.such:thing")
    with pytest.raises(DatasetMissing, match="goldfork run list"):
        goldfork("add", "absent", "--to", "datasets/tickets", "--target", TARGET)


def test_a_case_that_its_replay_does_not_prove_is_staged_with_exit_code_1(run: str, pipeline: Any) -> None:
    pipeline.BROKEN = True
    try:
        said = goldfork("add", run, "--to", "datasets/tickets", "--target", TARGET, code=1)
    finally:
        pipeline.BROKEN = False
    assert "not proven: its replay gave another output, from step 'draft' on" in said


def test_the_expectation_is_read_from_a_file(run: str, home: Path) -> None:
    (home / "right.json").write_bytes(b'\xef\xbb\xbf{"n": 12345678901234567890}')
    goldfork("add", run, "--to", "datasets/a", "--target", TARGET, "--id", "a", "--expected", "@right.json")
    assert GoldenDataset.load("datasets/a").case("a").expected_output == {"n": 12345678901234567890}
    with pytest.raises(UsageError, match="cannot read 'absent'"):
        goldfork("add", run, "--to", "datasets/a", "--expected", "@absent")


def test_nothing_changed_makes_no_version(made: GoldenDataset) -> None:
    assert "nothing changed since version 1; no new version" in goldfork("snapshot", "datasets/tickets")
    assert machine("snapshot", "tickets")["created"] is False


def test_verify_fails_after_an_edit_and_says_what(made: GoldenDataset) -> None:
    path = made.path / "cases/parcel.json"
    path.write_text(path.read_text().replace('"split": "test"', '"split": "dev"'))
    assert "case 'parcel' was changed since version 1" in goldfork("verify", "tickets", code=1)
    path.write_text("{")
    assert machine("verify", "tickets", code=1)["ok"] is False
    (made.path / "dataset.toml").write_text("name = ")
    assert "not TOML" in machine("verify", "tickets", code=1)["problems"][0]
    with pytest.raises(DatasetMissing):
        goldfork("verify", "absent")


def test_findings_stop_a_snapshot_with_exit_code_2(made: GoldenDataset) -> None:
    mail = "jane.doe" + "@" + "mail-provider.org"
    made.put_case(made.case("parcel").model_copy(update={"metadata": {"from": mail}}))
    found = machine("snapshot", "tickets", code=2)
    assert (found["version"], found["findings"]["total"], found["exit_code"]) == (None, {"mail": 1}, 2)
    said = goldfork("snapshot", "tickets", code=2)
    assert "$.metadata.from" in said
    assert mail not in said
    assert machine("snapshot", "tickets", "--accept-findings")["version"] == 2


def test_a_deleted_line_of_a_recording_is_said_and_verify_is_content_again(made: GoldenDataset) -> None:
    path = made.path / f"recordings/{made.arms('parcel')[0].digest}.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(line for line in lines if b'"record":"volatile"' not in line))
    assert "was edited" in goldfork("verify", "tickets", code=1)
    assert "arm 'recorded', trial 0 was edited" in goldfork("snapshot", "tickets")
    goldfork("verify", "tickets")


def test_list_and_show(made: GoldenDataset) -> None:
    assert machine("list") == {
        "dataset": "tickets",
        "path": "datasets/tickets",
        "version": 1,
        "digest": made.digest,
        "target": TARGET,
        "cases": 1,
        "staged": 0,
        "trials": 1,
    }
    assert "tickets" in goldfork("list")
    assert [item["case"] for item in machine("show", "tickets")["items"]] == ["parcel"]
    assert "recorded/0" in goldfork("show", "datasets/tickets")


def test_what_a_case_holds_neither_breaks_json_nor_drives_the_terminal(made: GoldenDataset) -> None:
    hostile = {"input": 2**70, "tags": ("\x1b[2J[red]x",), "metadata": {"half": "\ud83d"}}
    made.put_case(made.case("parcel").model_copy(update=hostile))
    shown = machine("show", "tickets", "--case", "parcel")
    assert (shown["input"], shown["metadata"]) == (2**70, {"half": "\ud83d"})
    said = goldfork("show", "tickets")
    assert "\x1b[2J" not in said
    assert "\\u001b[2J[red]x" in said


def test_an_empty_folder_of_datasets_says_how_to_begin(home: Path) -> None:
    assert "goldfork dataset add RUN" in goldfork("list")


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=ann", "-c", "user.email=ann", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def test_diff_against_a_git_revision_and_between_folders(made: GoldenDataset) -> None:
    git("init", "-q", "-b", "main")
    git("add", "datasets")
    git("commit", "-q", "-m", "first")
    assert machine("diff", "tickets", "--against", "main")["equal"] is True
    made.put_case(made.case("parcel").model_copy(update={"split": "dev"}))
    changed = machine("diff", "tickets", "--against", "HEAD")
    assert changed["changed"] == {"parcel": [{"field": "split", "before": "test", "after": "dev"}]}
    assert "~ parcel split: test → dev" in goldfork("diff", "tickets", "--against", "main")
    other = GoldenDataset.create("datasets/other", target=TARGET)
    assert machine("diff", "tickets", "other")["removed"] == ["parcel"]
    assert other.cases == ()


@pytest.mark.parametrize("revision", ["absent", "-o/tmp/x", "--output=x", ""])
def test_a_revision_that_is_none_is_refused(made: GoldenDataset, revision: str) -> None:
    git("init", "-q")
    with pytest.raises(UsageError):
        goldfork("diff", "tickets", f"--against={revision}")


def test_every_command_explains_itself() -> None:
    for command in ("add", "snapshot", "list", "show", "verify", "diff"):
        assert "Usage" in goldfork(command, "--help")
