"""What an application is given of ours is its own: changing it reaches no other run, and no record."""

import asyncio

import pytest

from harness.pipeline import step, tool, workflow
from harness.replay import fork_run, live_run
from harness.session import Change


@step
def plan(n):
    return ["a"]


@workflow("planning")
def planning(n):
    made = plan(n)
    made.append("end")
    return made


@step
def count(items):
    items.append("seen")
    return len(items)


@workflow("counting")
def counting(items):
    return count(items)


@tool(determinism="deterministic", version="1")
def look(key):
    return [0]


@workflow("looking")
def looking(n):
    found = look(n)
    found.append(9)
    return found


@pytest.mark.parametrize(
    ("run", "inputs", "change", "expected"),
    [
        (planning, {"n": 1}, Change(kind="output", at="plan", value=["x"]), ["x", "end"]),
        (counting, {"items": ["a"]}, Change(kind="input", at="count", name="items", value=["x"]), 2),
        (counting, {"items": ["a"]}, Change(kind="input", at="counting", value={"items": ["x"]}), 2),
        (looking, {"n": 1}, Change(kind="tool", at="looking", name="look", value=[1]), [1, 9]),
    ],
    ids=["output", "input", "run's input", "tool"],
)
def test_one_change_gives_three_forks_the_same_value(run, inputs, change, expected):
    parent = live_run(run, inputs, dry=False).run
    arm, value = change.arm, change.as_dict()["value"].copy()
    forks = [fork_run(parent, target=run, change=change) for _ in range(3)]
    assert [fork.output for fork in forks] == [expected] * 3
    assert [fork.run.run.change["value"] for fork in forks] == [value] * 3
    assert (change.arm, change.value) == (arm, value)


def test_the_input_of_a_case_is_the_same_for_every_trial():
    inputs = {"items": [["q"]]}
    assert [live_run(counting, inputs).output for _ in range(3)] == [2, 2, 2]
    assert inputs == {"items": [["q"]]}


def test_a_client_among_the_inputs_is_handed_on_itself():
    client = object()

    @workflow("connected")
    def connected(clients):
        return clients[0] is client

    assert live_run(connected, {"clients": [client]}).output is True


class Receipt:
    def __init__(self):
        self.lines = []

    def __eq__(self, other):
        return self.lines == other.lines

    __hash__ = None


def test_a_stand_in_is_the_same_in_every_run():
    @tool(determinism="side-effect", stand_in={"sent": [], "receipt": Receipt()})
    def send(text):
        raise AssertionError("sent")

    @workflow("mail")
    def run(text):
        told = send(text)
        told["sent"].append("mine")
        told["receipt"].lines.append(text)
        return [told["sent"], told["receipt"].lines]

    assert [live_run(run, {"text": "hi"}).output for _ in range(3)] == [[["mine"], ["hi"]]] * 3


def test_a_stand_in_that_cannot_be_copied_is_given_as_it_is():
    held = asyncio.Lock()

    class Held:
        def __deepcopy__(self, memo):
            raise TypeError("no")

    stand_in = [Held(), held]

    @tool(determinism="side-effect", stand_in=stand_in)
    def send(text):
        raise AssertionError("sent")

    @workflow("mail")
    def run(text):
        got = send(text)
        return [got is stand_in, got[0] is stand_in[0]]

    assert live_run(run, {"text": "hi"}).output == [False, True]
