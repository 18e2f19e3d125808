"""``goldfork import langfuse`` against the double: complete, once, resumable, and never over what was recorded here."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest

from harness.errors import ReadError, UsageError
from harness.mirror import Window
from harness.mirror._read import ObservationReader
from harness.pipeline import plain
from harness.record import RunRecord
from harness.testing.langfuse_server import LangfuseServer


def test_a_trace_becomes_a_run_with_steps_and_messages(desk_on_each, span):
    desk = desk_on_each
    trace = desk.post(
        "t1",
        span("root", type="agent", name="agent", end=100, input={"q": "hi"}, output="yes", more={
            "user.id": "u-1", "session.id": "s-1", "langfuse.trace.tags": ["a", "b"], "langfuse.release": "r1",
            "langfuse.observation.metadata.note": json.dumps("n" * 700)}),
        span("tool", parent="root", type="tool", name="search", start=5, input={"x": 1}, output=[1, 2]),
        span("llm", parent="tool", type="generation", start=7, end=20, input=[{"role": "user", "content": "hey"}],
             output="ho", more={"langfuse.observation.model.name": "m-1",
                                "langfuse.observation.usage_details": {"input": 3, "output": 4}}),
    )  # fmt: skip
    result = desk.load()
    assert (len(result.imported), result.left_out, result.finished) == (1, [], True)
    recording = desk.store.recording(result.imported[0])
    run = recording.run
    assert (run.workflow, run.fidelity, run.usable, run.status) == ("shop", "imported", True, "ok")
    assert (run.tags, run.metadata["user_id"], run.metadata["session_id"]) == (("a", "b"), "u-1", "s-1")
    assert (run.metadata["release"], run.metadata["trace"]) == ("r1", trace)
    assert run.metadata["note"] == "n" * 700, "metadata that the list cuts is asked for again"
    assert plain(recording.read(run.input_hash)) == {"q": "hi"}
    root, tool = recording.steps
    assert (root.name, tool.name, tool.kind, tool.parent_id) == ("agent", "search", "tool", root.id)
    message = recording.messages[0]
    assert (message.step_id, message.model, message.usage.total, message.cost) == (tool.id, "m-1", 7, None)
    assert desk.store.check().ok
    assert desk.store.recording("shop") is None, "an imported run never answers for its workflow"


def test_imported_runs_are_not_for_the_mirror(desk, span):
    desk.post("t1", span("root"))
    desk.load()
    assert desk.store.load("outbox") == []


def test_again_changes_nothing_and_what_is_newer_replaces(desk_on_each, span):
    desk = desk_on_each
    desk.post("t1", span("root", start=100, end=200))
    first = desk.load().imported
    again = desk.load()
    assert (again.imported, again.updated, again.unchanged) == ([], [], 1)
    time.sleep(0.002)
    desk.post("t1", span("late", start=0, name="earlier root"), span("child", parent="root", start=120))
    newer = desk.load()
    assert (newer.imported, newer.updated) == ([], first), "an earlier start does not make it another run"
    assert len(desk.store.runs()) == 1
    recording = desk.store.recording(first[0])
    assert [step.name for step in recording.steps] == ["shop", "earlier root", "work", "work"]


def test_copies_that_are_not_merged_yet_count_once(desk, span):
    for _ in range(3):
        desk.post("t1", span("root"), span("llm", parent="root", type="generation", start=2))
    assert len(desk.server.rows) == 6
    run = desk.load().imported
    recording = desk.store.recording(run[0])
    assert (len(recording.steps), len(recording.messages)) == (1, 1)


def test_several_roots_are_one_run(desk, span):
    desk.post("t1", span("a", name="first"), span("b", name="second", start=50), span("c", parent="gone", start=70))
    result = desk.load()
    steps = desk.store.recording(result.imported[0]).steps
    assert [(step.name, step.parent_id) for step in steps] == [
        ("shop", None), ("first", steps[0].id), ("second", steps[0].id), ("work", steps[0].id)
    ]  # fmt: skip


FILTERS = {
    "environment": {"langfuse.environment": "production"},
    "tag": {"langfuse.trace.tags": ["vip", "x"]},
    "user": {"user.id": "u-7"},
    "session": {"session.id": "s-7"},
    "name": {"langfuse.trace.name": "billing"},
}
VALUES = {"environment": "production", "tag": "vip", "user": "u-7", "session": "s-7", "name": "billing"}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_choose(desk, span, name, window):
    desk.post("plain", span("root"))
    desk.post("chosen", span("root", more=FILTERS[name], start=5))
    for filters in ([(name, VALUES[name])], [(name, VALUES[name]), ("environment", "production")]):
        window = dataclasses.replace(window, filters=tuple(filters))
        found = desk.load(window)
        both = len(filters) == 2 and name != "environment"
        if len(filters) == 1:
            assert len(found.imported) == 1, filters
        assert found.unchanged == (0 if both or len(filters) == 1 else 1)


def test_the_window_is_by_the_start_of_the_root(desk, span, begin):
    desk.post("early", span("root", start=0))
    desk.post("late", span("root", start=60_000))
    window = Window(since=begin + timedelta(seconds=30), until=begin + timedelta(seconds=90))
    assert len(desk.load(window).imported) == 1
    window = Window(since=begin, until=begin + timedelta(seconds=60))
    assert len(desk.load(window).imported) == 1


def many(desk, span, count):
    for number in range(count):
        desk.post(f"t{number}", span(f"r{number}", start=number, input={"n": number}))


class Killed(Exception):
    """Stands for the end of the process."""


def test_an_import_that_stopped_goes_on_in_its_own_window(desk, span, window):
    many(desk, span, 250)

    def stop(result):
        if len(result.imported) + result.unchanged >= 130:
            raise Killed

    with pytest.raises(Killed):
        desk.load(progress=stop)
    assert desk.store.flush()
    before = len(desk.store.runs(limit=1000))
    assert 100 < before < 200, "in the middle of the second page"
    asked = len(desk.server.requests)
    later = dataclasses.replace(window, until=window.until + timedelta(hours=1))
    rest = desk.load(later, until_given=False)
    assert (rest.resumed, rest.window.until) == (True, window.until), "the end stays where it was frozen"
    assert (len(rest.imported), rest.unchanged) == (250 - before, before - 100), "only the page it stopped in is redone"
    assert len(desk.server.requests) - asked < 2 * 250
    runs = desk.store.runs(limit=1000)
    inputs = {plain(desk.store.recording(run.id).read(desk.store.run(run.id).input_hash))["n"] for run in runs}
    assert (len(runs), inputs) == (250, set(range(250)))
    fresh = desk.load(later, until_given=False)
    assert (fresh.resumed, fresh.window.until) == (False, later.until), "a finished import is not gone on with"


def test_a_limit_stops_and_the_next_call_goes_on(desk, span):
    many(desk, span, 7)
    counts = []
    for _ in range(4):
        result = desk.load(limit=3)
        counts.append((len(result.imported), result.finished))
    assert counts[:3] == [(3, False), (3, False), (1, True)]
    assert len(desk.store.runs()) == 7


def test_another_window_starts_anew(desk, span, window):
    many(desk, span, 3)
    desk.load(limit=1)
    other = desk.load(dataclasses.replace(window, since=window.since - timedelta(days=1)))
    assert (other.resumed, len(other.imported), other.unchanged) == (False, 2, 1)


def test_a_server_of_the_third_generation_is_refused_in_one_sentence(store, make_desk):
    with LangfuseServer("3.150.0") as old:
        desk = make_desk(old, store)
        with pytest.raises(UsageError) as caught:
            desk.load()
    said = str(caught.value)
    assert "v2 observations" in said
    assert "Langfuse 4" in said
    assert "\n" not in said


def test_wrong_keys_and_redirects_say_what_to_set(desk):
    desk.server.fault("401", times=1)
    with pytest.raises(UsageError, match="LANGFUSE_SECRET_KEY"):
        desk.load()
    desk.server.fault("302", times=1)
    with pytest.raises(UsageError, match="LANGFUSE_BASE_URL"):
        desk.load()


def test_outages_are_waited_for_and_then_named(desk, span):
    many(desk, span, 2)
    desk.server.fault("500", times=2)
    desk.server.fault("429", times=1, retry_after=3)
    desk.server.fault("cut-before", times=1)
    waits: list[float] = []
    desk.sleep = waits.append
    assert len(desk.load().imported) == 2
    assert len(waits) == 4
    assert max(waits) >= 3
    desk.server.fault("500")
    with pytest.raises(ReadError, match="start the import again"):
        desk.load()


def test_a_trace_that_the_server_chokes_on_is_named(desk, span):
    many(desk, span, 4)
    choked = desk.server.rows[1].trace_id
    desk.server.fault("500", when=lambda request: choked in str(request.query))
    result = desk.load()
    assert ([trace for trace, _ in result.left_out], len(result.imported)) == ([choked], 3)


def test_a_run_that_was_recorded_here_is_never_overwritten(desk, span):
    desk.post("t1", span("root"))
    identifier = desk.load().imported[0]
    here: RunRecord = dataclasses.replace(desk.store.run(identifier), fidelity="wire", workflow="ours")
    desk.store.write(here).result()
    time.sleep(0.002)
    desk.post("t1", span("more", parent="root", start=3))
    result = desk.load()
    assert (result.recorded, result.imported, result.updated) == (1, [], [])
    assert desk.store.run(identifier).workflow == "ours"


def test_pages_of_one_trace_are_put_together(desk, span):
    desk.post("t1", span("root", end=9000), *(span(f"c{n}", parent="root", start=n % 50) for n in range(450)))
    assert len(desk.store.recording(desk.load().imported[0]).steps) == 451
    assert len({one.id for one in ObservationReader(desk.project).trace(desk.server.rows[0].trace_id)}) == 451


def _command(desk, folder, *more):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GOLDFORK_DATABASE_URL": f"sqlite:///{folder}/goldfork.db",
        "LANGFUSE_PUBLIC_KEY": desk.server.public_key,
        "LANGFUSE_SECRET_KEY": desk.server.secret_key,
        "LANGFUSE_BASE_URL": desk.server.url,
        "NO_COLOR": "1",
    }
    command = [sys.executable, "-c", "from harness.cli import main; main()", "import", "langfuse", *more]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_command_prints_one_object_and_its_replay_is_refused_with_the_way_out(desk, span, tmp_path):
    desk.post("t1", span("root", input={"text": "hi"}))
    with _command(desk, tmp_path, "--since", "2026-11-01", "--until", "2026-11-30", "--json") as process:
        out, err = process.communicate(timeout=60)
    said = json.loads(out)
    assert (process.returncode, said["imported"], said["finished"], said["exit_code"]) == (0, 1, True, 0), err
    run = said["runs"][0]
    code = "from harness.cli import main; main()"
    refused = subprocess.run(
        [sys.executable, "-c", code, "run", "replay", run, "--target", "json:dumps"],
        cwd=tmp_path,
        env={**os.environ, "GOLDFORK_DATABASE_URL": f"sqlite:///{tmp_path}/goldfork.db"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "goldfork dataset rerecord" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--since", "yesterday"), "is no time"),
        (("--since", "2026-11-01", "--filter", "tag"), "NAME=VALUE"),
        (("--since", "2026-11-01", "--filter", "colour=red"), "is unknown"),
        (("--since", "2026-11-30", "--until", "2026-11-01"), "before --until"),
    ],
)
def test_wrong_options_are_one_line(desk, tmp_path, arguments, says):
    with _command(desk, tmp_path, *arguments) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_killed_at_any_moment_it_comes_in_once(desk, span, tmp_path):
    many(desk, span, 220)
    options = ("--since", "2026-11-01", "--until", "2026-11-30")
    for stop in (60, 130, 40):
        asked = len(desk.server.requests)
        with _command(desk, tmp_path, *options) as process:
            while len(desk.server.requests) < asked + stop and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
    with _command(desk, tmp_path, *options, "--json") as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["finished"]
    runs = desk.store.runs(limit=1000)
    found = [desk.store.recording(run.id) for run in runs]
    assert sorted(plain(one.read(one.run.input_hash))["n"] for one in found) == list(range(220))
    assert all(len(one.steps) == 1 for one in found)
    assert desk.store.check().ok
