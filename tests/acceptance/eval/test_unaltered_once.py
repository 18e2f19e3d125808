"""A case in which the change turns out to alter nothing is run once, and what it called is counted."""

PLAIN = '    return {"answer": answer(look(text))}'
BRANCHING = """
    found = look(text)
    return {"answer": extra(found) if found in ("bees", "cats") else answer(found)}


@step
def extra(text):
    return ask("Answer this: " + text)
"""


def test_the_calls_of_such_a_case_are_made_and_counted_once(toy, server):
    toy.edit("toy.py", PLAIN, BRANCHING)
    assert toy("eval", "toyset", "--mode", "live", "--save-recordings", TOY_URL=server.url).code == 0
    toy.dataset.snapshot()
    # The step is in the recording, and the code does not come to it any more.
    toy.edit("toy.py", '("bees",', '("wasps",')
    before = len(server.requests)
    fork = ("eval", "toyset", "--fork-at", "extra", "--set", 'output="new"', "--mode", "auto", "--allow", "--json")
    done = toy(*fork, TOY_URL=server.url)
    assert len(server.requests) - before == done.json["provider_calls"] == 1, done.err
