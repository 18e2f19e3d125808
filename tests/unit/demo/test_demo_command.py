"""``goldfork demo``, as a person in a clone runs it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli._app import app
from harness.cli._demo import demo_app

ROOT = Path(__file__).parents[3]


@pytest.fixture
def clone(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("GOLDFORK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GOLDFORK_FORBID_LIVE", "1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TRIAGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_demo_replays_forks_scores_and_writes_a_report_without_a_model(clone):
    report = clone / "demo.html"
    result = CliRunner().invoke(demo_app, ["-o", str(report)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "reply_similarity" in result.output
    assert "draft" in result.output
    assert str(report) in result.output.replace("\n", "")
    assert "<html" in report.read_text(encoding="utf-8")


def test_outside_a_clone_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exception is not None
    assert "datasets/triage" in str(result.exception)
