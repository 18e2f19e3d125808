"""A small dataset of a toy pipeline, recorded once through the command itself."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cli import main
from harness.dataset import Case, GoldenDataset
from harness.store import open_store
from harness.testing import ScriptedServer

ROOT = Path(__file__).parents[3]
ENV = {"COLUMNS": "200", "NO_COLOR": "1"}
COMMAND = [sys.executable, "-c", "from harness.cli import main; main()"]

PIPELINE = """
import os

from openai import OpenAI

from harness.gateway import wrap
from harness.pipeline import prompt, step, workflow

client = wrap(
    OpenAI(base_url=os.environ.get("TOY_URL", "http://127.0.0.1:9/v1"), api_key="sk-toy-000000000000", max_retries=0)
)
ANSWER = prompt("answer", "Answer this: {text}")


def ask(question):
    if os.environ.get("TOY_DIE"):
        os.kill(os.getpid(), 9)
    reply = client.chat.completions.create(model="toy-1", messages=[{"role": "user", "content": question}])
    return reply.choices[0].message.content


@step
def look(text):
    return text.strip().lower()


@step
def answer(text):
    return ask(ANSWER.format(text=text))


@workflow("toy")
def run(text):
    return {"answer": answer(look(text))}
"""

EVALUATORS = '''
from toy import ask


def right(output, expected_output):
    return output == expected_output


def mild(output):
    """A negative check: nothing rude is said."""
    return "damn" not in output["answer"]


class Polite:
    version = "1"

    def evaluate(self, output):
        return ask("Is this polite? " + output["answer"]) == "yes"
'''

MANIFEST = """
[gate]
scorers = ["right"]
min_measured = 0.9

[[evaluators]]
name = "right"
use = "toy_evaluators:right"

[[evaluators]]
name = "mild"
use = "toy_evaluators:mild"
"""


def reply(seen):
    """Deterministic answers; the judge says yes."""
    question = seen.json["messages"][0]["content"]
    return "yes" if question.startswith("Is this polite?") else f"reply to {question}"


@dataclass
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@contextlib.contextmanager
def inside(path, env):
    """The folder, environment and import state that a fresh process would have there."""
    before = dict(os.environ), list(sys.path), Path.cwd()
    for name in [name for name in os.environ if name.startswith(("GOLDFORK_", "OPENAI_"))]:
        del os.environ[name]
    os.environ.update(env)
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before[2])
        sys.path[:] = before[1]
        os.environ.clear()
        os.environ.update(before[0])
        for name in ("toy", "toy_evaluators"):
            sys.modules.pop(name, None)


@dataclass
class Toy:
    """A folder with a pipeline, its evaluators and a dataset, and the command to run in it."""

    path: Path

    @property
    def dataset(self):
        return GoldenDataset.load(self.path / "toyset")

    def start(self, *arguments, **env):
        """Start the command in a process of its own, without waiting for it."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GOLDFORK_", "OPENAI_"))}
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.path,
            env=clean | ENV | {"PYTHONPATH": str(ROOT)} | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments, **env):
        """Run the command to its end, in this process: ten times as fast."""
        out, err = io.StringIO(), io.StringIO()
        argv, sys.argv = sys.argv, ["goldfork", *arguments]
        try:
            with inside(self.path, ENV | env), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.argv = argv
        return Outcome(code, out.getvalue(), err.getvalue())

    def edit(self, name, old, new):
        """Replace text in a file that must hold it."""
        file = self.path / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def manifest(self, tail):
        """Replace everything in dataset.toml from its first table on, and freeze a new version."""
        file = self.path / "toyset" / "dataset.toml"
        head = file.read_text().partition("\n[")[0]
        file.write_text(f"{head}\n{tail}")
        self.dataset.snapshot()


def finish(process, timeout=60):
    """Wait for a command that was started."""
    out, err = process.communicate(timeout=timeout)
    return Outcome(process.returncode, out, err)


def signalled(process, number, when, timeout=30):
    """Send a signal once ``when()`` holds."""
    deadline = time.monotonic() + timeout
    while not when():
        assert process.poll() is None, "the command ended early"
        assert time.monotonic() < deadline, "it never came to the point"
        time.sleep(0.01)
    process.send_signal(number)


def build(path, server, *, cases, trials=1):
    """A dataset whose cases have been recorded, at version 1."""
    (path / "toy.py").write_text(PIPELINE)
    (path / "toy_evaluators.py").write_text(EVALUATORS)
    made = GoldenDataset.create(path / "toyset", target="toy:run", code="toy")
    for name in cases:
        text = f"Answer this: {name}"
        made.put_case(
            Case(id=name, input={"text": name.upper()}, expected_output={"answer": f"reply to {text}"}, approver="me")
        )
    open_store(f"sqlite:///{path / 'empty.db'}").close()
    toy = Toy(path)
    toy.manifest(MANIFEST)
    if trials > 1:
        toy.edit("toyset/dataset.toml", "trials = 1", f"trials = {trials}")
    done = toy("eval", "toyset", "--mode", "live", "--save-recordings", TOY_URL=server.url)
    assert done.code in {0, 1}, done.err
    toy.dataset.snapshot()
    return toy


def copied(toy, tmp_path):
    """A copy of the folder without what was stored there."""
    path = tmp_path / "work"
    shutil.copytree(toy.path, path, ignore=shutil.ignore_patterns(".goldfork", "__pycache__"))
    (path / ".goldfork").mkdir()
    # An empty database that need not be made again by every test.
    (path / "empty.db").rename(path / ".goldfork" / "goldfork.db")
    return Toy(path)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    with ScriptedServer(rule=reply) as server:
        return build(tmp_path_factory.mktemp("recorded"), server, cases=("ants", "bees", "cats"))


@pytest.fixture
def toy(recorded, tmp_path):
    """A fresh copy of the recorded dataset."""
    return copied(recorded, tmp_path)


@pytest.fixture(scope="session")
def recorded_twenty(tmp_path_factory):
    with ScriptedServer(rule=reply) as server:
        return build(tmp_path_factory.mktemp("twenty"), server, cases=[f"case{k:02}" for k in range(20)])


@pytest.fixture
def twenty(recorded_twenty, tmp_path):
    """A dataset of twenty cases."""
    return copied(recorded_twenty, tmp_path)


class Stalling:
    """A rule that answers the first ``quick`` requests and keeps all later ones waiting."""

    def __init__(self, quick):
        self.quick = quick
        self.released = threading.Event()

    def __call__(self, seen):
        if seen.number >= self.quick:
            self.released.wait(60)
        return reply(seen)


@pytest.fixture
def stalling():
    """A factory of servers that stop answering after some requests; released at the end of the test."""
    with contextlib.ExitStack() as stack:

        def make(quick):
            rule = Stalling(quick)
            server = stack.enter_context(ScriptedServer(rule=rule))
            stack.callback(rule.released.set)
            server.release = rule.released.set
            return server

        yield make


@pytest.fixture
def server():
    with ScriptedServer(rule=reply) as running:
        yield running


@pytest.fixture(scope="session")
def tools():
    """What a test needs beside the fixtures; test files of this suite import nothing from each other."""

    class Tools:
        build = staticmethod(build)
        copied = staticmethod(copied)
        finish = staticmethod(finish)
        inside = staticmethod(inside)
        signalled = staticmethod(signalled)

    return Tools
