"""Forks over pure steps: what is skipped, what runs, and why."""

import pytest

from harness.errors import ChangeError
from harness.pipeline import prompt, step, tool, uuid, workflow
from harness.replay import ReplayOptions, content, fork_run, live_run, replay_run, value_changes
from harness.session import Change

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


def states(outcome):
    return {d.address: d.state for d in outcome.diff.steps}


def change(text, at):
    return Change.parse(text, at=at)


def make(executed, *, sides=()):
    """plan → (left, right) → join, with a side effect at the end; ``executed`` logs bodies that run."""
    text = prompt("right", "R:{x}")

    @step
    def plan(x):
        executed.append("plan")
        return {"x": x, "id": str(uuid())}

    @step
    def left(p):
        executed.append("left")
        return p["x"] * 2

    @step
    def right(p):
        executed.append("right")
        return text.format(x=p["x"])

    @step
    def join(a, b):
        executed.append("join")
        return f"{a}+{b}"

    @tool(determinism="side-effect", stand_in={"sent": False})
    def send(text):
        executed.append("send")
        return {"sent": True}

    @step
    def publish(text):
        executed.append("publish")
        return send(text)

    @workflow("w")
    def run(x):
        p = plan(x)
        joined = join(left(p), right(p))
        return {"text": joined, **publish(joined)}

    return run


@pytest.fixture
def run(executed):
    return make(executed)


@pytest.fixture
def parent(run, executed):
    recording = live_run(run, {"x": 3}, dry=False, code_version=CODE).run
    executed.clear()
    return recording


def test_replay_runs_every_body_and_no_side_effect(run, parent, executed):
    outcome = replay_run(parent, target=run, options=OPTIONS)
    assert executed == ["plan", "left", "right", "join", "publish"]
    assert outcome.diff.output_equal
    assert outcome.diff.first_divergence is None
    counts = outcome.counts
    assert (counts.steps_reused, counts.steps_run, counts.tools_dry) == (0, 5, 1)


def test_a_fork_runs_only_what_the_change_touches(run, parent, executed):
    outcome = fork_run(parent, target=run, change="prompt:right=New {x}", at="right", mode="replay", options=OPTIONS)
    assert executed == ["right", "join", "publish"]
    assert states(outcome) == {
        "plan": "reused",
        "left": "reused",
        "right": "run",
        "join": "run",
        "publish": "run",
        "publish/send": "dry",
    }
    assert outcome.output == {"text": "6+New 3", "sent": False}
    assert outcome.diff.first_divergence == "right"
    assert outcome.blocked[0]["arguments"] == {"text": "6+New 3"}


def test_a_change_that_changes_nothing_stops_there(run, parent, executed):
    outcome = fork_run(parent, target=run, change="prompt:right=R:{x}", at="right", mode="replay", options=OPTIONS)
    assert executed == ["right"]
    assert outcome.diff.first_divergence is None
    assert states(outcome)["join"] == "reused"


def test_other_code_leads_to_no_reuse(run, parent, executed):
    outcome = fork_run(
        parent,
        target=run,
        change="prompt:right=R:{x}",
        at="right",
        mode="replay",
        options=ReplayOptions(code_version="d" * 64),
    )
    assert executed == ["plan", "left", "right", "join", "publish"]
    assert outcome.counts.steps_reused == 0


def test_an_input_of_one_step_can_be_changed(run, parent, executed):
    outcome = fork_run(parent, target=run, change="input:a=100", at="join", mode="replay", options=OPTIONS)
    assert executed == ["join", "publish"]
    assert outcome.output["text"] == "100+R:3"


def test_the_output_of_a_step_can_be_dictated(run, parent, executed):
    outcome = fork_run(parent, target=run, change='output="L"', at="left", mode="replay", options=OPTIONS)
    assert executed == ["join", "publish"]
    assert outcome.output["text"] == "L+R:3"
    assert states(outcome)["left"] == "answered"


def test_the_input_of_the_run_can_be_changed(run, parent, executed):
    outcome = fork_run(parent, target=run, change="input:x=4", at="w", mode="replay", options=OPTIONS)
    assert outcome.output["text"] == "8+R:4"
    assert content(outcome.run, outcome.run.run.input_hash) == {"x": 4}


def test_a_fork_of_a_fork(run, parent, executed):
    first = fork_run(parent, target=run, change="input:a=100", at="join", mode="replay", options=OPTIONS)
    executed.clear()
    second = fork_run(first.run, target=run, change="prompt:right=R:{x}", at="right", mode="replay", options=OPTIONS)
    assert second.run.run.parent_run_id == first.run.run.id
    # What the first fork changed holds in the second: it is part of what it is forked from.
    assert second.output["text"] == "100+R:3"
    assert second.undeclared == ()


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("prompt:right=x", "nowhere", "no step 'nowhere'; it has: w, plan, left"),
        ("prompt:wrong=x", "right", "no prompt 'wrong'; it uses: right"),
        ("input:zzz=1", "join", "no parameter 'zzz'"),
    ],
)
def test_a_change_that_addresses_nothing_is_refused(run, parent, text, at, says):
    with pytest.raises(ChangeError, match=says):
        outcome = fork_run(parent, target=run, change=text, at=at, mode="replay", options=OPTIONS)
        raise ChangeError(outcome.error)


@pytest.mark.parametrize(
    "text", ["prompt=x", "model:m=x", "nothing", "tool=1", "param=1", "request:messages=1", "code=1", "code:x=1"]
)
def test_a_malformed_change_is_explained(text):
    with pytest.raises(ChangeError, match="--set"):
        Change.parse(text, at="a")


def test_a_change_is_read_from_a_file(tmp_path):
    (tmp_path / "new.txt").write_text("New {x}")
    assert change(f"prompt:right=@{tmp_path / 'new.txt'}", "right").value == "New {x}"
    with pytest.raises(ChangeError, match="cannot read"):
        change(f"prompt:right=@{tmp_path / 'missing.txt'}", "right")


def test_digest_names_the_change_and_only_it():
    one = change("prompt:a=x", "s")
    assert one.digest == change("prompt:a=x", "s").digest
    others = [change("prompt:a=y", "s"), change("prompt:b=x", "s"), change("prompt:a=x", "t")]
    assert one.digest not in {other.digest for other in others}
    assert Change.from_dict(one.as_dict()) == one


@pytest.mark.parametrize(
    ("at", "scope", "name", "occurrence", "hit"),
    [
        ("draft", "", "draft", 0, True),
        ("draft", "", "draft", 3, True),
        ("draft", "plan", "draft", 0, True),
        ("plan/draft", "plan", "draft", 1, True),
        ("plan/draft", "other", "draft", 1, False),
        ("draft#1", "", "draft", 1, True),
        ("draft#1", "", "draft", 0, False),
        ("drafts", "", "draft", 0, False),
    ],
)
def test_addresses(at, scope, name, occurrence, hit):
    assert change("model=x", at).addresses(scope, name, occurrence) is hit


def test_never_skipped_are_ancestors_of_the_fork_step(executed):
    @step
    def inner(x):
        executed.append("inner")
        return x

    @step
    def outer(x):
        executed.append("outer")
        return inner(x) + other(x)

    @step
    def other(x):
        executed.append("other")
        return x

    @workflow("w")
    def run(x):
        return outer(x)

    parent = live_run(run, {"x": 1}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="output=5", at="outer/inner", mode="replay", options=OPTIONS)
    assert executed == ["outer", "other"] or executed == ["outer"]
    assert states(outcome)["outer"] == "run"
    assert states(outcome)["outer/other"] == "reused"
    assert outcome.output == 6


def test_a_step_that_mutated_its_argument_runs_again(executed):
    @step
    def add(items):
        executed.append("add")
        items.append(1)
        return len(items)

    @step
    def last(n):
        return n

    @workflow("w")
    def run():
        items = []
        add(items)
        return last(len(items))

    parent = live_run(run, {}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="output=0", at="last", mode="replay", options=OPTIONS)
    assert executed == ["add"]
    assert outcome.run.steps[-1].input_hash == parent.steps[-1].input_hash


def test_loops_keep_their_visits_apart(executed):
    @step
    def draw(name):
        executed.append(name)
        return str(uuid())

    @step
    def tail(values):
        return values

    @workflow("w")
    def run():
        return tail([draw("same"), draw("same"), draw("other")])

    parent = live_run(run, {}, code_version=CODE).run
    executed.clear()
    outcome = fork_run(parent, target=run, change="output=0", at="tail", mode="replay", options=OPTIONS)
    assert executed == []
    assert [s.output_hash for s in outcome.run.steps[1:4]] == [s.output_hash for s in parent.steps[1:4]]
    assert len({s.output_hash for s in parent.steps[1:4]}) == 3


def test_a_skipped_body_leaves_later_volatile_values_in_place(executed):
    @step
    def draw(n):
        executed.append(n)
        return [n, str(uuid())]

    text = prompt("p", "{n}")

    @step
    def changed(n):
        return [text.format(n=n), draw(n)]

    @workflow("w")
    def run():
        return [draw(1), changed(2), draw(3)]

    parent = live_run(run, {}, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="prompt:p=new {n}", at="changed", mode="replay", options=OPTIONS)
    before, after = content(parent, parent.run.output_hash), outcome.output
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] == ["new 2", before[1][1]]


def test_steps_added_and_removed_are_shown(executed):
    visits = [2]

    @step
    def visit(i):
        return i

    @workflow("w")
    def run():
        return [visit(i) for i in range(visits[0])]

    parent = live_run(run, {}, code_version=CODE).run
    visits[0] = 3
    longer = replay_run(parent, target=run)
    assert states(longer) == {"visit": "run", "visit#1": "run", "visit#2": "added"}
    assert longer.diff.first_divergence == "visit#2"
    visits[0] = 1
    shorter = replay_run(parent, target=run)
    assert states(shorter) == {"visit": "run", "visit#1": "removed"}
    assert shorter.diff.first_divergence == "visit#1"


def test_changed_code_is_found_at_the_first_step_that_differs():
    suffix = [""]

    @step
    def one(x):
        return x

    @step
    def two(x):
        return x + suffix[0]

    @step
    def three(x):
        return x + "!"

    @workflow("w")
    def run(x):
        return three(two(one(x)))

    parent = live_run(run, {"x": "a"}).run
    suffix[0] = "b"
    outcome = replay_run(parent, target=run)
    assert outcome.diff.first_divergence == "two"
    assert [(d.name, d.equal) for d in outcome.diff.steps] == [("one", True), ("two", False), ("three", False)]
    assert [(c.path, c.kind, c.before, c.after) for c in outcome.diff.output] == [("$", "text", "a!", "ab!")]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": 2}, [("$.a", "value")]),
        ({"a": 1}, {"b": 1}, [("$.a", "removed"), ("$.b", "added")]),
        (["a", "b"], ["a"], [("$[1]", "removed")]),
        (["a"], ["a", "b"], [("$[1]", "added")]),
        ({"a": "x  y"}, {"a": "x y\n"}, [("$.a", "formatting")]),
        ({"a": "x"}, {"a": "y"}, [("$.a", "text")]),
        (1, "1", [("$", "value")]),
        (None, [], [("$", "value")]),
    ],
)
def test_value_changes(before, after, expected):
    assert [(c.path, c.kind) for c in value_changes(before, after)] == expected


def test_the_parent_is_left_as_it_was(run, parent):
    before = (parent.run, parent.steps, parent.messages, parent.volatile)
    fork_run(parent, target=run, change="input:a=1", at="join", mode="replay", options=OPTIONS)
    assert (parent.run, parent.steps, parent.messages, parent.volatile) == before
