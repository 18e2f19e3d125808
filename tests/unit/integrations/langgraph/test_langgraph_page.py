"""The page says the truth: its blocks run, one after the other, and so do its commands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.integrations.langgraph import SUPPORTED

PAGE = Path(__file__).parents[4] / "docs" / "integrations" / "langgraph.md"
GOLDFORK = "from harness.cli import main; main()"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDFORK_DATABASE_URL", f"sqlite:///{tmp_path / 'page.db'}")
    return tmp_path


def blocks(mark):
    found = re.findall(rf"```{mark}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found


def test_every_block_of_the_page_runs(folder, monkeypatch, capsys):
    (folder / "page_of_langgraph.py").write_text("\n".join(blocks("python")), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    import page_of_langgraph  # noqa: F401

    # Once in production, once when it was recorded, once where the checkpoint was written.
    assert capsys.readouterr().out.count("published:") == 3
    assert SUPPORTED in PAGE.read_text(encoding="utf-8")


def test_every_command_of_the_page_works(folder):
    application, production = blocks("python")[:2]
    (folder / "app.py").write_text(application, encoding="utf-8")
    (folder / "production.py").write_text("from app import answer\n" + production, encoding="utf-8")
    (folder / "targets.py").write_text(blocks("python targets.py")[0], encoding="utf-8")

    def run(*command):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=os.environ, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "published:" in run("production.py")
    replay, fork = (line.split()[1:] for line in blocks("sh")[0].splitlines())
    replayed = json.loads(run("-c", GOLDFORK, *replay, "--json"))
    assert [step["equal"] for step in replayed["steps"]] == [True, True, True]
    forked = json.loads(run("-c", GOLDFORK, *fork, "--json"))
    assert [(step["name"], step["state"]) for step in forked["steps"]] == [
        ("look", "reused"),
        ("write", "run"),
        ("publish", "dry"),
    ]
