"""Prompts kept in Langfuse, as a user types them: in the code, and with ``--set prompt:NAME=langfuse:…``."""

import json
import os
import subprocess
import sys

import pytest

from harness.mirror import Project
from harness.testing import ScriptedServer
from harness.testing.langfuse_server import LangfuseServer

AGENT = """
import os
import openai
import harness

client = harness.wrap(openai.OpenAI(base_url=os.environ["URL"], api_key="sk-test-0123456789", max_retries=0))
DRAFT = harness.prompt("draft", source="langfuse:desk/draft@production")


@harness.step
def draft(text):
    message = {"role": "user", "content": DRAFT.format(text=text)}
    return client.chat.completions.create(model="m-1", messages=[message]).choices[0].message.content


@harness.workflow("desk")
def desk(text):
    return {"reply": draft(text)}
"""


class Desk:
    def __init__(self, folder, langfuse, model):
        self.folder, self.langfuse, self.model = folder, langfuse, model
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "URL": model.url,
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "LANGFUSE_PUBLIC_KEY": langfuse.public_key,
            "LANGFUSE_SECRET_KEY": langfuse.secret_key,
            "LANGFUSE_BASE_URL": langfuse.url,
        }

    def go(self, *command, code=0):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def goldfork(self, *arguments, code=0):
        return self.go("-c", "from harness.cli import main; main()", *arguments, code=code)

    def publish(self, text, label):
        project = Project(
            public_key=self.langfuse.public_key, secret_key=self.langfuse.secret_key, base_url=self.langfuse.url
        )
        body = json.dumps({"name": "desk/draft", "type": "text", "prompt": text, "labels": [label]}).encode()
        project.post("/api/public/v2/prompts", body, headers={"content-type": "application/json"})
        project.close()

    def asked(self):
        return [request.json["messages"][0]["content"] for request in self.model.requests]


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "desk.py").write_text(AGENT)
    with LangfuseServer() as langfuse, ScriptedServer() as model:
        yield Desk(tmp_path, langfuse, model)


def test_a_run_uses_the_label_and_its_replay_needs_no_langfuse(desk):
    desk.publish('Answer {{text}} as {"a": 1}', "production")
    desk.go("-c", "import desk; desk.desk('parcel')")
    assert desk.asked() == ['Answer parcel as {"a": 1}']
    desk.publish("Changed {{text}}", "production")
    desk.langfuse.requests.clear()
    replayed = json.loads(desk.goldfork("run", "replay", "desk", "--target", "desk:desk", "--json").stdout)
    assert replayed["first_divergence"] is None
    assert replayed["provider_calls"] == 0
    assert desk.langfuse.requests == []


def test_a_fork_takes_its_prompt_from_a_label_and_says_which_version(desk):
    desk.publish("Answer {{text}}", "production")
    desk.go("-c", "import desk; desk.desk('parcel')")
    desk.publish("Answer {{text}} kindly", "candidate")
    change = "prompt:draft=langfuse:desk/draft@candidate"
    told = ("run", "fork", "desk", "--at", "draft", "--target", "desk:desk", "--json", "--set")
    forked = json.loads(desk.goldfork(*told, change).stdout)
    assert forked["change"]["value"] == "Answer {text} kindly"
    origin = {"source": "langfuse", "name": "desk/draft", "version": 2, "label": "candidate"}
    assert forked["change"]["origin"] == origin
    assert desk.asked() == ["Answer parcel", "Answer parcel kindly"]


def test_a_label_that_is_not_there_stops_before_any_model_is_called(desk):
    failed = desk.go("-c", "import desk; desk.desk('parcel')", code=1)
    assert "has no prompt 'desk/draft' with the label 'production'" in failed.stderr
    assert len(desk.model.requests) == 0
    desk.publish("Answer {{text}}", "production")
    desk.go("-c", "import desk; desk.desk('parcel')")
    before = len(desk.model.requests)
    told = ("run", "fork", "desk", "--at", "draft", "--target", "desk:desk", "--set")
    failed = desk.goldfork(*told, "prompt:draft=langfuse:desk/draft@nowhere", code=2)
    assert failed.stderr.startswith("goldfork: ")
    assert "with the label 'nowhere'" in failed.stderr
    assert len(desk.model.requests) == before


def test_keys_never_show(desk):
    desk.environment["LANGFUSE_SECRET_KEY"] = "sk-lf-wrong-0123456789"
    failed = desk.go("-c", "import desk; desk.desk('parcel')", code=1)
    assert "cannot be fetched from Langfuse" in failed.stderr
    assert "sk-lf-wrong-0123456789" not in failed.stderr + failed.stdout
