"""A dataset forked at once: a change that is not the only one is found before anything costs."""

import json

SHOUT = ("--fork-at", "answer", "--set", "prompt:answer=Shout this: {text}")
FORK = ("eval", "toyset", "--mode", "auto", *SHOUT)
EDIT = "return text.strip().lower()"


def test_what_every_case_has_is_said_once_and_nothing_is_called(toy, server):
    toy.edit("toy.py", EDIT, "return text.strip().title()")
    done = toy(*FORK, TOY_URL=server.url)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "the change of prompt would not be the only one: without it, in all 3 cases: " in done.err
    assert done.err.count("the output of step 'look'") == 1
    assert "--allow" in done.err
    assert server.requests == []
    [line] = [json.loads(line) for line in toy("experiment", "list", "--json").out.splitlines()]
    assert line["status"] == "error"


def test_a_case_with_one_is_an_error_of_that_case(toy, server):
    toy.edit("toy.py", EDIT, 'return "wasps" if text == "BEES" else text.strip().lower()')
    done = toy(*FORK, "--json", "--report-only", TOY_URL=server.url)
    # Two of three cases are measured; the gate asks for nine in ten.
    assert done.code == 4, done.err
    assert len(server.requests) == 2
    assert done.json["undeclared"][0].startswith("in 1 of 3 cases (bees): the output of step 'look' has hash ")
    shown = " ".join(toy("experiment", "show", "latest").out.split())
    assert "1 of 3 cases were not forked" in shown
    assert "UndeclaredChange: without the change of prompt, the output of step 'look' has hash" in shown


def test_allowed_it_is_forked_and_reported(toy, server):
    toy.edit("toy.py", EDIT, "return text.strip().title()")
    done = toy(*FORK, "--allow", "--json", "--report-only", TOY_URL=server.url)
    assert done.code == 0, done.err
    assert len(server.requests) == 3
    assert done.json["undeclared"][0].startswith("in all 3 cases: the output of step 'look' has hash ")
    assert sum("step 'look'" in line for line in done.json["undeclared"]) == 1


def test_the_change_of_code_itself_declares_it(toy, server):
    toy.edit("toy.py", EDIT, "return text.strip().title()")
    done = toy(
        "eval", "toyset", "--mode", "auto", "--fork-at", "look", "--set", "code", "--report-only", "--json",
        TOY_URL=server.url,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["undeclared"] == []


def test_unchanged_code_is_forked_without_a_word(toy, server):
    done = toy(*FORK, "--json", "--report-only", TOY_URL=server.url)
    assert (done.code, done.json["undeclared"]) == (0, [])


def test_a_resumed_experiment_allows_what_it_allowed(toy, tools, stalling):
    toy.edit("toy.py", EDIT, "return text.strip().title()")
    slow = stalling(1)
    running = toy.start(*FORK, "--allow", "--report-only", TOY_URL=slow.url, GOLDFORK_CONCURRENCY="1")
    tools.signalled(running, 2, lambda: len(slow.requests) > 1)
    assert tools.finish(running).code == 130
    slow.release()
    done = toy("eval", "toyset", "--resume", "latest", "--report-only", "--json", TOY_URL=slow.url)
    assert done.code == 0, done.err
    assert done.json["undeclared"][0].startswith("in all 3 cases: ")


def test_allowing_is_for_forks(toy):
    done = toy("eval", "toyset", "--allow")
    assert done.code == 2
    assert "--allow belongs to a fork" in done.err
