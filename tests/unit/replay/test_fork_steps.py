"""What a change reaches beyond the step it names, and what of the rest is taken from the parent."""

from dataclasses import dataclass, replace

import pytest

from harness.canonical import canonical_json, content_hash
from harness.pipeline import prompt, step, uuid, workflow
from harness.replay import ReplayOptions, content, fork_run, live_run

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


def test_a_prompt_change_reaches_every_step_that_uses_the_prompt(executed):
    text = prompt("p", "P:{x}")

    @step
    def first(x):
        executed.append("first")
        return text.format(x=x)

    @step
    def between(x):
        executed.append("between")
        return x

    @step
    def second(x):
        executed.append("second")
        return text.format(x=x)

    @workflow("w")
    def run(x):
        return [first(x), between(x), second(x)]

    parent = live_run(run, {"x": 1}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="prompt:p=Q:{x}", at="second", mode="replay", options=OPTIONS)
    assert executed == ["first", "second"]
    assert outcome.output == ["Q:1", 1, "Q:1"]
    # Recordings of earlier versions do not say which step drew a value.
    older = replace(parent, volatile=tuple(replace(value, step_id=None) for value in parent.volatile))
    executed.clear()
    fork_run(older, target=run, change="prompt:p=Q:{x}", at="second", mode="replay", options=OPTIONS)
    assert executed == ["first", "second"]


def test_an_output_that_does_not_come_back_equal_is_made_again(executed):
    class Ticket:
        def __init__(self, text):
            self.text = text

    @step
    def load(x):
        executed.append("load")
        return Ticket(x)

    @step
    def rounded(x):
        executed.append("rounded")
        return Tally(x)

    @step
    def last(a, b):
        return [a.text, b]

    @workflow("w")
    def run(x):
        return last(load(x), rounded(2))

    parent = live_run(run, {"x": "a"}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="output=0", at="last", mode="replay", options=OPTIONS)
    assert executed == ["load", "rounded"]
    assert outcome.output == 0


@dataclass(eq=False)
class Tally:
    """Equal only to itself, so no snapshot of it decodes to an equal value."""

    count: int


def test_new_inputs_are_given_by_name_all_at_once_or_refused():
    @step
    def join(a, b):
        return f"{a}+{b}"

    @workflow("w")
    def run(x):
        return join(x, x)

    parent = live_run(run, {"x": 3}, code_version=CODE).run

    def fork(change):
        return fork_run(parent, target=run, change=change, at="join", mode="replay", options=OPTIONS)

    assert fork('input={"a":1,"b":2}').output == "1+2"
    assert fork("input:b=2").output == "3+2"
    refused = fork("input=5")
    assert refused.status == "error"
    assert refused.error.startswith("ChangeError: the new input of 'join' must be an object")
    assert fork("input:c=1").error.endswith("no parameter 'c'; it has: a, b")


def test_an_input_that_is_no_object_is_the_single_argument():
    assert live_run(workflow("w")(lambda x: x * 2), 3).output == 6
    assert live_run(lambda items: sum(items), [1, 2]).output == 3


def test_the_error_of_the_application_is_the_outcome():
    @workflow("w")
    def run(x):
        raise ValueError("no such ticket")

    outcome = live_run(run, {"x": 1})
    assert (outcome.status, outcome.error, outcome.output) == ("error", "ValueError: no such ticket", None)
    assert outcome.run.run.status == "error"


def test_dictating_one_visit_leaves_the_next_its_own_result(executed):
    @step
    def draw():
        executed.append("draw")
        return str(uuid())

    @workflow("w")
    def run():
        return [draw(), draw(), draw()]

    parent = live_run(run, {}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="output=0", at="draw#0", mode="replay", options=OPTIONS)
    before = content(parent, parent.run.output_hash)
    assert executed == []
    assert outcome.output == [0, before[1], before[2]]


@pytest.mark.parametrize("use", [str, lambda text: text.text, lambda text: f"{text}"], ids=["str", "text", "f-string"])
def test_a_prompt_that_is_used_without_fields_is_a_used_prompt(executed, use):
    text = prompt("p", "Be brief.")

    @step
    def first():
        executed.append("first")
        return use(text)

    @step
    def second():
        return text.format()

    @workflow("w")
    def run():
        return [first(), second()]

    parent = live_run(run, {}, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="prompt:p=Be kind.", at="second", mode="replay", options=OPTIONS)
    assert outcome.output == ["Be kind.", "Be kind."]


def test_steps_below_a_skipped_visit_keep_later_ones_their_number(executed):
    @step
    def inner(x):
        return x

    @step
    def outer(x):
        executed.append(x)
        return inner(x)

    @workflow("w")
    def run():
        return [outer(1), outer(2)]

    parent = live_run(run, {}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="input:x=5", at="outer#1", mode="replay", options=OPTIONS)
    assert (executed, outcome.output) == ([5], [1, 5])
    assert [step.address for step in outcome.run.steps] == [step.address for step in parent.steps]
    assert outcome.diff.first_divergence == "outer#1"


def test_a_step_below_a_later_visit_is_not_given_the_result_of_an_earlier_one(executed):
    @step
    def inner():
        return str(uuid())

    @step
    def outer(x):
        executed.append(x)
        return [x, inner()]

    @workflow("w")
    def run():
        return [outer(1), outer(2), outer(3)]

    parent = live_run(run, {}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="input:x=5", at="outer#1", mode="replay", options=OPTIONS)
    before = content(parent, parent.run.output_hash)
    assert executed == [5]
    assert outcome.output == [before[0], [5, before[1][1]], before[2]]


def test_the_key_of_a_step_is_that_of_earlier_recordings():
    """Steps of stored recordings are found by it, so another form would let nothing be skipped."""

    @step(name="draft")
    def write(x, y=2):
        return x

    recorded = live_run(workflow("w")(lambda: write(1)), {}).run.steps[1]
    assert recorded.input_hash == content_hash(b'{"x":1,"y":2}')
    assert recorded.key == content_hash(canonical_json({"step": "draft", "inputs": recorded.input_hash}))


def test_reading_the_version_of_a_prompt_is_a_use_of_it():
    words = prompt("versioned", "Hello {name}")

    @step
    def stamp(n):
        return [n, words.version]

    @step
    def other(n):
        return n

    @workflow("versions")
    def run(n):
        return [other(n), stamp(n)]

    parent = live_run(run, {"n": 1}).run
    outcome = fork_run(parent, target=run, change="prompt:versioned=Hi {name}", at="versions")
    assert outcome.output != content(parent, parent.run.output_hash)
    assert {each.address: each.state for each in outcome.diff.steps} == {"other": "reused", "stamp": "run"}
