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
    "harness/replay/_running.py": "whatever the application raises is the trial's outcome",
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


def parameters(node):
    told = node.args
    names = [one.arg for one in (*told.posonlyargs, *told.args, *told.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def is_command(node):
    """Whether it is a command, whose parameters are its options: as many as the page in the docs lists."""
    calls = [one.func for one in node.decorator_list if isinstance(one, ast.Call)]
    return any(isinstance(one, ast.Attribute) and one.attr in {"command", "callback"} for one in calls)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_function_takes_at_most_8_parameters(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_command(node):
            assert len(parameters(node)) <= 8, f"{node.name} takes {', '.join(parameters(node))}"


def is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_private_name_and_no_private_module_of_another_package_is_imported(path):
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(("harness", "evaluators")):
            continue
        for alias in node.names:
            module = is_module(f"{node.module}.{alias.name}")
            parts = [*node.module.split("."), *([alias.name] if module else [])]
            private = next((index for index, part in enumerate(parts) if part.startswith("_")), None)
            where = f"line {node.lineno} imports {alias.name} from {node.module}"
            assert module or alias.name.startswith("__") or not alias.name.startswith("_"), where
            # A private module is seen by its own package and the packages inside it.
            assert private is None or list(package[:private]) == parts[:private], where


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
