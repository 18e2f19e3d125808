import subprocess
import sys

import harness

PUBLIC = [
    "Change",
    "GoldforkError",
    "GoldforkStop",
    "RecordingMissing",
    "SideEffectBlocked",
    "StoreError",
    "annotate",
    "branch",
    "carry",
    "fork_run",
    "install",
    "now",
    "prompt",
    "random",
    "recording",
    "replay_run",
    "step",
    "tool",
    "uuid",
    "workflow",
    "wrap",
]
HEAVY = ["torch", "sentence_transformers", "sklearn", "langfuse", "openai", "pandas", "sqlalchemy", "sqlmodel", "numpy"]


def test_the_public_names_are_these_and_sorted():
    assert harness.__all__ == sorted(harness.__all__, key=str) == PUBLIC
    assert len(PUBLIC) <= 25
    assert all(hasattr(harness, name) for name in PUBLIC)


def test_importing_harness_loads_nothing_heavy_and_touches_nothing(tmp_path):
    code = (
        "import sys, threading, socket, os\n"
        "before = set(os.listdir('.'))\n"
        "import harness\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not heavy, heavy\n"
        "assert threading.active_count() == 1\n"
        "assert set(os.listdir('.')) == before\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
