"""Cases from the field: many writers, a full disk, values that do not fit, forked workers, a killed process."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace

import pytest

from harness.errors import StoreError
from harness.store import open_store


def _python(code, *arguments):
    """A child process that runs a piece of Python."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


_LOAD = """
    import hashlib, sys, threading, uuid
    from datetime import UTC, datetime
    from harness.record import RunRecord, StepRecord
    from harness.store import open_store

    url, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    store = open_store(url, durability="normal")
    now = datetime.now(UTC)
    run = RunRecord(id=str(uuid.uuid4()), workflow="load", status="running", mode="live", started_at=now)
    store.write(run).result(60)

    def work(thread):
        for number in range(steps):
            content = b"%d %d" % (thread, number % 5) * 50
            digest = hashlib.sha256(content).hexdigest()
            step = StepRecord(id=str(uuid.uuid4()), run_id=run.id, parent_id=None, seq=thread * steps + number,
                              name="s", kind="job", scope="", occurrence=number, key=digest, output_hash=digest,
                              status="ok", started_at=now)
            store.write(step, blobs={digest: content}).result(60)

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    store.close()
    print("done")
"""


def test_c013_many_writers_on_one_database(url):
    with open_store(url) as store:
        processes = [_python(_LOAD, url, 8, 50) for _ in range(2)]
        assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["done", "done"]
        assert len(store.load("steps")) == 800
        assert len(store.load("blobs")) == 40
        assert store.check().ok


def test_c013_a_reader_in_a_transaction_does_not_stop_the_writer(sqlite_url, tmp_path, records):
    with open_store(sqlite_url) as store:
        reader = sqlite3.connect(tmp_path / "goldfork.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchall()
        store.write(records.run()).result(30)
        other = sqlite3.connect(tmp_path / "goldfork.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = store.write(records.run())
        time.sleep(0.05)
        assert not waiting.done()
        other.execute("COMMIT")
        waiting.result(30)
        reader.close()
        other.close()
        assert len(store.runs()) == 2


@pytest.fixture
def small_disk(tmp_path):
    """A volume of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.call(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]) != 0:
        pytest.skip("needs the right to mount a small volume")
    yield folder
    subprocess.call(["umount", "-l", folder])


def test_c013_a_full_disk_fails_what_it_must_and_nothing_after(small_disk, records):
    with open_store(f"sqlite:///{small_disk / 'goldfork.db'}") as store:
        run = records.run()
        store.write(run).result(30)
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            while file.write(bytes(65536)) == 65536:
                pass
        content = random.Random(1).randbytes(2_000_000)
        error = store.write(records.step(run, seq=1), blobs=records.blobs(content)).exception(30)
        assert isinstance(error, StoreError)
        assert "full" in str(error)
        assert "free some space" in str(error)
        filler.unlink()
        step = records.step(run, seq=2, output_hash=records.hash(content))
        store.write(step, blobs=records.blobs(content)).result(30)
        assert store.read(step.output_hash) == content
        assert [step.seq for step in store.recording(run.id).steps] == [2]
        assert store.check().ok


def test_c013_a_database_that_vanished_fails_loudly(sqlite_url, tmp_path, records):
    with open_store(sqlite_url) as store:
        store.write(records.run()).result(30)
        for name in ("goldfork.db", "goldfork.db-wal", "goldfork.db-shm"):
            (tmp_path / name).unlink()
        error = store.write(records.run()).exception(30)
        assert isinstance(error, StoreError)
        assert "removed" in str(error)


def test_a_server_that_comes_back_is_written_to_again(postgres, postgres_url, records):
    with open_store(postgres_url) as store:
        run = records.run()
        store.write(run).result(30)
        postgres.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid();")
        store.write(records.done(run)).result(30)
        assert store.recording(run.id).run.status == "ok"


_HARD = {
    "tool_output": "col1\x00col2",
    "partial_emoji": "\ud83d",
    "id": 9007199254740993,
    "ratio": 0.1,
    "deep": "[" * 2000 + "]" * 2000,
    "escape": "\x1a0000",
}


def test_c014_values_that_a_database_cannot_carry(store, records):
    run = records.run(metadata=_HARD, error=_HARD["tool_output"], tags=("\ud83d", "\x1a0000"))
    step = records.step(run, name=_HARD["tool_output"], scope=_HARD["partial_emoji"], error=_HARD["escape"])
    body = json.dumps({"messages": [{"role": "tool", "content": json.dumps(_HARD)}] * 3}).encode()
    message = records.message(run, body, params={"seed": 2**70, "user": "a\x00b"}, scope="\ud83d")
    store.write(run, step, message, blobs=records.blobs(body, b"{}")).result(30)
    found = store.recording(run.id)
    assert found.run == run
    assert found.run.metadata["id"] == 9007199254740993
    assert found.steps == (step,)
    assert found.messages == (message,)
    assert found.read(message.request_hash) == body
    store.save("labels", [{"id": "l", "comment": _HARD["tool_output"], "value": _HARD}])
    assert store.load("labels")[0]["value"] == _HARD
    assert store.check().ok


def test_c014_nesting_without_end_leaves_a_mark_not_a_lost_row(store, records):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    run = records.run(metadata={"deep": deep})
    store.write(run).result(30)
    assert "nested too deeply" in json.dumps(store.run(run.id).metadata)


def test_c014_a_body_nested_too_deep_to_parse_is_kept(store, records):
    body = b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    run = records.run()
    store.write(run, records.message(run, body), blobs=records.blobs(body, b"{}")).result(30)
    assert store.read(records.hash(body)) == body


def test_c017_forked_children_record_through_the_parents_store(url, records):
    with open_store(url, durability="normal") as store:
        run = records.run()
        store.write(run, records.step(run)).result(30)
        store.runs()
        children = []
        for child in range(4):
            pid = os.fork()
            if pid == 0:
                _exit_with(lambda child=child: _record_in_child(store, records, run, child))
            children.append(pid)
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0, 0]
        store.write(records.step(run, seq=1)).result(30)
        assert store.flush(3)
        assert len(store.load("steps")) == 22
        assert store.check().ok


def _record_in_child(store, records, run, child):
    steps = [records.step(run, id=f"{child + 1:08x}-0000-4000-8000-{number:012x}") for number in range(5)]
    futures = [store.write(step) for step in steps]
    assert store.flush(3)
    assert all(future.exception(0) is None for future in futures)
    store.close()


def _exit_with(action):
    try:
        action()
    except BaseException:  # the child must not go on as a second pytest
        os._exit(1)
    os._exit(0)


def test_c017_a_fork_amid_heavy_writing_loses_nothing(sqlite_url, records):
    with open_store(sqlite_url, durability="normal") as store:
        run = records.run()
        store.write(run).result(30)
        futures = []
        stop = threading.Event()

        def work():
            while not stop.is_set():
                futures.append(store.write(records.step(run, output_hash=None)))
                futures[-1].result(30)

        thread = threading.Thread(target=work)
        thread.start()
        for child in range(3):
            pid = os.fork()
            if pid == 0:
                _exit_with(lambda child=child: _record_in_child(store, records, run, child + 100))
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        thread.join()
        assert len(store.load("steps")) == len(futures) + 15
        assert store.check().ok


_WITNESSED = """
    import hashlib, json, os, socket, sys, time, uuid
    from datetime import UTC, datetime
    from harness.record import Exchange, MessageRecord, RunRecord
    from harness.store import open_store

    url, witness = sys.argv[1], os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    store = open_store(url)
    now = datetime.now(UTC)
    owner = f"{socket.gethostname()}:{os.getpid()}:{time.time_ns() // 1_000_000}"
    run = RunRecord(id=str(uuid.uuid4()), workflow="w", status="running", mode="live", owner=owner, started_at=now)
    store.write(run).result(30)
    sha = lambda content: hashlib.sha256(content).hexdigest()
    messages = []
    print("ready", flush=True)
    for number in range(100_000):
        messages.append({"role": "user", "content": f"question {number} " * 20})
        body = json.dumps({"messages": messages[-40:], "model": "m"}).encode()
        reply = f"reply {number}".encode()
        record = MessageRecord(
            id=str(uuid.uuid4()), run_id=run.id, step_id=None, seq=number, scope="", method="POST",
            endpoint="/chat/completions", provider="p", exact_key=sha(body), semantic_key=sha(body), occurrence=0,
            request_hash=sha(body), exchanges=(Exchange(status=200, body_hash=sha(reply)),), status="ok",
            started_at=now)
        store.write(record, blobs={sha(body): body, sha(reply): reply}).result(30)
        os.write(witness, f"{record.id} {sha(body)} {sha(reply)}\\n".encode())
        os.fsync(witness)
"""


@pytest.mark.parametrize("round_", range(3))
def test_c021_what_was_acknowledged_survives_a_kill(sqlite_url, tmp_path, round_):
    witness = tmp_path / "witness"
    process = _python(_WITNESSED, sqlite_url, witness)
    assert process.stdout.readline().strip() == "ready"
    time.sleep(random.Random(round_).uniform(0.05, 0.4))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    acknowledged = [line.split() for line in witness.read_text().splitlines()] if witness.exists() else []
    with open_store(sqlite_url) as store:
        [run] = store.runs()
        assert run.status == "abandoned"
        found = {message.id: message for message in store.recording(run.id).messages}
        for message, request, reply in acknowledged:
            assert found[message].request_hash == request
            assert json.loads(store.read(request))["model"] == "m"
            assert store.read(reply).startswith(b"reply")
        assert store.check().ok
        store.write(replace(store.run(run.id), status="ok")).result(30)


def test_c020_bytes_that_look_like_a_pickle_stay_bytes(store, records):
    planted = b"\x80\x04cos\nsystem\n(S'touch /tmp/planted'\ntR."
    run = records.run(output_hash=records.hash(planted))
    store.write(run, blobs=records.blobs(planted)).result(30)
    assert store.recording(run.id).read(run.output_hash) == planted
