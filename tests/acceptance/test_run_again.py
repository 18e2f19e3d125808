"""``goldfork run`` on what an earlier command left in the store: forks made again, controls, replays of a dataset."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.testing import ScriptedServer

AGENT = """
import os
import openai
import harness

client = harness.wrap(openai.OpenAI(base_url=os.environ["URL"], api_key="sk-test-0123456789", max_retries=0))
DRAFT = harness.prompt("draft", "Answer: {text}")


def ask(text):
    message = {"role": "user", "content": text}
    return client.chat.completions.create(model="m-1", messages=[message]).choices[0].message.content


@harness.tool(determinism="side-effect")
def send(text):
    with open("sent", "a") as file:
        file.write(text + "\\n")
    return "sent"


@harness.step
def draft(text):
    return ask(DRAFT.format(text=text))


@harness.workflow("desk")
def desk(text):
    return send(draft(text)[:0])
"""
ROOT = Path(__file__).parents[2]
FORK = ["run", "fork", "desk", "--target", "desk:desk", "--at", "draft", "--set", "prompt:draft=New: {text}", "--json"]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "desk.py").write_text(AGENT)
    with ScriptedServer() as server:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "URL": server.url,
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }

        def go(*command, code=0):
            done = subprocess.run(
                [sys.executable, "-c", *command],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == code, done.stdout + done.stderr
            return done

        def goldfork(*arguments, code=0):
            return go("from harness.cli import main; main()", *arguments, code=code)

        go("import desk; desk.desk('parcel')")
        goldfork.requests = lambda: len(server.requests)
        goldfork.go, goldfork.folder = go, tmp_path
        yield goldfork


def test_a_fork_made_again_is_answered_by_the_first_unless_asked_anew(project):
    first = json.loads(project(*FORK).stdout)
    before = project.requests()
    done = project(*FORK)
    again = json.loads(done.stdout)
    assert (again["provider_calls"], project.requests()) == (0, before)
    assert f"an earlier fork with this change, {first['run']}, answers first" in done.stderr
    assert {step["name"]: step["settled"] for step in again["steps"]} == {"draft": "re-run", "send": "dry"}
    replayed = json.loads(project(*FORK, "--mode", "replay").stdout)
    assert (replayed["provider_calls"], replayed["status"], project.requests()) == (0, "ok", before)
    live = project(*FORK, "--mode", "live")
    assert (json.loads(live.stdout)["provider_calls"], live.stderr) == (1, "")
    assert project.requests() == before + 1


def test_control_forks_are_replayed_and_the_missing_ones_are_named(project):
    made = json.loads(project(*FORK, "--controls", "2").stdout)
    assert made["control_cost"]["provider_calls"] == 2
    before = project.requests()
    again = json.loads(project(*FORK, "--controls", "2", "--mode", "replay").stdout)
    assert [one["status"] for one in again["controls"]] == ["ok", "ok"]
    assert [one["output_equal"] for one in again["controls"]] == [one["output_equal"] for one in made["controls"]]
    assert (again["control_cost"]["provider_calls"], again["jitter"]) == (0, made["jitter"])
    runs = len(project("run", "list", "--json").stdout.splitlines())
    refused = project(*FORK, "--controls", "3", "--mode", "replay", code=2)
    assert "1 of 3 control forks" in refused.stderr
    assert "control:3@draft" in refused.stderr
    # It is refused before anything runs.
    assert len(project("run", "list", "--json").stdout.splitlines()) == runs
    assert project.requests() == before


def test_what_is_to_happen_anew_is_not_taken_from_an_earlier_fork(project):
    project(*FORK)
    before = project.requests()
    for _ in range(2):
        project(*FORK, "--allow-side-effects")
    assert project.requests() == before + 2
    assert len((project.folder / "sent").read_text().splitlines()) == 3


ONLY_REPLAYS = """
from harness.replay import live_run, replay_run
from harness.session import process_store
from harness.store import open_store
import desk

store = process_store()
parent = store.recording("desk")
other = open_store("sqlite:///only/.goldfork/goldfork.db", durability="normal")
replay_run(parent, target=desk.desk, sink=other)
other.close()
"""


def test_a_workflow_known_from_replays_alone_goes_by_its_name(project):
    (project.folder / "only" / ".goldfork").mkdir(parents=True)
    project.go(ONLY_REPLAYS)
    (project.folder / "only" / ".goldfork").rename(project.folder / "replays")
    (project.folder / ".goldfork").rename(project.folder / "before")
    (project.folder / "replays").rename(project.folder / ".goldfork")
    [line] = project("run", "list", "--json").stdout.splitlines()
    row = json.loads(line)
    assert row["mode"] == "replay"
    done = project("run", "replay", "desk", "--target", "desk:desk", "--json")
    assert json.loads(done.stdout)["parent"] == row["run"]
    assert f"'desk' has no run of its own; taken is {row['run']}, a replay" in done.stderr


def test_a_case_that_was_evaluated_goes_by_its_workflows_name(project):
    shutil.copytree(ROOT / "datasets", project.folder / "datasets")
    one_case = ("datasets/triage", "--case", "parcel-late-01", "--report-only")
    evaluated = json.loads(project("eval", *one_case, "--json").stdout)
    for _ in range(2):
        # What the first replay left in the store is not what the second one takes.
        done = project("run", "replay", "triage", "--target", "harness.demo.triage:triage", "--json")
        result = json.loads(done.stdout)
        assert (result["first_divergence"], result["provider_calls"]) == (None, 0)
        assert f"of case 'parcel-late-01' in experiment {evaluated['experiment']}" in done.stderr


def test_a_workflow_without_a_good_run_is_told_what_to_name(project):
    project(*FORK)
    (project.folder / "broken.py").write_text(AGENT.replace('"desk")', '"broken")').replace("[:0]", "[0:0] + 1"))
    project.go("import broken; broken.desk('x')", code=1)
    done = project("run", "show", "broken", code=2)
    assert "workflow 'broken' has no good run of its own" in done.stderr
    assert "error): name one by its id, `goldfork run list --workflow broken` shows them" in done.stderr
    assert done.stderr.count("\n") == 1


MUTATING = """
import harness


@harness.step
def collect(facts):
    facts[0]["[b]words"].append("x")
    return 1


@harness.workflow("mutating")
def mutating(n):
    facts = [{"[b]words": []}]
    return [collect(facts), facts]
"""


def test_a_mutated_argument_is_named_in_terminal_and_json(project):
    (project.folder / "mutating.py").write_text(MUTATING)
    project.go("import mutating; mutating.mutating(1)")
    shown = json.loads(project("run", "show", "mutating", "--json").stdout)
    (found,) = shown["mutations"]
    assert (found["step"], found["argument"], found["path"]) == ("collect", "facts", "$[0]['[b]words'][0]")
    line = (
        "mutated: step 'collect' changed its argument 'facts' at $[0]['[b]words'][0] "
        f"(hash {found['before'][:8]}, then {found['after'][:8]})"
    )
    assert line in project("run", "show", "mutating").stdout
    replay = ("run", "replay", "mutating", "--target", "mutating:mutating")
    assert line in project(*replay).stdout
    assert json.loads(project(*replay, "--json").stdout)["mutations"] == [found]
