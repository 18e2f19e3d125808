"""Forks leave the run they come from as it is: two at once, of forks, and after a kill; in a real store."""

import contextlib
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.replay import fork_run, live_run
from harness.session import Change
from harness.store import open_store
from harness.testing import ScriptedServer

PIPELINE = """
import os, signal, sys
from openai import OpenAI
from harness.gateway import wrap
from harness.pipeline import step, workflow

CLIENT = wrap(OpenAI(base_url=os.environ["SERVER"], api_key="sk-0123456789abcdef01234567", max_retries=0))

def ask(text):
    reply = CLIENT.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    return reply.choices[0].message.content

@step
def look(ticket):
    return ask(f"look {ticket}")

@step
def draft(found, tone):
    return ask(f"draft {tone} {found}")

@step
def check(text):
    if os.environ.get("KILLED"):
        os.kill(os.getpid(), signal.SIGKILL)
    return ask(f"check {text}")

@workflow("desk")
def run(ticket):
    return check(draft(look(ticket), "calm"))
"""

FORK = """
import sys
from harness.replay import fork_run
from harness.session import process_store
from pipeline_of_forks import run
store = process_store()
outcome = fork_run(store.recording(sys.argv[1]), target=run, change=sys.argv[2], at="draft", sink=store)
print(outcome.run.run.id, outcome.status, outcome.counts.provider_calls)
"""


@pytest.fixture
def server():
    with ScriptedServer(rule=lambda seen: f"<{seen.json['messages'][0]['content']}>") as made:
        yield made


@pytest.fixture
def desk(tmp_path, server, monkeypatch):
    (tmp_path / "pipeline_of_forks.py").write_text(PIPELINE)
    (tmp_path / "fork.py").write_text(FORK)
    monkeypatch.setenv("SERVER", server.url)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pipeline_of_forks", raising=False)
    import pipeline_of_forks

    yield pipeline_of_forks
    sys.modules.pop("pipeline_of_forks", None)


def rows(path, run_id):
    """A digest of everything that the store holds of a run."""
    digest, run = hashlib.sha256(), uuid.UUID(run_id).bytes
    with contextlib.closing(sqlite3.connect(path)) as db:
        messages = [row[0] for row in db.execute("SELECT id FROM messages WHERE run_id = ?", (run,))]
        assert messages
        wanted = [
            ("runs", "id", run),
            *((name, "run_id", run) for name in ("steps", "messages", "volatile", "step_edges")),
        ]
        for table, column, one in (*wanted, *(("exchanges", "message_id", message) for message in messages)):
            found = db.execute(f"SELECT * FROM {table} WHERE {column} = ?", (one,)).fetchall()
            digest.update(repr((table, sorted(map(repr, found)))).encode())
    return digest.hexdigest()


def spawn(tmp_path, run_id, change, **env):
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "fork.py"), run_id, change],
        env={**os.environ, "GOLDFORK_DATABASE_URL": f"sqlite:///{tmp_path / 'store.db'}", **env},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", durability="normal") as opened:
        yield opened


def test_forks_in_threads_and_forks_of_forks_leave_the_parent_as_it_was(tmp_path, desk, store, server):
    parent_id = live_run(desk.run, {"ticket": "t"}, sink=store).run.run.id
    before = rows(tmp_path / "store.db", parent_id)

    def fork(tone):
        return fork_run(
            store.recording(parent_id), target=desk.run, change=f"input:tone={tone}", at="draft", sink=store
        )

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(fork, ["warm", "cold", "dry", "kind"]))
    assert [outcome.output for outcome in outcomes] == [
        f"<check <draft {tone} <look t>>>" for tone in ("warm", "cold", "dry", "kind")
    ]
    assert [outcome.counts.provider_calls for outcome in outcomes] == [2] * 4
    child = outcomes[0].run.run.id
    child_before = rows(tmp_path / "store.db", child)
    grandchild = fork_run(store.recording(child), target=desk.run, change="model=n", at="check", sink=store)
    assert grandchild.output == "<check <draft warm <look t>>>"
    assert grandchild.counts.provider_calls == 1
    assert grandchild.run.run.parent_run_id == child
    kept = store.recording(grandchild.run.run.id).run.metadata["inherited_changes"]
    assert [Change.from_dict(one).name for one in kept] == ["tone"]
    great = fork_run(
        store.recording(grandchild.run.run.id), target=desk.run, change="input:ticket=u", at="look", sink=store
    )
    assert great.output == "<check <draft warm <look u>>>"
    assert rows(tmp_path / "store.db", parent_id) == before
    assert rows(tmp_path / "store.db", child) == child_before


@pytest.mark.slow
def test_forks_in_processes_leave_the_parent_as_it_was(tmp_path, desk, store, server):
    parent_id = live_run(desk.run, {"ticket": "t"}, sink=store).run.run.id
    before = rows(tmp_path / "store.db", parent_id)
    working = [spawn(tmp_path, parent_id, f"input:tone={tone}") for tone in ("warm", "cold")]
    told = [one.communicate(timeout=100)[0].split() for one in working]
    assert [one[1:] for one in told] == [["ok", "2"], ["ok", "2"]]
    assert store.recording(told[0][0]).run.parent_run_id == parent_id
    assert rows(tmp_path / "store.db", parent_id) == before


@pytest.mark.slow
def test_a_fork_that_was_killed_goes_on_where_it_was(tmp_path, desk, store, server):
    parent_id = live_run(desk.run, {"ticket": "t"}, sink=store).run.run.id
    before = rows(tmp_path / "store.db", parent_id)
    change = Change.parse("input:tone=warm", at="draft")
    parent = store.recording(parent_id)
    killed = tmp_path / "killed.py"
    killed.write_text(
        FORK.replace(
            "from harness.replay import fork_run",
            textwrap.dedent(
                """
        from harness.replay import NullReplay, ReplayOptions, fork_run
        import functools
        fork_run = functools.partial(fork_run, options=ReplayOptions(null=NullReplay(undeclared=())))
        """
            ),
        )
    )
    (tmp_path / "fork.py").write_text(killed.read_text())
    working = spawn(tmp_path, parent_id, "input:tone=warm", KILLED="1")
    working.communicate(timeout=100)
    assert working.returncode == -signal.SIGKILL
    calls = server.calls
    (left,) = [row.id for row in store.runs(limit=10) if row.arm == change.arm]
    arm = store.recording(left)
    assert arm.run.status != "ok"
    outcome = fork_run(parent, target=desk.run, change=change, arm=arm, sink=store)
    assert outcome.output == "<check <draft warm <look t>>>"
    # What the killed attempt was answered is not asked again.
    assert server.calls == calls + 1
    assert rows(tmp_path / "store.db", parent_id) == before
