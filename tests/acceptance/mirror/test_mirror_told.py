"""What the mirror's commands say, and with which exit code, when something stands in the way."""

import contextlib
import gc
import gzip
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import UsageError
from harness.mirror import Unanswered, dead, retry, status
from harness.store import open_store
from harness.testing import Scripted, ScriptedServer
from harness.testing.langfuse_server import LangfuseServer

GOLDFORK = str(Path(sys.executable).with_name("goldfork"))
SPANS = "/api/public/otel/v1/traces"


@pytest.fixture
def langfuse():
    with LangfuseServer() as running:
        yield running


@pytest.fixture
def folder(tmp_path, fleet):
    """A folder whose store holds three runs and a score."""
    with open_store(f"sqlite:///{tmp_path / 'goldfork.db'}") as store:
        fleet.fill(store, 3, scores=1)
    return tmp_path


def environment(folder, server, **changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LANGFUSE_", "OTEL_"))}
    keys = {
        "LANGFUSE_PUBLIC_KEY": server.public_key,
        "LANGFUSE_SECRET_KEY": server.secret_key,
        "LANGFUSE_BASE_URL": server.url,
    }
    return {**kept, "GOLDFORK_HOME": str(folder), **keys, **changes}


def mirror(folder, server, *arguments, before=(), **changes):
    """`goldfork mirror`, in this process where that is enough: its start takes longer than its work."""
    given = environment(folder, server, **changes)
    if before or arguments == ("run",):
        command = [*before, GOLDFORK, "mirror", *arguments]
        return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=90, check=False)
    out, told, threshold = io.StringIO(), io.StringIO(), gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        for name in os.environ.keys() - given.keys():
            patch.delenv(name)
        for name, value in given.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        patch.setattr(sys, "argv", [GOLDFORK, "mirror", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    gc.set_threshold(*threshold)
    return subprocess.CompletedProcess(arguments, ended.value.code or 0, out.getvalue(), told.getvalue())


@contextlib.contextmanager
def worker(folder, server, **changes):
    """`goldfork mirror run`, killed at the end if it has not ended."""
    with subprocess.Popen(
        [GOLDFORK, "mirror", "run", "--json"],
        cwd=folder,
        env=environment(folder, server, **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


def wait_for(condition, seconds=40.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def said_line(running, words, seconds=40.0):
    """The first line of a process's stderr that holds some words."""
    found = []
    reader = threading.Thread(
        target=lambda: found.append(next((line for line in running.stderr if words in line), None)), daemon=True
    )
    reader.start()
    reader.join(seconds)
    assert found
    assert found[0] is not None
    return found[0].rstrip("\n")


class TestVerify:
    def test_a_rejected_key_is_exit_code_2_and_one_line(self, folder, langfuse):
        done = mirror(folder, langfuse, "verify", "--json", LANGFUSE_SECRET_KEY="sk-lf-wrong-0123456789")
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert line.startswith(f"goldfork: {langfuse.url.removeprefix('http://')} could not be asked what it holds: ")
        assert "LANGFUSE_SECRET_KEY" in line
        told = json.loads(done.stdout)
        assert f"goldfork: {told['error']}" == line
        assert (told["looked"], told["seen"], told["missing"], told["repaired"]) == (None, None, None, None)
        assert "sk-lf-wrong" not in done.stdout + done.stderr

    def test_no_server_is_exit_code_2_even_with_nothing_to_look_at(self, folder, langfuse):
        with langfuse.refusing():
            done = mirror(folder, langfuse, "verify")
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert "could not be asked what it holds: ConnectError" in line

    def test_a_server_that_stops_answering_on_the_way_is_exit_code_2(self, folder, langfuse):
        assert mirror(folder, langfuse, "flush").returncode == 0
        langfuse.fault("500", when=lambda request: request.path == "/api/public/v3/scores")
        done = mirror(folder, langfuse, "verify", "--all")
        assert done.returncode == 2
        assert "could not be asked what it holds after 3 of 4 were seen: HTTP 500" in done.stderr

    def test_all_there_is_0_and_something_missing_is_1(self, folder, langfuse):
        assert mirror(folder, langfuse, "flush").returncode == 0
        whole = mirror(folder, langfuse, "verify", "--all", "--json")
        told = json.loads(whole.stdout)
        assert whole.returncode == 0
        assert (told["looked"], told["seen"], told["missing"], told["repaired"], told["error"]) == (4, 4, 0, 0, None)
        langfuse.reset()
        lost = mirror(folder, langfuse, "verify", "--all", "--json")
        assert lost.returncode == 1
        assert json.loads(lost.stdout)["missing"] == 4

    def test_the_sender_asks_the_server_whatever_it_knew_before(self, fleet, store, server, sender, clock):
        fleet.fill(store, 1)
        assert fleet.drive(sender, clock)
        with server.refusing(), pytest.raises(Unanswered, match="could not be asked"):
            sender.verify()
        clock.sleep(400.0)
        assert sender.verify(everything=True).looked == 1


class TestAnotherSender:
    def test_it_is_named_by_host_and_process_and_takes_precedence(self, folder, langfuse, fleet):
        with worker(folder, langfuse) as first:
            wait_for(lambda: len(langfuse.scores()) == 1)
            with open_store(f"sqlite:///{folder / 'goldfork.db'}") as store:
                # Kept from arriving, so that the flush has something to wait for.
                langfuse.fault("lose")
                fleet.fill(store, 1, first=100)
            owner = f"process {os.uname().nodename}:{first.pid}, has the lane"
            flushed = mirror(folder, langfuse, "flush", "--timeout", "2", "--json")
            assert flushed.returncode == 1
            named, left = flushed.stderr.splitlines()
            assert owner in named
            assert named.endswith("leave it to that one, or stop it there")
            counts = json.loads(flushed.stdout)
            assert re.match(rf"after \d+ s {counts['left']} (is|are) left, not sent or not seen yet: ", left)
            assert counts["left"] == counts["pending"] + counts["accepted"] > 0
            once = mirror(folder, langfuse, "run", "--once")
            assert once.returncode == 1
            assert owner in once.stderr
            verified = mirror(folder, langfuse, "verify")
            assert verified.returncode == 2
            assert owner in verified.stderr
            with worker(folder, langfuse) as second:
                assert owner in said_line(second, "another sender")
                first.send_signal(signal.SIGINT)
                assert first.wait(30) == 0
                assert "this process sends" in said_line(second, "is open")
                second.send_signal(signal.SIGTERM)
                assert second.wait(30) == 0

    def test_a_flush_that_another_sender_finishes_is_done(self, fleet, store, server, sender, clock):
        fleet.fill(store, 2)
        assert sender.run_once().held
        heard = []

        def sleep(seconds):
            clock.sleep(seconds)
            sender.run_once(early=True)

        second = fleet.Sender(store, fleet.project_of(server, clock=clock), clock=clock, sleep=sleep, say=heard.append)
        assert second.flush(60.0)
        assert len(heard) == 1
        second.close()


def test_a_flush_does_not_wait_for_what_cannot_come(fleet, store, server, clock):
    fleet.fill(store, 2)
    heard, began = [], clock.now
    wrong = fleet.project_of(server, secret_key="sk-lf-wrong-0123456789", clock=clock)
    sender = fleet.Sender(store, wrong, clock=clock, sleep=clock.sleep, say=heard.append)
    assert not sender.flush(200.0)
    assert clock.now == began
    [line] = heard
    assert line.startswith(f"{wrong.host}: Langfuse refuses the keys")
    sender.close()


class TestKeysAreRotated:
    def test_whoever_has_the_new_ones_takes_over_at_once(self, fleet, store, server, clock):
        rows = fleet.fill(store, 4)
        heard = []
        old = fleet.Sender(
            store, fleet.project_of(server, clock=clock), clock=clock, sleep=clock.sleep, say=heard.append
        )
        server.fault("500", times=1, when=lambda request: request.path == SPANS)
        old.run_once()
        server.secret_key = "sk-lf-rotated"
        clock.sleep(60.0)
        assert "401" in old.run_once().trouble
        assert status(store, old.project, clock=clock)["lane"] is None
        new = fleet.Sender(store, fleet.project_of(server, clock=clock), clock=clock, sleep=clock.sleep)
        assert fleet.drive(new, clock)
        assert status(store, new.project, clock=clock)["paused"] is None
        clock.sleep(400.0)
        assert new.run_once().held
        assert not old.run_once().held
        assert set(fleet.seen_rows(server)) == set(rows)
        for each in (old, new):
            each.close()

    def test_a_worker_says_so_goes_on_asking_and_ends_cleanly(self, folder, langfuse):
        langfuse.secret_key = "sk-lf-rotated"
        with worker(folder, langfuse, LANGFUSE_SECRET_KEY="sk-lf-double") as running:
            line = said_line(running, "refuses the keys")
            assert "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY to good ones" in line
            assert running.poll() is None
            running.send_signal(signal.SIGTERM)
            out, told = running.communicate(timeout=30)
        assert running.returncode == 0
        assert "Traceback" not in told
        assert json.loads(out)["paused"]
        assert mirror(folder, langfuse, "flush").returncode == 0


class TestControlC:
    def test_it_ends_the_round_gives_the_lane_back_and_leaves_no_traceback(self, folder, langfuse):
        with worker(folder, langfuse) as running:
            wait_for(lambda: len(langfuse.scores()) == 1)
            running.send_signal(signal.SIGINT)
            out, told = running.communicate(timeout=30)
        assert running.returncode == 0, told
        assert "Traceback" not in told
        assert json.loads(out)["lane"] is None
        assert mirror(folder, langfuse, "flush").returncode == 0

    @pytest.mark.parametrize("command", [("run",), ("flush", "--timeout", "60")])
    def test_while_a_request_hangs_it_ends_at_the_latest_when_asked_twice(self, folder, langfuse, command):
        langfuse.fault("hang", seconds=120.0)
        with subprocess.Popen(
            [GOLDFORK, "mirror", *command],
            cwd=folder,
            env=environment(folder, langfuse),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            wait_for(lambda: langfuse.requests)
            running.send_signal(signal.SIGINT)
            time.sleep(0.5)
            if running.poll() is None:
                running.send_signal(signal.SIGINT)
            _, told = running.communicate(timeout=20)
        # Asked twice it may have been on its way out already.
        assert running.returncode in {1, 130, -signal.SIGINT}
        assert "Traceback" not in told
        langfuse.clear_faults()
        state = json.loads(mirror(folder, langfuse, "status", "--json").stdout)
        assert state["lane"] is None
        assert state["dead"] == 0


class TestTooLarge:
    @pytest.mark.parametrize("struck", [b"", b'"spanId"'], ids=["every request", "every one with a span"])
    def test_a_proxy_that_takes_nothing_pauses_the_lane_and_kills_nothing(
        self, fleet, store, server, sender, clock, struck
    ):
        rows = fleet.fill(store, 10, scores=2)
        large = fleet.fill(store, 1, first=50, steps=1)
        fault = server.fault("413", when=lambda request: request.path == SPANS and struck in request.body)
        for _ in range(3):
            progress = sender.run_once()
            assert progress.wait >= 300
            clock.sleep(progress.wait)
        state = status(store, sender.project, clock=clock)
        assert (state["dead"], state["pending"]) == (0, 13)
        assert "takes no request, however small (HTTP 413" in state["paused"]
        assert "client_max_body_size" in state["paused"]
        fault.clear()
        assert fleet.drive(sender, clock)
        assert set(fleet.seen_rows(server)) == {*rows, *large}

    def test_scores_alone_are_too_small_as_well(self, fleet, store, server, sender, clock):
        fleet.fill(store, 60, scores=60)
        server.fault("413", when=lambda request: request.path == "/api/public/scores")
        assert not fleet.drive(sender, clock, hours=1.0)
        state = status(store, sender.project, clock=clock)
        assert state["dead"] == 0
        assert "413" in state["paused"]

    def test_a_batch_is_halved_and_one_span_that_is_too_large_is_dead(self, fleet, store, server, sender, clock):
        rows = fleet.fill(store, 20)
        made, blobs = fleet.records(99, steps=1)
        noise = "".join(fleet.digest(str(n).encode()) for n in range(1500))
        request = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": noise}]}).encode()
        message = fleet.replace(made[-1], request_hash=fleet.digest(request))
        store.write(*made[1:-1], message, made[0], blobs={**blobs, message.request_hash: request}).result()
        server.fault("413", limit=20_000)
        assert fleet.drive(sender, clock)
        [entry] = dead(store)
        assert entry.kind == "span"
        assert entry.id == f"{message.run_id}/{fleet.span_id('message', message.id)}"
        assert entry.error.startswith("HTTP 413: ")
        others = [row for row in fleet.expected_rows(made) if row.id != fleet.span_id("message", message.id)]
        assert set(fleet.seen_rows(server)) == {*rows, *others}
        assert status(store, sender.project, clock=clock)["paused"] is None


class TestForeignWords:
    WORDS = "no\x1b[2Jway \u202egnol\u202c\r\n" + "jane.roe@example.org " + "x" * 5000

    @pytest.mark.parametrize("status_code", [400, 401])
    def test_they_are_short_visible_and_redacted_wherever_they_are_kept_or_shown(self, folder, langfuse, status_code):
        def answer(seen):
            if seen.path.endswith("health"):
                return Scripted(body={"status": "OK", "version": self.WORDS})
            if seen.path.endswith("projects"):
                return Scripted(body={"data": [{"id": "p", "name": self.WORDS}]})
            passes = b'"spanId"' not in seen.body and not seen.path.endswith("scores")
            if seen.method == "POST" and passes and status_code == 400:
                return Scripted(body={})
            return Scripted(status=status_code, body=self.WORDS.encode())

        with ScriptedServer(rule=lambda seen: answer(_Unzipped(seen))) as server:
            url = {"LANGFUSE_BASE_URL": server.url.removesuffix("/v1")}
            shown = [
                mirror(folder, langfuse, *command, **url)
                for command in (("flush", "--timeout", "2"), ("dead",), ("status", "--json"), ("verify", "--all"))
            ]
        told = [part for done in shown for part in (done.stdout, done.stderr)]
        assert any("no\\u001b[2Jway" in part or "no\\\\u001b[2Jway" in part for part in told)
        for part in told:
            assert "\x1b" not in part
            assert "\u202e" not in part
            assert "jane.roe" not in part
            assert "x" * 300 not in part
        kept = sqlite3.connect(folder / "goldfork.db")
        rows = kept.execute(
            "SELECT error FROM outbox WHERE error IS NOT NULL UNION SELECT extra FROM leases"
        ).fetchall()
        kept.close()
        assert rows
        assert "jane.roe" not in str(rows)
        assert all("x" * 300 not in text for (text,) in rows if text)


class _Unzipped:
    """A request with its body in plain."""

    def __init__(self, seen):
        self.method, self.path = seen.method, seen.path.partition("?")[0]
        zipped = seen.headers.get("content-encoding") == "gzip"
        self.body = gzip.decompress(seen.body) if zipped else seen.body


def test_something_dead_is_found_among_many_and_sent_again(fleet, store, server, sender, clock):
    """Page after page, whatever their number; 2,500 refused spans are three pages."""
    fleet.fill(store, 1)
    assert fleet.drive(sender, clock)
    run = fleet.fixed_id("run", 0)
    [entry] = store.outbox.entries(("run",), ("verified",), limit=1)
    spans = [
        fleet.replace(entry, kind="span", id=f"{owner}/{number:016x}", state="dead", error="HTTP 400")
        for owner in (run, "another")
        for number in range(1250)
    ]
    store.outbox.update(spans)
    assert len(list(dead(store))) == 2500
    again = []
    assert retry(store, run, clock=clock, each=again.append) == 1250
    assert {entry.id for entry in again} == {entry.id for entry in spans[:1250]}
    assert {entry.id for entry in dead(store)} == {entry.id for entry in spans[1250:]}
    assert store.outbox.counts()["pending"] == 1
    with pytest.raises(UsageError, match="nothing dead has the id"):
        retry(store, run, clock=clock)
    assert fleet.drive(sender, clock)


SETPRIV = shutil.which("setpriv")
UNPRIVILEGED = [SETPRIV, "--bounding-set=-all"] if SETPRIV and os.geteuid() == 0 else []


@pytest.mark.skipif(os.geteuid() == 0 and not SETPRIV, reason="root may write everywhere")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("run",), 2),
        (("dead", "--retry", "x"), 2),
        (("status",), 0),
        (("dead",), 0),
    ],
)
def test_a_database_that_cannot_be_written_can_be_looked_at_and_else_is_one_line(folder, langfuse, command, code):
    for path in [*folder.iterdir(), folder]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        done = mirror(folder, langfuse, *command, before=UNPRIVILEGED)
    finally:
        folder.chmod(0o700)
    assert done.returncode == code, done.stderr
    if code:
        assert done.stderr.startswith("goldfork: cannot open")
        assert done.stderr.count("\n") == 1
        assert langfuse.requests == []
    else:
        assert done.stderr == ""


@pytest.mark.parametrize("command", [("run",), ("flush",)])
def test_a_database_that_fails_while_a_sender_runs_ends_it_with_one_line(folder, langfuse, command):
    held = sqlite3.connect(folder / "goldfork.db")
    # As it is when the disk is full: what is read is fine, what is written is not.
    held.execute("CREATE TRIGGER full BEFORE UPDATE ON outbox BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    held.execute("CREATE TRIGGER full_too BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    held.commit()
    held.close()
    done = mirror(folder, langfuse, *command)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("goldfork: ")]
    assert "disk is full" in line
    assert [seen for seen in langfuse.requests if seen.path == SPANS] == []
