"""The transcripts of docs/transcripts.md: each command runs and prints what the page says, ids and times masked."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "transcripts.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
END = "-- end of output --"
MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), "<run>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?"), "<time>"),
    (re.compile(r"\b\d+\.\d+ s\b"), "<seconds>"),
)


def masked(text):
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def parsed(page):
    """Commands with the output that the page shows; a command goes on over lines that end in a backslash."""
    found = []
    for block in BLOCK.findall(page):
        command, output, open_ = "", [], False
        for line in [*block.splitlines(), "$ "]:
            if line.startswith("$ "):
                if command:
                    found.append((command, "\n".join(output)))
                command, output, open_ = line[2:], [], line.endswith("\\")
            elif open_:
                command, open_ = f"{command}\n{line}", line.endswith("\\")
            else:
                output.append(line)
    return found


def ran(commands, folder):
    """What each command prints, in one shell, in a folder that holds the demo's dataset and an empty store."""
    (folder / "datasets").symlink_to(ROOT / "datasets")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GOLDFORK_", "OPENAI_", "LANGFUSE_"))}
    environment = clean | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT),
    }
    script = "".join(f"{command}\necho '{END}'\n" for command in commands)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=170,
        check=False,
    )
    return done.stdout.split(f"{END}\n")[: len(commands)]


def test_the_page_shows_what_the_commands_print(tmp_path):
    found = parsed(PAGE.read_text(encoding="utf-8"))
    verbs = [verb for verb in ("run replay", "--plan", "run fork", "run diff") if any(verb in c for c, _ in found)]
    assert verbs == ["run replay", "--plan", "run fork", "run diff"]
    printed = ran([command for command, _ in found], tmp_path)
    for (command, shown), real in zip(found, printed, strict=True):
        assert masked(real) == masked(shown), command
