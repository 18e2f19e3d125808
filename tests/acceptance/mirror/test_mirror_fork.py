"""C-017: children record while the parent does; the mirror is nobody's thread."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.store import open_store
from harness.testing.langfuse_server import LangfuseServer

CHILDREN = 4
EACH = 5


def environment_of(server, folder):
    return {
        **os.environ,
        "GOLDFORK_HOME": str(folder),
        "GOLDFORK_DURABILITY": "normal",
        "LANGFUSE_PUBLIC_KEY": server.public_key,
        "LANGFUSE_SECRET_KEY": server.secret_key,
        "LANGFUSE_BASE_URL": server.url,
    }


def flush(server, folder, seconds):
    """The command's answer, its exit code, and how long it took beyond starting Python."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("goldfork")), "mirror", "flush", "--timeout", str(seconds), "--json"],
        env=environment_of(server, folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


PROGRAM = """
import multiprocessing, os, sys
import harness
from harness.session import process_store


@harness.step
def work(i):
    return i


@harness.workflow("forked")
def run(n):
    return [work(i) for i in range(n)]


def child():
    run(5)
    assert process_store().flush(3.0)


if __name__ == "__main__":
    run(1)
    if sys.argv[1] == "os.fork":
        pids = []
        for _ in range(4):
            pid = os.fork()
            if pid == 0:
                child()
                os._exit(0)
            pids.append(pid)
        assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
    else:
        context = multiprocessing.get_context(sys.argv[1])
        children = [context.Process(target=child) for _ in range(4)]
        for process in children:
            process.start()
        for process in children:
            process.join()
        assert all(process.exitcode == 0 for process in children)
    run(1)
"""


@pytest.mark.parametrize("how", ["os.fork", "fork", "spawn"])
def test_children_and_parent_are_all_in_the_mirror(tmp_path, how):
    (tmp_path / "program.py").write_text(PROGRAM)
    with LangfuseServer() as server:
        subprocess.run(
            [sys.executable, "program.py", how],
            cwd=tmp_path,
            env=environment_of(server, tmp_path),
            check=True,
            timeout=60,
        )
        state, code = flush(server, tmp_path, 20)
        assert code == 0, state
        server.merge()
        names = [row["name"] for row in server.observations()]
        # The parent's two steps and five of each child; one root for each run.
        assert names.count("work") == 22
        assert len(names) == 22 + 6
        assert (state["pending"], state["accepted"], state["verified"]) == (0, 0, 6)


def test_a_flush_that_cannot_send_ends_in_time_and_says_what_is_left(tmp_path, fleet):
    with open_store(f"sqlite:///{tmp_path / 'goldfork.db'}") as store:
        fleet.fill(store, 3)
    with LangfuseServer() as server:
        server.fault("hang", seconds=60.0)
        began = time.monotonic()
        state, code = flush(server, tmp_path, 3)
        took = time.monotonic() - began
    assert code == 1
    assert state["pending"] == 3
    # The limit, and what it takes to start and end Python on a busy machine.
    assert took < 3 + 12


def _use(sender, answers):
    try:
        sender.run_once()
    except UsageError as error:
        answers.put(str(error))


def test_a_sender_is_not_inherited(fleet, store, server, clock):
    fleet.fill(store, 1)
    sender = fleet.Sender(store, fleet.project_of(server), clock=clock, sleep=clock.sleep)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_use, args=(sender, answers))
    child.start()
    assert "forked child" in answers.get(timeout=20)
    child.join()
    assert server.requests == []
    sender.close()
