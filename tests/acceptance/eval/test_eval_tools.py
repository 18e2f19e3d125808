"""A dataset forked at once whose pipeline uses tools: what is kept dry, called anew, or too old."""

import json

import pytest

TOOLS = """
SENT = os.environ.get("TOY_SENT", "")


def noted(word):
    if SENT:
        with open(SENT, "a", encoding="utf-8") as file:
            file.write(word + "\\n")


@tool(determinism="time-bound", ttl=0.001, version="1")
def rate(text):
    noted("rate")
    return {"rate": len(text)}


@tool(determinism="side-effect", stand_in="not sent", version="1")
def send(text):
    noted("send")
    return "sent"


@step
def look(text):
    rate(text)
    return text.strip().lower()
"""


@pytest.fixture
def desk(toy, server):
    """The toy with two tools, recorded again."""
    toy.edit("toy.py", "import prompt, step, workflow", "import prompt, step, tool, workflow")
    toy.edit("toy.py", "\n@step\ndef look(text):\n    return text.strip().lower()\n", TOOLS)
    toy.edit(
        "toy.py",
        '    return {"answer": answer(look(text))}',
        '    send(text)\n    return {"answer": answer(look(text))}',
    )
    assert toy("eval", "toyset", "--mode", "live", "--save-recordings", TOY_URL=server.url).code == 0
    toy.dataset.snapshot()
    return toy


def done_in(desk, *arguments, server, **env):
    notes = desk.path / "notes.txt"
    notes.unlink(missing_ok=True)
    done = desk(
        "eval", "toyset", "--mode", "auto", *arguments, "--report-only", "--json",
        TOY_URL=server.url, TOY_SENT=str(notes), **env,
    )  # fmt: skip
    return done, sorted(notes.read_text().split()) if notes.exists() else []


SHOUT = ("--fork-at", "answer", "--set", "prompt:answer=Shout this: {text}")


def test_old_results_are_kept_and_told(desk, server):
    done, called = done_in(desk, *SHOUT, server=server)
    assert done.code == 0, done.err
    assert called == []
    [expired] = done.json["expired"]
    assert (expired["step"], expired["action"], expired["times"]) == ("look/rate", "kept", 3)
    [blocked] = done.json["blocked"]
    assert (blocked["step"], blocked["times"], blocked["told"]) == ("send", 3, "answered by stand-in")
    [jitter] = done.json["jitter_calls"]
    assert (jitter["step"], jitter["cases"]) == ("answer", ["ants", "bees", "cats"])
    shown = desk("experiment", "show", "latest").out
    assert "Tools and chance" in shown
    assert "may come out otherwise" in shown


def test_old_results_are_called_anew_when_asked(desk, server):
    done, called = done_in(desk, *SHOUT, "--expired", "refresh", server=server)
    assert done.code == 0, done.err
    assert called == ["rate"] * 3
    assert [row["action"] for row in done.json["expired"]] == ["refreshed"]
    assert done.json["tools"]["called"] == 3


def test_a_tool_called_anew_is_a_change_of_its_own(desk, server):
    done, called = done_in(desk, "--refresh", "rate", server=server)
    assert done.code == 0, done.err
    assert called == ["rate"] * 3
    assert done.json["change"] == "refresh at toy"
    assert done.json["provider_calls"] == 0
    assert done.json["undeclared"] == []
    both, _ = done_in(desk, *SHOUT, "--refresh", "rate", server=server)
    assert both.code == 2
    assert "exactly one change" in both.err


def test_side_effects_happen_only_where_they_are_allowed(desk, server):
    done, called = done_in(desk, *SHOUT, "--allow-side-effects", server=server)
    assert done.code == 0, done.err
    assert called == ["send"] * 3
    assert "warning: side effects are executed for real in the forks of dataset 'toyset'" in done.err
    assert done.json["blocked"] == []


@pytest.mark.parametrize("option", [("--expired", "refresh"), ("--allow-side-effects",)])
def test_they_belong_to_a_fork(desk, server, option):
    done, called = done_in(desk, *option, server=server)
    assert (done.code, called) == (2, [])
    assert f"{' '.join(option)} belongs to a fork" in done.err


def test_a_replay_executes_no_side_effect(desk):
    done = desk("eval", "toyset", *SHOUT, "--allow-side-effects")
    assert done.code == 2
    assert "mode replay executes no side effects" in done.err


def test_the_plan_of_a_dataset_runs_nothing_and_says_what_it_would_cost(desk, server):
    before = len(server.requests)
    done, called = done_in(desk, *SHOUT, "--expired", "refresh", "--controls", "2", "--plan", server=server)
    assert done.code == 0, done.err
    assert (called, len(server.requests)) == ([], before)
    plan = done.json
    assert (plan["plan"], plan["dataset"], plan["code"]) == (True, "toyset", {"same": 3})
    assert plan["steps"]["look"] == {"run": 3}
    assert plan["steps"]["look/rate"] == {"called": 3}
    assert plan["steps"]["answer"] == {"run": 3}
    assert plan["steps"]["send"] == {"dry": 3}
    assert (plan["certain"]["calls"], plan["at_most"]["calls"], plan["answered"]["calls"]) == (3, 3, 0)
    assert plan["controls"]["calls"] == 6
    listed = [json.loads(line)["mode"] for line in desk("experiment", "list", "--json").out.splitlines()]
    assert listed == ["live"]
    forked, _ = done_in(desk, *SHOUT, "--expired", "refresh", "--controls", "2", server=server)
    assert forked.json["provider_calls"] == plan["at_most"]["calls"] + plan["controls"]["calls"]


def test_a_recorded_fork_costs_nothing_and_a_plain_replay_neither(desk, server):
    assert desk(
        "eval", "toyset", "--mode", "auto", *SHOUT, "--save-recordings", "--report-only", TOY_URL=server.url
    ).code == 0  # fmt: skip
    desk.dataset.snapshot()
    plan = desk("eval", "toyset", *SHOUT, "--plan", "--json").json
    assert [trial["recorded"] for trial in plan["trials"]] == [True] * 3
    assert (plan["at_most"]["calls"], plan["answered"]["calls"]) == (0, 3)
    plain = desk("eval", "toyset", "--plan")
    assert "at most 0 calls anew" in plain.out
    live = desk("eval", "toyset", "--mode", "live", "--plan", "--json").json
    assert live["certain"]["calls"] == 3


def test_a_plan_for_a_person_names_the_cases_that_would_lack_a_recording(desk):
    done = desk("eval", "toyset", *SHOUT, "--plan")
    text = " ".join(done.out.split())
    assert "3 would be forked" in text
    assert "mode replay calls nothing: up to 3 trials would lack a recording" in text
    assert "Nothing was run or called." in text
