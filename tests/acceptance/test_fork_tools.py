"""Tools in ``goldfork run replay|fork`` as a user meets them: what stays dry, is past its ttl, is executed."""

import json
import os
import subprocess
import sys
import time

import pytest

APP = """
import pathlib
import harness


@harness.tool(determinism="time-bound", ttl=0.2)
def search(query):
    with open("searched", "a") as file:
        file.write(query + "\\n")
    return query + str(len(pathlib.Path("searched").read_text()))


@harness.tool(determinism="side-effect", stand_in="would be sent")
def send(text, to="[b]ada"):
    with open("sent", "a") as file:
        file.write(text + "\\n")
    return "sent"


@harness.step
def gather(ticket):
    return search(ticket)


@harness.step
def tone(word):
    return word.lower()


@harness.step
def reply(fact, mood):
    return send(fact + mood)


@harness.workflow("mail")
def mail(ticket):
    return reply(gather(ticket), tone("CALM"))
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "mail.py").write_text(APP)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "200", "NO_COLOR": "1"}

    def go(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-c", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    go("import mail; mail.mail('lost')")
    go.folder = tmp_path
    time.sleep(0.25)
    return go


def goldfork(project, *arguments, code=0):
    return project("from harness.cli import main; main()", "run", *arguments, "--target", "mail:mail", code=code)


def lines(project, name):
    path = project.folder / name
    return path.read_text().split() if path.exists() else []


def test_dry_effects_and_expired_results_are_shown(project):
    replayed = json.loads(goldfork(project, "replay", "mail", "--json").stdout)
    (blocked,) = replayed["blocked"]
    assert blocked["arguments"] == {"text": "lost5calm", "to": "[b]ada"}
    assert (blocked["step"], blocked["answered_by"]) == ("reply/send", "recording")
    assert "not executed: reply/send" in goldfork(project, "replay", "mail").stdout
    fork = ("fork", "mail", "--at", "tone", "--set", "output=loud")
    forked = json.loads(goldfork(project, *fork, "--json").stdout)
    assert [one["answered_by"] for one in forked["blocked"]] == ["stand-in"]
    (expired,) = forked["expired"]
    assert (expired["tool"], expired["step"], expired["ttl_s"], expired["action"]) == (
        "search",
        "gather/search",
        0.2,
        "kept",
    )
    assert expired["age_s"] >= 0.2
    shown = goldfork(project, *fork).stdout
    assert 'not executed: reply/send {"text":"lost5loud","to":"[b]ada"} · answered by the stand-in' in shown
    assert "expired: gather/search" in shown
    assert (len(lines(project, "searched")), len(lines(project, "sent"))) == (1, 1)


def test_expired_results_are_called_anew_on_demand(project):
    result = json.loads(
        goldfork(
            project, "fork", "mail", "--at", "tone", "--set", "output=loud", "--expired", "refresh", "--json"
        ).stdout
    )
    assert [one["action"] for one in result["expired"]] == ["refreshed"]
    assert {one["name"]: one["state"] for one in result["steps"]}["search"] == "called"
    assert len(lines(project, "searched")) == 2


def test_a_tool_is_refreshed_as_the_one_change(project):
    result = json.loads(goldfork(project, "fork", "mail", "--at", "gather", "--refresh", "search", "--json").stdout)
    assert result["change"] == {"kind": "refresh", "at": "gather", "name": "", "value": ["search"]}
    assert {one["name"]: one["state"] for one in result["steps"]}["search"] == "called"
    assert len(lines(project, "searched")) == 2
    both = goldfork(project, "fork", "mail", "--refresh", "search", "--set", "output=1", code=2)
    assert "exactly one change" in both.stderr
    assert "neither was given" in goldfork(project, "fork", "mail", code=2).stderr


def test_side_effects_are_executed_when_allowed_and_that_is_said(project):
    fork = ("fork", "mail", "--at", "tone", "--set", "output=loud", "--allow-side-effects", "--json")
    done = goldfork(project, *fork)
    result = json.loads(done.stdout)
    assert done.stderr.startswith("warning: side effects are executed for real in this fork of run ")
    assert done.stderr.count("\n") == 1
    assert result["blocked"] == []
    assert lines(project, "sent") == ["lost5calm", "lost5loud"]
    assert "--allow-side-effects" not in goldfork(project, "replay", "--help").stdout
