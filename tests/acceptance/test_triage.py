"""The shipped dataset through the command, offline and without a key: what README and demo promise."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import harness.demo.triage

ROOT = Path(__file__).parents[2]
DATASET = ROOT / "datasets" / "triage"
PACKAGE = Path(harness.demo.triage.__file__).parent
COMMAND = [sys.executable, "-c", "from harness.cli import main; main()"]
FORK = ["--fork-at", "draft", "--set", f"prompt:draft=@{ROOT / 'harness' / 'demo' / 'data' / 'draft_short.txt'}"]

pytestmark = pytest.mark.skipif(not DATASET.is_dir(), reason="the dataset is not beside the tests")


@pytest.fixture
def goldfork(tmp_path):
    """Run the command in an empty folder with an empty home, no key, and every live call forbidden."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GOLDFORK_FORBID_LIVE": "1",
        "PYTHONPATH": str(tmp_path),
        "NO_COLOR": "1",
    }

    def run(*arguments, code=0):
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == code, done.stderr + done.stdout
        return done

    return run


@pytest.fixture
def dataset(tmp_path):
    copy = tmp_path / "triage"
    shutil.copytree(DATASET, copy)
    return copy


def evaluated(goldfork, *arguments, code=0):
    return json.loads(goldfork("eval", *arguments, "--json", code=code).stdout)


def case_ids():
    return sorted(path.stem for path in (DATASET / "cases").glob("*.json"))


def test_it_holds_at_least_forty_cases_in_three_splits():
    cases = [json.loads(path.read_text()) for path in (DATASET / "cases").glob("*.json")]
    assert len(cases) >= 40
    assert len({case["split"] for case in cases}) == 3
    assert all(case["approver"] for case in cases)


@pytest.mark.slow
def test_replay_runs_everything_and_costs_nothing(goldfork):
    result = evaluated(goldfork, DATASET)
    n = len(case_ids())
    assert (result["cases"], result["trials"], result["outputs_equal"]) == (n, n, n)
    assert result["provider_calls"] == 0
    assert result["tokens"]["spent"] == 0
    assert result["tokens"]["saved"] > 0
    assert result["steps"] == {"reused": 0, "run": 8 * n}
    assert result["tools"]["called"] == 0
    assert result["tools"]["dry"] == n
    assert result["tools"]["answered"] >= 2 * n
    assert all(verdict["word"] == "equivalent" for verdict in result["verdicts"].values())
    assert all(verdict["basis"] == "identity" for verdict in result["verdicts"].values())
    assert (result["verdict"], result["exit_code"]) == ("equivalent", 0)


@pytest.mark.slow
def test_the_fork_runs_only_what_the_new_prompt_touches(goldfork):
    result = evaluated(goldfork, DATASET, *FORK, "--report-only")
    n = len(case_ids())
    assert result["provider_calls"] == 0
    assert result["tokens"]["spent"] == 0
    assert result["steps"]["reused"] >= 3 * n
    assert result["steps"]["reused"] + result["steps"]["run"] == 8 * n
    assert result["tools"]["called"] == 0
    assert all(score["missing"] == 0 for score in result["scores"].values())


@pytest.mark.slow
def test_a_deleted_message_fails_that_case_alone_and_by_name(goldfork, dataset):
    victim = case_ids()[7]
    case = json.loads((dataset / "cases" / f"{victim}.json").read_text())
    [digest] = [r["digest"] for r in case["recordings"] if r["arm"] == "recorded"]
    path = dataset / "recordings" / f"{digest}.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    messages = [i for i, line in enumerate(lines) if json.loads(line)["record"] == "message"]
    del lines[messages[2]]
    path.write_text("".join(lines))
    goldfork("eval", dataset, code=2)
    goldfork("dataset", "snapshot", dataset, "--approve", "--by", "a tester", "--accept-findings")
    goldfork("dataset", "verify", dataset)
    done = goldfork("eval", dataset, "--report-only", "-o", "report.json")
    result = evaluated(goldfork, dataset, "--report-only")
    assert result["outputs_equal"] == len(case_ids()) - 1
    assert [name for name in case_ids() if name in done.stdout + done.stderr] == [victim]


@pytest.mark.slow
def test_one_changed_character_is_found_at_its_step(goldfork, tmp_path):
    """A copy of the pipeline that sends with a full stop more: exactly the affected outputs differ."""
    copy = tmp_path / "desk"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.glob("*.py"):
        path.write_text(path.read_text().replace("harness.demo.triage", "desk"))
    workflow = copy / "_workflow.py"
    before = workflow.read_text()
    said = 'str(answer.get("category", ""))'
    after = before.replace(said, f'{said}.replace("account", "Account")')
    assert after != before
    workflow.write_text(after)
    expected = [
        path.stem for path in sorted((DATASET / "cases").glob("*.json")) if recorded_category(path) == "account"
    ]
    assert expected
    result = evaluated(goldfork, DATASET, "--target", "desk:triage", "--report-only")
    assert result["trials"] - result["outputs_equal"] == len(expected)
    done = goldfork("eval", DATASET, "--target", "desk:triage", "--report-only", "-o", "report.html")
    assert "classify" in done.stdout
    report = (tmp_path / "report.html").read_text()
    assert all(name in report for name in expected)


def recorded_category(path):
    from harness.dataset import GoldenDataset
    from harness.replay import content

    recording = GoldenDataset.load(DATASET).recording(path.stem)
    return content(recording, recording.run.output_hash)["category"]


@pytest.mark.slow
def test_the_demo_ends_by_naming_the_report(goldfork, tmp_path):
    shutil.copytree(DATASET, tmp_path / "datasets" / "triage")
    done = goldfork("demo")
    assert "goldfork-report.html" in done.stdout.strip().splitlines()[-1]
    assert (tmp_path / "goldfork-report.html").stat().st_size > 10_000


def test_the_judge_never_gates():
    manifest = tomllib.loads((DATASET / "dataset.toml").read_text())
    assert not [name for name in manifest["gate"]["scorers"] if name.startswith("reply_judge")]
