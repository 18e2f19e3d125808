"""A tool without a declared version has that of its code: its helpers' and its constants' included."""

import functools
import importlib
import sys
from itertools import count

import pytest

from harness.errors import UsageError
from harness.pipeline import step, tool
from harness.pipeline._tool_version import source_version
from harness.replay import ReplayOptions, fork_run, live_run, replay_run

APP = """
from harness.pipeline import step, tool, workflow
from {helpers} import shared, Rates
import {helpers} as module

LIMIT = {limit}
_calls = 0
_cache = {{}}


def helper(x):
    return inner(x) * 1


@tool(determinism="deterministic")
def price(x):
    # {comment}
    global _calls
    _calls += 1
    _cache[x] = _calls
    return [helper(x), shared(x), Rates().of(x), module.named(x), min(x, LIMIT)]


def inner(x):
    return x * {inner}


def unused(x):
    return {unused}


@step
def quote(n):
    return price(n)


@workflow("w")
def run(n):
    return [quote(n), quote(n + 1)]
"""
HELPERS = """
def shared(x):
    return x * {shared}


def named(x):
    return x * {named}


class Rates:
    def of(self, x):
        return x * {method}
"""
TEXT = {"limit": 9, "comment": "why", "inner": 2, "unused": 3, "shared": 4, "named": 5, "method": 6}
# Every version of the module is loaded beside the others.
pytestmark = pytest.mark.filterwarnings("ignore:workflow 'w' is defined:RuntimeWarning")
_number = count()


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads the application with some of its texts changed, as a new process would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def loaded(**changed):
        number = next(_number)
        text = {**TEXT, **changed, "helpers": f"tool_helpers_{number}"}
        for name, source in (("tool_helpers", HELPERS), ("tool_app", APP)):
            (tmp_path / f"{name}_{number}.py").write_text(source.format_map(text))
        importlib.invalidate_caches()
        made = importlib.import_module(f"tool_app_{number}")
        # What another process would load under the same names.
        made.__name__ = "tool_app"
        return made

    yield loaded
    for name in [name for name in sys.modules if name.startswith(("tool_app_", "tool_helpers_"))]:
        del sys.modules[name]


def body(module):
    return module.price.__wrapped__


@pytest.mark.parametrize("what", ["limit", "inner", "shared", "named", "method"])
def test_an_edit_of_what_the_tool_uses_makes_another_version(load, what):
    assert source_version(body(load(**{what: 77}))) != source_version(body(load()))


@pytest.mark.parametrize("changed", [{"comment": "because"}, {"unused": 77}])
def test_an_edit_of_anything_else_does_not(load, changed):
    assert source_version(body(load(**changed))) == source_version(body(load()))


def test_what_the_tool_notes_for_itself_does_not_make_another_version(load):
    module = load()
    parent = live_run(module.run, {"n": 1}, dry=False).run
    assert module._calls == 2
    versions = [record.version for record in parent.steps if record.kind == "tool"]
    assert versions == [source_version(body(module))] * 2
    assert replay_run(parent, target=module.run).diff.output_equal


def test_a_fork_of_the_code_calls_a_tool_whose_helper_changed(load):
    parent = live_run(load().run, {"n": 2}, dry=False).run
    edited = load(inner=77).run
    outcome = fork_run(parent, target=edited, change="code", at="quote", options=ReplayOptions(code_version="d" * 64))
    assert outcome.output == live_run(edited, {"n": 2}, dry=False).output
    assert {record.state for record in outcome.run.steps if record.kind == "tool"} == {"called"}


def test_a_replay_says_that_the_tool_is_another_one(load):
    parent = live_run(load().run, {"n": 2}, dry=False).run
    outcome = replay_run(parent, target=load(inner=77).run)
    assert outcome.status == "missing"
    assert "its version is" in outcome.misses[0]


@pytest.mark.parametrize("word", ["side_effect", "pure", ""])
def test_a_determinism_that_is_none_of_the_three_is_refused(word):
    with pytest.raises(UsageError, match="deterministic, time-bound, side-effect"):

        @tool(determinism=word)
        def send(text):
            return text


@pytest.mark.parametrize(
    ("ignore", "words"), [("now", r"ignore=\('now',\)"), (("later",), "its parameters: ticket, now")]
)
def test_ignored_parameters_that_are_none_are_refused(ignore, words):
    with pytest.raises(UsageError, match=words):

        @step(ignore=ignore)
        def draft(ticket, now):
            return ticket


@pytest.mark.parametrize("ttl", ["5", -1, 0, True, float("nan")])
def test_a_ttl_that_is_no_time_is_refused(ttl):
    with pytest.raises(UsageError, match="a number of seconds above 0"):

        @tool(determinism="time-bound", ttl=ttl)
        def rate(currency):
            return currency


@pytest.mark.parametrize("decorate", [step, tool(determinism="deterministic")], ids=["step", "tool"])
@pytest.mark.parametrize("target", [functools.partial(len, "x"), max, 5], ids=["partial", "builtin", "number"])
def test_what_is_no_python_function_is_refused(decorate, target):
    with pytest.raises(UsageError, match="write one that calls it"):
        decorate(target)
