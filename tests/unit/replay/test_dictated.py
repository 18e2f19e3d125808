"""A step whose output the change gives: its body is not run, and what follows is answered as if it had been."""

from itertools import count

import pytest

from harness.pipeline import random, step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, plan_fork
from harness.session import Change

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE, allow_undeclared=True)


class Numbers:
    """Counts for as long as the process lives."""

    __goldfork_opaque__ = True

    def __init__(self):
        self.all = count(1)

    def __call__(self):
        return next(self.all)


def drawing():
    """Two visits of ``outer``, each with a step, a tool and a declared value in it."""
    number = Numbers()

    @tool(determinism="time-bound", ttl=60, version="1")
    def ticket():
        return f"ticket {number()}"

    @step
    def inner():
        return f"draw {number()}"

    @step
    def outer(before):
        return [inner(), ticket(), random()]

    @workflow("drawing")
    def run(n):
        return [outer(0), outer(0 if n else 1)]

    return run


@pytest.mark.parametrize("n", [1, 0], ids=["equal visits", "other visits"])
def test_the_next_visit_takes_what_was_recorded_for_it(n):
    run = drawing()
    parent = live_run(run, {"n": n}, dry=False, code_version=CODE)
    fork = fork_run(parent.run, target=run, change='output="x"', at="outer#0", mode="replay", options=OPTIONS)
    assert fork.error is None
    # The ticket is answered, and the value too, whether the body is skipped or not.
    assert fork.output == ["x", parent.output[1]]


def test_a_visit_with_another_input_takes_what_was_recorded_for_it():
    number = Numbers()

    @step
    def inner():
        return f"draw {number()}"

    @tool(determinism="time-bound", ttl=60, version="1")
    def ticket():
        return f"ticket {number()}"

    @step
    def outer(before):
        return [before, inner(), ticket()]

    @workflow("chained")
    def run(n):
        return outer(outer(n))

    parent = live_run(run, {"n": 0}, dry=False, code_version=CODE)
    fork = fork_run(parent.run, target=run, change='output=["x"]', at="outer#0", mode="replay", options=OPTIONS)
    assert fork.output == [["x"], "draw 3", "ticket 4"]
    assert {one.address: one.state for one in fork.diff.steps if one.state != "removed"} == {
        "outer": "answered",
        "outer#1": "run",
        "outer/inner#1": "reused",
        "outer/ticket#1": "answered",
    }


def test_a_dictated_step_is_counted_as_the_plan_says():
    @step
    def first(n):
        return n

    @step
    def second(n):
        return n

    @workflow("counted")
    def run(n):
        return second(first(n))

    parent = live_run(run, {"n": 1}, code_version=CODE).run
    change = Change(kind="output", at="first", value=2)
    plan = plan_fork(parent, change, target=run, options=OPTIONS)
    fork = fork_run(parent, target=run, change=change, options=OPTIONS)
    assert plan.words["not run"] == 1
    assert [one.state for one in fork.diff.steps] == ["answered", "run"]
    assert (fork.counts.steps_run, fork.counts.steps_reused) == (1, 0)
