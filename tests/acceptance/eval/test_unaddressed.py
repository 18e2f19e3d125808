"""A fork whose change finds its step in some cases only, and in none."""

PLAIN = '    return {"answer": answer(look(text))}'
BRANCHING = """
    found = look(text)
    return {"answer": extra(found) if found == "bees" else answer(found)}


@step
def extra(text):
    return ask("Answer this: " + text)
"""


def branching(toy, server):
    """Record the dataset again with code in which only one case comes through ``extra``."""
    toy.edit("toy.py", PLAIN, BRANCHING)
    assert toy("eval", "toyset", "--mode", "live", "--save-recordings", TOY_URL=server.url).code == 0
    toy.dataset.snapshot()


def test_a_case_without_the_step_is_replayed_as_it_is_and_named(toy, server):
    branching(toy, server)
    fork = ("eval", "toyset", "--fork-at", "extra", "--json")
    done = toy(*fork, "--set", 'output="new"')
    assert done.code in {0, 1}, done.err
    assert (done.json["outputs_equal"], done.json["trials"]) == (2, 3)
    shown = toy("experiment", "show", "latest").out
    assert "addresses nothing in 2 of 3 cases, which were replayed unchanged: ants, cats" in " ".join(shown.split())


def test_what_is_replayed_unchanged_is_not_saved_as_a_fork(toy, server):
    branching(toy, server)
    done = toy(
        "eval",
        "toyset",
        "--fork-at",
        "extra",
        "--set",
        "model=toy-2",
        "--mode",
        "live",
        "--save-recordings",
        TOY_URL=server.url,
    )
    assert done.code == 0, done.err
    arms = {case: {ref.arm.partition(":")[0] for ref in toy.dataset.arms(case)} for case in ("ants", "bees")}
    assert arms == {"ants": {"recorded"}, "bees": {"recorded", "fork"}}


def test_a_step_that_no_case_has_ends_the_experiment(toy):
    done = toy("eval", "toyset", "--fork-at", "nowhere", "--set", "output=1")
    assert (done.code, done.out) == (2, "")
    assert "no step 'nowhere'" in done.err


def test_a_change_that_alters_nothing_in_any_case_ends_the_experiment(toy):
    done = toy("eval", "toyset", "--fork-at", "look", "--set", "model=other")
    assert done.code == 2
    assert "change of model at step 'look' altered nothing" in done.err
