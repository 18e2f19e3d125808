"""The house rules that no linter knows (CONTRIBUTING.md)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for path in [*(ROOT / "harness").rglob("*.py"), *(ROOT / "evaluators").rglob("*.py")]
    if "migrations" not in path.parts  # a schema is one long list
)
BROAD = {
    "harness/pipeline/_snapshot.py": "classes of the application may raise anything; its run must go on",
    "harness/replay/_replay.py": "whatever the application raises is the trial's outcome",
    "harness/replay/_target.py": "a module may raise anything when it is imported",
    "harness/experiment/_scoring.py": "a crashed evaluator is a failed score",
    "harness/experiment/_summary.py": "so is one that crashes over the whole set",
    "harness/session/_prompts.py": "a prompt source is somebody else's plugin; the written text stands in",
    "harness/store/_writer.py": "a dead writer would leave every later caller waiting for ever",
}


def relative(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_file_stays_under_400_lines_and_a_body_under_50(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= 50, f"{node.name} has {length} lines"


def test_broad_handlers_stand_in_the_named_places_only():
    found = {
        relative(path)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler) and getattr(node.type, "id", None) == "Exception"
    }
    assert found <= BROAD.keys()


def test_datasets_hold_data_only():
    assert not list((ROOT / "datasets").rglob("*.py"))
