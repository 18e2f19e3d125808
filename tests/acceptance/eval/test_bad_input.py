"""Every bad input is one line that says what, where and what to do; exit 2, nothing lost."""

import sqlite3

import pytest

from harness.dataset import Case, GoldenDataset
from harness.errors import DatasetMissing
from harness.testing import Scripted


def refused(done, *words):
    """One line, exit 2, no traceback."""
    assert done.code == 2, (done.code, done.out, done.err)
    assert done.out == ""
    assert done.err.startswith("goldfork: ")
    assert done.err.count("\n") == 1, done.err
    for word in words:
        assert word in done.err


def test_a_missing_dataset(toy):
    refused(toy("eval", "datasets/nope"), "datasets/nope")


def test_an_edited_case_without_a_new_version(toy):
    case = toy.path / "toyset" / "cases" / "bees.json"
    case.write_text(case.read_text().replace("BEES", "WASPS"))
    refused(toy("eval", "toyset"), "toyset", "bees", "goldfork dataset verify", "goldfork dataset snapshot")


def test_an_unknown_evaluator(toy):
    toy.manifest('[[evaluators]]\nname = "right"\nuse = "exactly"\n')
    refused(toy("eval", "toyset"), "'exactly'", "known are", "package.module:Name")


def test_a_target_that_does_not_import(toy):
    refused(toy("eval", "toyset", "--target", "tyo:run"), "'tyo:run'", "No module named 'tyo'")
    refused(toy("eval", "toyset", "--target", "toy:rnu"), "'toy:rnu'", "'rnu'")
    refused(toy("eval", "toyset", "--target", "toy"), "'toy'", "package.module:function")


def test_a_target_that_takes_another_input(toy):
    toy.edit("toy.py", "def run(text)", "def run(text, customer)")
    refused(toy("eval", "toyset"), "customer")


def test_an_empty_dataset(toy):
    empty = GoldenDataset.create(toy.path / "empty", target="toy:run")
    refused(toy("eval", "empty"), "has no approved case", "empty")
    empty.put_case(Case(id="ants", input={"text": "ants"}))
    refused(toy("eval", "empty"), "has no approved case", "1 wait for", "--approve")


def test_no_item_matches_the_filter(toy):
    refused(toy("eval", "toyset", "--case", "wasps"), "no approved case 'wasps'", "goldfork dataset show")


def test_more_trials_than_recorded(toy):
    refused(
        toy("eval", "toyset", "--trials", "5"),
        "'ants'",
        "has 1 recorded trial, 5 are needed",
        "--trials",
        "--mode auto",
    )


def test_a_change_without_its_step_and_a_step_without_its_change(toy):
    refused(toy("eval", "toyset", "--set", "model=m"), "--fork-at and --set belong together")
    refused(toy("eval", "toyset", "--fork-at", "answer"), "--fork-at and --set belong together")


def test_a_change_that_addresses_nothing(toy):
    refused(toy("eval", "toyset", "--fork-at", "drfat", "--set", "model=m"), "no step 'drfat'", "answer")
    refused(toy("eval", "toyset", "--fork-at", "answer", "--set", "prompt:asnwer=x"), "no prompt 'asnwer'")
    refused(toy("eval", "toyset", "--fork-at", "answer", "--set", "model:m"), "KIND[:NAME]=VALUE")


def test_a_report_of_unknown_format_is_refused_before_anything_runs(toy):
    refused(toy("eval", "toyset", "-o", "report.pdf"), ".pdf")
    assert toy("experiment", "list", "--json").out == ""


def test_an_unreadable_database(toy):
    home = toy.path / ".goldfork"
    (home / "goldfork.db").write_bytes(b"this is no database" * 100)
    refused(toy("eval", "toyset"), "goldfork.db")
    assert (home / "goldfork.db").read_bytes() == b"this is no database" * 100


def test_a_newer_database(toy):
    assert toy("eval", "toyset").code == 0
    newer = toy.path / "newer.db"
    with sqlite3.connect(toy.path / ".goldfork" / "goldfork.db") as old, sqlite3.connect(newer) as new:
        old.backup(new)
    with sqlite3.connect(newer) as database:
        database.execute("update alembic_version set version_num = '9999'")
    database.close()
    refused(toy("eval", "toyset", GOLDFORK_DATABASE_URL=f"sqlite:///{newer}"), "newer")


def test_a_read_only_disk(toy):
    """Under /proc nothing can be made, by root either."""
    refused(toy("eval", "toyset", GOLDFORK_HOME="/proc/goldfork"), "/proc/goldfork")


KEY = ', api_key="sk-toy-000000000000"'


def test_no_key_in_live_mode(toy):
    toy.edit("toy.py", KEY, "")
    refused(toy("eval", "toyset", "--mode", "live"), "'toy:run'", "OPENAI_API_KEY")


def test_no_key_for_a_client_that_is_built_late(toy):
    toy.edit("toy.py", "client = wrap(\n", "client = lambda: wrap(\n")
    toy.edit("toy.py", "client.chat", "client().chat")
    toy.edit("toy.py", KEY, "")
    refused(toy("eval", "toyset", "--mode", "live"), "case '", "wants a valid key", "OPENAI_API_KEY", "--mode replay")


def test_a_key_that_the_provider_refuses(toy, server):
    no = Scripted(status=401, body={"error": {"message": "Incorrect API key provided"}})
    server.script(no, no, no)
    done = toy("eval", "toyset", "--mode", "live", TOY_URL=server.url)
    refused(done, "case '", "wants a valid key", "Incorrect API key provided")


def test_replay_needs_no_key(toy):
    toy.edit("toy.py", KEY, "")
    assert toy("eval", "toyset").code == 0


def test_live_calls_forbidden_by_the_environment(toy):
    refused(toy("eval", "toyset", "--mode", "live", GOLDFORK_FORBID_LIVE="1"), "GOLDFORK_FORBID_LIVE")


def test_an_unknown_experiment(toy):
    for command in (("eval", "toyset", "--resume", "nope"), ("experiment", "show", "nope")):
        refused(toy(*command), "'nope'", "goldfork experiment list")


def test_a_resumed_experiment_takes_no_other_options(toy):
    refused(toy("eval", "toyset", "--resume", "latest", "--mode", "auto"), "leave out --mode")


def test_a_complete_experiment_is_not_resumed(toy):
    experiment = toy("eval", "toyset", "--json").json["experiment"]
    refused(toy("eval", "toyset", "--resume", "latest"), experiment, "is complete")


def test_a_dataset_without_a_baseline(toy):
    refused(toy("baseline", "show", "toyset"), "has no baseline", "goldfork baseline accept toyset")


def test_debug_shows_the_traceback(toy):
    with pytest.raises(DatasetMissing):
        toy("--debug", "eval", "nope")
