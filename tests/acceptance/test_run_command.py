"""``goldfork run`` as a user types it, against a real server on loopback."""

import json
import os
import subprocess
import sys

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


@harness.step
def plan(text):
    return ask("Plan: " + text)


@harness.step
def draft(text, plan):
    return ask(DRAFT.format(text=text))


@harness.tool(determinism="side-effect", stand_in="not sent")
def send(text):
    return "sent"


@harness.workflow("desk")
def desk(text):
    reply = draft(text, plan(text))
    return {"reply": reply, "sent": send(reply)}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "desk.py").write_text(AGENT)
    with ScriptedServer() as server:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "URL": server.url,
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }

        def go(*command, code=0):
            done = subprocess.run(
                [sys.executable, *command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == code, done.stdout + done.stderr
            return done

        def goldfork(*arguments, code=0):
            return go("-c", "from harness.cli import main; main()", *arguments, code=code)

        go("-c", "import desk; desk.desk('parcel')")
        goldfork.requests = lambda: len(server.requests)
        yield goldfork


def test_list_and_show(project):
    [line] = project("run", "list", "--json").stdout.splitlines()
    row = json.loads(line)
    assert (row["workflow"], row["status"], row["mode"], row["messages"]) == ("desk", "ok", "live", 2)
    shown = json.loads(project("run", "show", row["run"][:20], "--json").stdout)
    assert shown["input"] == {"text": "parcel"}
    assert shown["output"]["sent"] == "sent"
    assert [step["address"] for step in shown["steps"]] == ["desk", "plan", "draft", "send"]
    assert "draft" in project("run", "show", "desk").stdout


def test_replay_is_equal_and_asks_nobody(project):
    before = project.requests()
    result = json.loads(project("run", "replay", "desk", "--target", "desk:desk", "--json").stdout)
    assert result["first_divergence"] is None
    assert result["provider_calls"] == 0
    assert {step["name"]: step["state"] for step in result["steps"]} == {"plan": "run", "draft": "run", "send": "dry"}
    assert all(step["equal"] for step in result["steps"])
    assert project.requests() == before


def test_fork_asks_only_for_what_is_new(project):
    before = project.requests()
    fork = ["run", "fork", "desk", "--target", "desk:desk", "--at", "draft", "--set", "prompt:draft=New: {text}"]
    result = json.loads(project(*fork, "--json").stdout)
    assert {step["name"]: step["state"] for step in result["steps"]} == {
        "plan": "reused",
        "draft": "run",
        "send": "dry",
    }
    assert (result["first_divergence"], result["at"]) == ("draft", "draft")
    assert result["provider_calls"] == 1
    assert project.requests() == before + 1
    assert result["tokens"]["spent"] > 0
    assert result["tokens"]["saved"] > 0
    diff = json.loads(project("run", "diff", result["parent"], result["run"], "--json").stdout)
    assert diff["first_divergence"] == "draft"


def test_a_fork_in_replay_says_what_is_missing(project):
    done = project(
        *["run", "fork", "desk", "--target", "desk:desk", "--at", "draft", "--mode", "replay"],
        *["--set", "prompt:draft=Never seen: {text}"],
        code=1,
    )
    assert "not recorded" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "show", "nobody"], "no run 'nobody'"),
        (["run", "replay", "desk", "--target", "desk"], "package.module:function"),
        (["run", "replay", "desk", "--target", "nothing:here"], "nothing:here"),
        (["run", "fork", "desk", "--target", "desk:desk", "--at", "zzz", "--set", "model=m-2"], "no step 'zzz'"),
        (["run", "fork", "desk", "--target", "desk:desk", "--at", "draft", "--set", "wrong"], "--set 'wrong'"),
        (
            ["run", "fork", "desk", "--target", "desk:desk", "--at", "draft", "--set", "prompt:draft=@no.txt"],
            "cannot read",
        ),
    ],
)
def test_bad_input_is_one_line(project, arguments, says):
    done = project(*arguments, code=2)
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_tags_are_replaced_or_taken_away(project):
    shown = json.loads(project("run", "tag", "desk", "good", "ü [b]x", "--json").stdout)
    assert (shown["tags"], shown["before"]) == (["good", "ü [b]x"], [])
    assert "good, [b]x" in project("run", "tag", "desk", "good", "[b]x").stdout
    again = json.loads(project("run", "tag", shown["run"][:20], "--json").stdout)
    assert again == {"run": shown["run"], "tags": [], "before": ["good", "[b]x"]}
    assert "no tags" in project("run", "tag", "desk").stdout


def test_tags_of_no_run_are_refused_in_one_line(project):
    done = project("run", "tag", "ffffffff", "x", code=2)
    assert "ffffffff" in done.stderr
    assert done.stderr.count("\n") == 1
