"""Every code block of README and quickstart runs, against a real server on loopback."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.testing import ScriptedServer
from harness.testing.langfuse_server import LangfuseServer

ROOT = Path(__file__).parents[2]
BIN = str(Path(sys.executable).parent)


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def run(tmp_path):
    """Run a command in an empty project, with a real OpenAI-compatible server at the usual variable."""
    with ScriptedServer() as server:
        environment = {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "sk-test-0123456789",
            "NO_COLOR": "1",
        }

        def go(*command):
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            return done.stdout

        yield go


def test_the_ten_lines_of_the_readme_run(run, tmp_path):
    (tmp_path / "support.py").write_text("\n".join(blocks("README.md", "python")))
    first, spent, saved = run(sys.executable, "support.py").split()
    assert first == "draft"
    assert int(spent) > 0
    assert int(saved) == 0


def test_the_two_commands_of_the_readme_are_targets():
    [commands] = blocks("README.md", "sh")
    targets = re.findall(r"^make (\w+)", commands, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.slow
def test_the_quickstart_gives_a_first_case(run, tmp_path):
    commands = [
        line
        for block in blocks("docs/quickstart.md", "sh")
        for line in block.splitlines()
        if line and not line.startswith("pip ")
    ]
    assert len(commands) >= 8
    printed = [run("bash", "-c", command) for command in commands]
    evaluation = printed[[c.startswith("goldfork eval datasets/first") for c in commands].index(True)]
    assert "EQUIVALENT" in evaluation
    assert (tmp_path / "datasets" / "first" / "cases" / "parcel-late.json").is_file()


def test_the_commands_of_the_langfuse_page_run(run, tmp_path):
    commands = [line for block in blocks("docs/langfuse.md", "sh test") for line in block.splitlines() if line]
    assert len(commands) == 7
    (tmp_path / "support.py").write_text("\n".join(blocks("README.md", "python")))
    with LangfuseServer() as server:
        keys = f"LANGFUSE_BASE_URL={server.url} LANGFUSE_PUBLIC_KEY={server.public_key}"
        keys += f" LANGFUSE_SECRET_KEY={server.secret_key}"
        run(sys.executable, "support.py")
        for command in commands:
            run("bash", "-c", f"{keys} {command}")
        assert {row["traceName"] for row in server.observations()} == {"support"}


def test_the_commands_of_the_opentelemetry_page_run(run, tmp_path):
    commands = [line for block in blocks("docs/opentelemetry.md", "sh test") for line in block.splitlines() if line]
    assert len(commands) == 2
    begun = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "chat", "startTimeUnixNano": "1764500400000000000"}
    told = {"resourceSpans": [{"scopeSpans": [{"spans": [begun]}]}]}
    (tmp_path / "traces.jsonl").write_text(json.dumps(told) + "\n")
    printed = [run("bash", "-c", command) for command in commands]
    assert [text.splitlines()[1][:34] for text in printed] == [
        "1 imported, 0 updated, 0 unchanged",
        "0 imported, 0 updated, 1 unchanged",
    ]


@pytest.mark.parametrize(
    "path", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
def test_links_lead_somewhere(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert ((ROOT / path).parent / target).exists(), target
