"""``goldfork mirror`` as people and scripts use it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.store import open_store
from harness.testing.langfuse_server import LangfuseServer

GOLDFORK = str(Path(sys.executable).with_name("goldfork"))


@pytest.fixture
def folder(tmp_path, fleet):
    """A folder whose store holds four runs and two scores."""
    with open_store(f"sqlite:///{tmp_path / 'goldfork.db'}") as store:
        fleet.fill(store, 4, scores=2)
    return tmp_path


@pytest.fixture
def langfuse():
    with LangfuseServer() as running:
        yield running


def environment(folder, server=None):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LANGFUSE_")}
    keys = {}
    if server is not None:
        keys = {
            "LANGFUSE_PUBLIC_KEY": server.public_key,
            "LANGFUSE_SECRET_KEY": server.secret_key,
            "LANGFUSE_BASE_URL": server.url,
        }
    return {**kept, "GOLDFORK_HOME": str(folder), **keys}


def goldfork(folder, server, *arguments):
    return subprocess.run(
        [GOLDFORK, *arguments],
        cwd=folder,
        env=environment(folder, server),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_flush_sends_everything_and_show_links_to_it(folder, langfuse, fleet):
    before = json.loads(goldfork(folder, None, "mirror", "status", "--json").stdout)
    assert {name: before[name] for name in ("pending", "accepted", "verified", "dead")} == {
        "pending": 6,
        "accepted": 0,
        "verified": 0,
        "dead": 0,
    }
    assert before["oldest_unverified_s"] > 0
    done = goldfork(folder, langfuse, "mirror", "flush", "--timeout", "20", "--json")
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout)
    assert (state["pending"], state["accepted"], state["verified"]) == (0, 0, 6)
    assert state["oldest_unverified_s"] is None
    assert state["project"]["id"]
    assert state["lane"] is None
    run = fleet.fixed_id("run", 0)
    shown = json.loads(goldfork(folder, None, "run", "show", run, "--json").stdout)
    assert shown["langfuse"] == f"{langfuse.url}/project/{state['project']['id']}/traces/{fleet.trace_id(run)}"
    assert shown["langfuse"] in goldfork(folder, None, "run", "show", run).stdout.replace("\n", "")


@pytest.mark.parametrize("command", [["run", "--once"], ["flush"], ["verify"]])
def test_without_keys_one_line_names_the_variables(folder, command):
    done = goldfork(folder, None, "mirror", *command)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY" in done.stderr


def test_a_flush_against_a_closed_port_says_what_is_left(folder, langfuse):
    with langfuse.refusing():
        done = goldfork(folder, langfuse, "mirror", "flush", "--timeout", "1")
    assert done.returncode == 1
    assert "6 pending" in done.stdout
    assert "trouble" in done.stdout
    assert langfuse.secret_key not in done.stdout + done.stderr


def test_run_once_sends_what_is_due_and_verify_looks_now(folder, langfuse):
    state = json.loads(goldfork(folder, langfuse, "mirror", "run", "--once", "--json").stdout)
    assert (state["pending"], state["accepted"]) == (0, 6)
    done = goldfork(folder, langfuse, "mirror", "verify", "--json")
    assert json.loads(done.stdout)["verified"] == 6
    langfuse.reset()
    done = goldfork(folder, langfuse, "mirror", "verify", "--all")
    assert "missing 6" in done.stderr
    assert "6 pending" in done.stdout


def test_a_worker_sends_until_it_is_told_to_stop(folder, langfuse):
    with subprocess.Popen(
        [GOLDFORK, "mirror", "run", "--json"],
        cwd=folder,
        env=environment(folder, langfuse),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        end = time.monotonic() + 30
        while len(langfuse.scores()) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        status = json.loads(goldfork(folder, langfuse, "mirror", "status", "--json").stdout)
        worker.send_signal(signal.SIGTERM)
        out, told = worker.communicate(timeout=30)
    assert worker.returncode == 0, told
    assert json.loads(out)["accepted"] == 6
    assert status["lane"]["owner"].split(":")[1] == str(worker.pid)
    assert json.loads(out)["lane"] is None


def test_backfill_and_dead_say_what_they_did(folder, langfuse):
    assert json.loads(goldfork(folder, None, "mirror", "backfill", "--json").stdout) == {"entered": 0}
    langfuse.fault("207", when=lambda score: True)
    goldfork(folder, langfuse, "mirror", "flush", "--timeout", "15")
    listed = [json.loads(line) for line in goldfork(folder, None, "mirror", "dead", "--json").stdout.splitlines()]
    assert [entry["kind"] for entry in listed] == ["score", "score"]
    langfuse.clear_faults()
    done = goldfork(folder, None, "mirror", "dead", "--retry", listed[0]["id"])
    assert "1 will be sent again" in done.stdout
    state = json.loads(goldfork(folder, langfuse, "mirror", "flush", "--timeout", "15", "--json").stdout)
    assert (state["verified"], state["dead"]) == (5, 1)
    again = goldfork(folder, None, "mirror", "backfill", "--again")
    assert "6 entered" in again.stdout
    assert goldfork(folder, None, "mirror", "dead", "--retry", "nobody").returncode == 2
