"""``run fork --plan`` and ``--controls`` on the command line: what a person and a machine read."""

import json

import pytest


@pytest.fixture
def stored(toy, server):
    """A run of one case in the store, and the command that forks it."""
    assert toy("eval", "toyset", "--case", "ants", "--report-only").code == 0
    rows = [json.loads(line) for line in toy("run", "list", "--workflow", "toy", "--json").out.splitlines()]
    [run] = [row["run"] for row in rows]
    fork = ("run", "fork", run, "--target", "toy:run", "--at", "answer", "--set", "prompt:answer=Shout: {text}")
    return run, fork


def test_a_plan_calls_nothing_and_writes_nothing(toy, server, stored):
    run, fork = stored
    before = toy("run", "list", "--json").out
    plan = toy(*fork, "--plan", "--json", TOY_URL=server.url).json
    assert (plan["plan"], plan["parent"], plan["at"], plan["code"], plan["estimate"]) == (
        True, run, "answer", "same", "upper",
    )  # fmt: skip
    assert [(one["name"], one["state"]) for one in plan["steps"]] == [("look", "reused"), ("answer", "run")]
    assert plan["certain"]["calls"] == plan["at_most"]["calls"] == 1
    assert plan["at_most"]["tokens"] > 0
    assert plan["answered"]["calls"] == 0
    assert server.requests == []
    assert toy("run", "list", "--json").out == before


def test_a_plan_reads_well(toy, server, stored):
    _, fork = stored
    out = toy(*fork, "--plan", TOY_URL=server.url).out
    assert "the fork step" in out
    assert "upper estimate, from what was recorded: at most 1 call" in out
    assert "Nothing was run or called." in out


def test_a_plan_of_an_unknown_step_is_refused(toy, stored):
    run, _ = stored
    done = toy("run", "fork", run, "--target", "toy:run", "--at", "nowhere", "--set", "model=x", "--plan")
    assert done.code == 2
    assert "has no step 'nowhere'" in done.err


def test_controls_of_one_run_stand_beside_the_fork(toy, server, stored):
    _, fork = stored
    done = toy(*fork, "--controls", "2", "--json", TOY_URL=server.url)
    assert done.code == 0, done.err
    assert [(one["number"], one["arm"], one["output_equal"]) for one in done.json["controls"]] == [
        (1, "control:1@answer", True),
        (2, "control:2@answer", True),
    ]
    assert done.json["jitter"]["word"] == "beyond jitter"
    assert done.json["jitter"]["given"] == "the recorded prefix"
    assert done.json["control_cost"]["provider_calls"] == 2
    assert len(server.requests) == 3
    assert [one["settled"] for one in done.json["steps"]] == ["settled by recording", "re-run"]


def test_controls_of_one_run_without_a_provider_are_one_sentence(toy, stored):
    _, fork = stored
    done = toy(*fork, "--controls", "2", GOLDFORK_FORBID_LIVE="1")
    assert done.code in {1, 2}
    assert "GOLDFORK_FORBID_LIVE" in done.out + done.err
