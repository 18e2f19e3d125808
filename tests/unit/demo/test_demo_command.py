"""``goldfork demo`` outside a clone; what it does inside one stands in tests/acceptance."""

import pytest
from typer.testing import CliRunner

from harness.cli._app import app
from harness.errors import DatasetMissing


@pytest.mark.parametrize("command", [["demo"], ["demo", "record"]])
def test_outside_a_clone_it_says_what_is_missing(command, tmp_path, monkeypatch):
    import harness.cli._demo  # noqa: F401 - registers the command

    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, DatasetMissing)
    assert "datasets/triage" in str(result.exception)
