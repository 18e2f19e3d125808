"""C-021: kill, resume, kill again."""

import signal

LIVE = ("eval", "toyset", "--mode", "live")


def rows(toy):
    """Run id by case, as the store has them."""
    from harness.store import open_store

    with open_store(f"sqlite:///{toy.path / '.goldfork' / 'goldfork.db'}") as store:
        return {row["case"]: row["run_id"] for row in store.load("trials")}


def test_twenty_results_with_at_most_twenty_two_calls(twenty, stalling, tools):
    server = stalling(quick=8)
    process = twenty.start(*LIVE, TOY_URL=server.url, GOLDFORK_CONCURRENCY="2")
    tools.signalled(process, signal.SIGKILL, when=lambda: server.calls == 10)
    assert tools.finish(process).code == -signal.SIGKILL
    kept = rows(twenty)
    assert len(kept) == 8

    server.release()
    resume = ("eval", "toyset", "--resume", "latest", "--json")
    killed = twenty.start(*resume, TOY_URL=server.url, TOY_DIE="1")
    assert tools.finish(killed).code == -signal.SIGKILL
    assert rows(twenty) == kept

    done = twenty(*resume, TOY_URL=server.url)
    assert done.code == 0, done.err
    assert (done.json["trials"], done.json["outputs_equal"], done.json["provider_calls"]) == (20, 20, 20)
    assert server.calls == 22
    assert {case: rows(twenty)[case] for case in kept} == kept


def test_a_resumed_experiment_must_be_what_it_was(toy, server):
    assert toy(*LIVE, GOLDFORK_FORBID_LIVE="1").code == 2
    toy.edit("toy.py", "text.strip()", "text.rstrip()")
    changed_code = toy("eval", "toyset", "--resume", "latest", TOY_URL=server.url)
    assert changed_code.code == 2
    assert "cannot be resumed: its code version was" in changed_code.err
    toy.edit("toy.py", "text.rstrip()", "text.strip()")
    toy.manifest('[[evaluators]]\nname = "mild"\nuse = "toy_evaluators:mild"\n')
    changed_set = toy("eval", "toyset", "--resume", "latest", TOY_URL=server.url)
    assert changed_set.code == 2
    assert "cannot be resumed: its version was 2 and is now 3" in changed_set.err
    assert server.calls == 0


def test_an_experiment_that_could_not_go_on_is_resumed(toy, server):
    assert toy(*LIVE, GOLDFORK_FORBID_LIVE="1").code == 2
    assert "--resume EXPERIMENT" in toy("experiment", "list").out
    done = toy("eval", "toyset", "--resume", "latest", "--json", TOY_URL=server.url)
    assert (done.code, done.json["mode"], done.json["outputs_equal"]) == (0, "live", 3)
