"""A run that could not be recorded completely is shown, never replayed."""

import sys
from datetime import UTC, datetime

import pytest

from harness.cli import main
from harness.errors import UsageError
from harness.record import RunRecord
from harness.replay import replay_run
from harness.session import find_recording, new_id, process_store


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """The id of a run of which something is missing."""
    monkeypatch.setenv("GOLDFORK_HOME", str(tmp_path))
    run = RunRecord(id=new_id(), workflow="shop", status="ok", mode="live", started_at=datetime.now(UTC), usable=False)
    store = process_store()
    store.write(run).result(30)
    yield run.id
    store.close()


def test_it_is_refused_in_one_sentence(broken):
    sentence = f"run '{broken}' could not be recorded completely, so it cannot be replayed; run it again"
    with pytest.raises(UsageError, match=sentence):
        find_recording(broken)
    with pytest.raises(UsageError, match=sentence):
        replay_run(broken)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("show",), 0),
        (("replay", "--target", "json:dumps"), 2),
        (("fork", "--target", "json:dumps", "--at", "a", "--set", "model=m"), 2),
    ],
)
def test_the_command_shows_it_and_refuses_the_rest(broken, command, code, capsys, monkeypatch):
    name, *options = command
    monkeypatch.setattr(sys, "argv", ["goldfork", "run", name, broken, *options])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == code
    assert ("could not be recorded completely" in capsys.readouterr().err) == (code == 2)
