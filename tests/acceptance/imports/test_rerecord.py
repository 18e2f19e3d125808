"""``goldfork dataset rerecord``: an imported case becomes replayable, the others stay as they were."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys

import pytest

from harness.curation import Draft, choose, rerecord, stage, worn_cases
from harness.dataset import GoldenDataset
from harness.errors import DatasetMissing, LiveCallForbidden, TargetError, UsageError
from harness.replay import live_run, replay_run
from harness.testing import MemorySink, ScriptedServer

MODULE = "imports_pipeline"
SOURCE = """
import os
import openai
import harness

MODE = {"calls": 0, "jitter": False}


def client():
    return harness.wrap(openai.OpenAI(base_url=os.environ["IMPORTS_URL"], api_key="sk-test-0123456789", max_retries=0))


@harness.step
def draft(text):
    message = {"role": "user", "content": text}
    return client().chat.completions.create(model="m-1", messages=[message]).choices[0].message.content


@harness.workflow("desk")
def desk(text):
    if text == "bad":
        raise ValueError("no such ticket")
    MODE["calls"] += 1
    reply = draft(text)
    return f"{reply} {MODE['calls']}" if MODE["jitter"] else reply


@harness.workflow("hosted")
def hosted(text):
    shared = harness.wrap(openai.OpenAI(base_url="https://api.openai.com/v1", api_key="x", max_retries=0))
    return shared.chat.completions.create(model="m-1", messages=[{"role": "user", "content": text}]).id
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("code")
    (made / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    sys.path.insert(0, str(made))
    yield made
    sys.path.remove(str(made))
    sys.modules.pop(MODULE, None)


@pytest.fixture
def provider():
    with ScriptedServer() as running:
        before = os.environ.get("IMPORTS_URL")
        os.environ["IMPORTS_URL"] = running.url
        yield running
        if before is None:
            del os.environ["IMPORTS_URL"]


@pytest.fixture
def pipeline(folder, provider):
    module = importlib.import_module(MODULE)
    module.MODE.update(calls=0, jitter=False)
    return module


@pytest.fixture
def dataset(pipeline, tmp_path):
    """Three cases: one imported, one that will fail, one recorded here."""
    made = GoldenDataset.create(tmp_path / "desk", target=f"{MODULE}:desk")
    for name, text, fidelity in (("one", "hello", "imported"), ("bad", "bad", "imported"), ("here", "hi", "wire")):
        recording = live_run(pipeline.desk, {"text": text}).run
        run = dataclasses.replace(recording.run, fidelity=fidelity, status="ok")
        source = MemorySink()
        kept = dataclasses.replace(recording, run=run)
        source.recording = lambda ref, kept=kept, **_: kept
        stage(source, run.id, made, draft=Draft(id=name, expected_output="what is right", tags=("slow",)))
    made.snapshot(approve="ann")
    return made


def test_an_imported_case_gets_a_recording_that_replays_without_a_provider(dataset, pipeline, provider):
    before = dataset.case("one")
    assert [worn.case for worn in worn_cases(dataset)] == ["bad", "one"]
    sink = MemorySink()
    result = rerecord(dataset, choose(dataset, imported=True, cases=["one"]), sink=sink)
    assert ([one.case for one in result.renewed], result.failed) == (["one"], ())
    after = GoldenDataset.load(dataset.path).case("one")
    kept = ("input", "expected_output", "tags", "split", "approver", "metadata", "labels")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert (after.provenance["fidelity"], after.provenance["proven"]) == ("wire", True)
    assert after.provenance["renews"]["fidelity"] == "imported"
    assert after.provenance["run"] == result.renewed[0].runs[0] == sink.recording().run.id
    assert after.recordings != before.recordings
    calls = provider.calls
    assert replay_run(dataset.recording("one"), target=pipeline.desk).diff.output_equal
    assert provider.calls == calls
    assert dataset.snapshot() == 2, "an approved case stays approved, and the next version holds its new recording"
    assert dataset.verify() == ()


def test_a_case_whose_run_fails_stays_and_the_rest_is_renewed(dataset):
    before = dataset.case("bad")
    result = rerecord(dataset, choose(dataset, imported=True))
    assert [one.case for one in result.renewed] == ["one"]
    assert [left.case for left in result.failed] == ["bad"]
    assert "no such ticket" in result.failed[0].reason
    assert GoldenDataset.load(dataset.path).case("bad") == before


def test_a_run_that_its_replay_does_not_repeat_proves_nothing(dataset, pipeline):
    before = dataset.case("one")
    pipeline.MODE["jitter"] = True
    result = rerecord(dataset, ["one"])
    assert "another output" in result.failed[0].reason
    assert GoldenDataset.load(dataset.path).case("one") == before


def test_replay_of_an_imported_case_names_the_command(dataset, pipeline):
    with pytest.raises(UsageError, match="dataset rerecord"):
        replay_run(dataset.recording("one"), target=pipeline.desk)


def test_a_recording_under_other_key_rules_is_worn_and_can_be_renewed(dataset):
    ref = dataset.case("here").recordings[0]
    path = dataset.path / "recordings" / f"{ref.digest}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"rules":"v1"', b'"rules":"v0"', 1))
    assert b'"v0"' in path.read_bytes()
    found = {worn.case: worn.why for worn in worn_cases(dataset)}
    assert "v0" in found["here"]
    assert rerecord(dataset, ["here"]).failed == ()
    assert [worn.case for worn in worn_cases(dataset)] == ["bad", "one"]


def test_every_recorded_trial_is_made_again(dataset, provider):
    recording = dataset.recording("here")
    dataset.put_recording("here", recording, trial=1)
    calls = provider.calls
    result = rerecord(dataset, ["here"])
    assert len(result.renewed[0].runs) == 2
    assert provider.calls == calls + 2
    assert [(ref.arm, ref.trial) for ref in dataset.case("here").recordings] == [("recorded", 0), ("recorded", 1)]


def test_wrong_requests_change_nothing(dataset, tmp_path):
    with pytest.raises(DatasetMissing, match="no case 'absent'"):
        choose(dataset, imported=False, cases=["absent"])
    with pytest.raises(UsageError, match="not imported"):
        choose(dataset, imported=True, cases=["here"])
    bare = GoldenDataset.create(tmp_path / "bare", target="")
    with pytest.raises(TargetError, match="names no target"):
        rerecord(bare, [])
    with pytest.raises(TargetError):
        rerecord(dataset, ["one"], target="no.such.module:f")


def test_without_a_key_it_stops_before_anything_leaves(dataset, provider):
    before = dataset.case("one"), provider.calls
    with pytest.raises(LiveCallForbidden, match="OPENAI_API_KEY"):
        rerecord(dataset, ["one", "here"], target=f"{MODULE}:hosted")
    assert (GoldenDataset.load(dataset.path).case("one"), provider.calls) == before


def _command(dataset, folder, provider, *more):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(folder),
        "IMPORTS_URL": provider.url,
        "NO_COLOR": "1",
    }
    command = [
        sys.executable,
        "-c",
        "from harness.cli import main; main()",
        "dataset",
        "rerecord",
        str(dataset.path),
        *more,
    ]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_command_lists_first_and_renews_when_told(dataset, folder, provider):
    calls = provider.calls
    listed = _command(dataset, folder, provider, "--json")
    assert listed.returncode == 0, listed.stderr
    assert [one["case"] for one in json.loads(listed.stdout)["would_renew"]] == ["bad", "one"]
    assert provider.calls == calls
    done = _command(dataset, folder, provider, "--imported", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["exit_code"]) == (1, 1), done.stderr
    assert [one["case"] for one in said["renewed"]] == ["one"]
    assert [one["case"] for one in said["failed"]] == ["bad"]
    one = _command(dataset, folder, provider, "--case", "one")
    assert one.returncode == 0, one.stderr
    assert "renewed one" in one.stdout
