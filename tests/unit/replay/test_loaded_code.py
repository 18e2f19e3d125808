"""A long-lived process forks with the code it has loaded, whatever is on the disk by now."""

import importlib
import sys

import pytest

from harness.replay import code_version, fork_run, live_run, plan_fork
from harness.session import Change

FLOW = """
from harness.pipeline import step, workflow


@step
def work(n):
    return n + ADDED


@step
def mark(n):
    return "one"


@workflow("long-lived")
def run(n):
    return [work(n), mark(n)]
"""


@pytest.fixture
def flow(tmp_path, monkeypatch):
    package = tmp_path / "long_lived_app"
    package.mkdir()
    (package / "__init__.py").touch()
    path = package / "flow.py"
    path.write_text(FLOW.replace("ADDED", "0"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("long_lived_app.flow"), path
    for name in [name for name in sys.modules if name.startswith("long_lived_app")]:
        del sys.modules[name]


def test_a_fork_is_recorded_under_the_version_of_the_loaded_code(flow):
    module, path = flow
    parent = live_run(module.run, {"n": 1}).run
    loaded = code_version("long_lived_app")
    path.write_text(FLOW.replace("ADDED", "1"))
    assert code_version("long_lived_app") != loaded
    change = Change(kind="output", at="mark", value="two")
    plan = plan_fork(parent, change, target=module.run)
    fork = fork_run(parent, target=module.run, change=change, mode="replay")
    assert parent.run.code_version == fork.run.run.code_version == loaded
    assert (plan.code, fork.output) == ("same", [1, "two"])
