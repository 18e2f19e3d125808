"""Two workflows of one name in one process: the later one would be run for the recordings of both."""

import sys
from types import ModuleType

import pytest

from harness.pipeline import registered, workflow

CODE = """
from harness.pipeline import workflow

@workflow("WORKFLOW")
def NAME(n):
    return n
"""


@pytest.fixture
def load(tmp_path):
    names = []

    def make(module, name, file="flow.py", workflow="twice told"):
        made = ModuleType(module)
        sys.modules[module] = made
        names.append(module)
        exec(
            compile(CODE.replace("NAME", name).replace("WORKFLOW", workflow), str(tmp_path / file), "exec"), vars(made)
        )
        return made

    yield make
    for name in names:
        sys.modules.pop(name, None)


def test_the_second_one_is_told_with_both_places(load):
    load("names_first", "run", "first.py")
    second = load("names_second", "handle", "second.py")
    with pytest.warns(RuntimeWarning, match="'twice told' is defined at names_first:run and at names_second:handle"):
        assert registered("twice told") is second.handle


def test_one_that_is_loaded_again_is_not(load):
    # Reloaded; run in a notebook's cell again; and the same file under another name, as python -m loads it.
    load("names_first", "run", workflow="again")
    load("names_first", "run", workflow="again")
    load("names_first", "run", "other.py", workflow="again")
    load("names_main", "run", "other.py", workflow="again")
    assert registered("again") is not None


def test_what_a_function_makes_is_not():
    for _ in range(2):

        @workflow("made twice")
        def run(n):
            return n

        workflow("made twice")(lambda n: n)
    assert registered("made twice") is not None
