"""``goldfork eval`` on a recorded dataset."""

import json

import pytest

from harness.dataset import GoldenDataset
from harness.experiment import EvalOptions, run_experiment
from harness.store import open_store
from harness.testing import Scripted


def test_unchanged_code_replays_equal_for_free(toy):
    done = toy("eval", "toyset", "--json")
    assert done.code == 0, done.err
    found = done.json
    assert (found["verdict"], found["exit_code"]) == ("equivalent", 0)
    assert (found["cases"], found["trials"], found["outputs_equal"]) == (3, 3, 3)
    assert (found["provider_calls"], found["tokens"]["spent"]) == (0, 0)
    assert found["tokens"]["saved"] > 0
    assert found["scores"]["right"]["value"] == 1.0
    assert found["verdicts"]["right"]["basis"] == "identity"
    assert found["steps"] == {"reused": 0, "run": 6}


def test_the_terminal_says_the_verdict_and_the_score(toy):
    done = toy("eval", "toyset")
    assert done.code == 0
    assert "EQUIVALENT" in done.out
    assert "right" in done.out


def test_reports_are_written_by_suffix_and_named(toy):
    done = toy("eval", "toyset", "--json", "-o", "out/report.html", "-o", "comment.md", "-o", "junit.xml")
    assert done.json["reports"] == ["out/report.html", "comment.md", "junit.xml"]
    for name in done.json["reports"]:
        assert (toy.path / name).stat().st_size > 0


def test_a_code_change_is_seen_and_what_it_needs_is_missing(toy):
    toy.edit("toy.py", "text.strip().lower()", "text.strip()")
    done = toy("eval", "toyset", "--json")
    assert (done.code, done.json["verdict"]) == (4, "not_measurable")
    assert done.json["scores"]["right"]["missing"] == 3


def test_a_changed_output_without_a_new_call_is_inconclusive(toy):
    toy.edit("toy.py", '{"answer": answer(look(text))}', '{"answer": answer(look(text)), "new": 1}')
    done = toy("eval", "toyset", "--json")
    assert (done.code, done.json["verdict"], done.json["outputs_equal"]) == (0, "inconclusive", 0)
    assert toy("eval", "toyset", "--strict").code == 3


def test_auto_calls_only_for_what_is_new(toy, server):
    toy.edit("toy.py", "look(text))}", 'look(text) if text != "BEES" else "wasps")}')
    done = toy("eval", "toyset", "--mode", "auto", "--json", TOY_URL=server.url)
    assert (done.json["provider_calls"], done.json["outputs_equal"]) == (1, 2)
    assert server.calls == 1


def test_a_case_filter_runs_only_that_case(toy):
    found = toy("eval", "toyset", "--case", "bees", "--json").json
    assert (found["cases"], found["trials"]) == (1, 1)


def test_a_dataset_is_found_by_name_below_the_datasets_folder(toy):
    toy.path.joinpath("datasets").mkdir()
    toy.path.joinpath("toyset").rename(toy.path / "datasets" / "toyset")
    assert toy("eval", "toyset").code == 0


def test_a_fork_runs_what_the_change_touches_and_is_replayed_from_its_arm(toy, server):
    (toy.path / "new.txt").write_text("Kindly answer: {text}")
    fork = ("eval", "toyset", "--fork-at", "answer", "--set", "prompt:answer=@new.txt", "--json")
    first = toy(*fork, "--mode", "auto", "--save-recordings", TOY_URL=server.url)
    assert first.json["provider_calls"] == 3
    assert first.json["steps"] == {"reused": 3, "run": 3}
    assert first.json["outputs_equal"] == 0
    assert "dataset snapshot" in first.err
    toy.dataset.snapshot()
    again = toy(*fork)
    assert (again.json["provider_calls"], again.json["outputs_equal"]) == (0, 0)
    assert again.json["scores"]["right"] == first.json["scores"]["right"]
    assert toy("eval", "toyset", "--json").json["outputs_equal"] == 3


def test_a_fork_in_replay_without_its_recordings_is_not_measurable(toy):
    done = toy("eval", "toyset", "--fork-at", "answer", "--set", "model=toy-2", "--json")
    assert (done.code, done.json["provider_calls"]) == (4, 0)


JUDGED = """
[gate]
scorers = ["right"]

[[evaluators]]
name = "polite"
use = "toy_evaluators:Polite"
"""


@pytest.fixture
def judged(toy, server):
    """The dataset with a judge whose calls are recorded."""
    toy.manifest(JUDGED.replace('["right"]', '["polite"]'))
    done = toy("eval", "toyset", "--mode", "auto", "--save-recordings", "--json", TOY_URL=server.url)
    assert done.json["provider_calls"] == 3
    toy.dataset.snapshot()
    return toy


def test_a_judges_calls_are_recorded_under_its_own_arm_and_replayed(judged):
    arms = {ref.arm for ref in judged.dataset.arms("ants")}
    assert arms == {"recorded", "evaluator:polite@1"}
    done = judged("eval", "toyset", "--json")
    assert (done.code, done.json["provider_calls"]) == (0, 0)
    assert done.json["scores"]["polite"]["value"] == 1.0


def test_a_judge_without_recordings_fails_its_score_and_nothing_else(toy):
    toy.manifest(JUDGED)
    done = toy("eval", "toyset", "--json", "-o", "all.json")
    assert done.json["outputs_equal"] == 3
    assert done.json["scores"]["polite"] == {"value": None, "low": None, "high": None, "n": 0, "missing": 3}
    assert "not recorded" in toy("experiment", "show", "latest").out


def test_a_fork_asks_the_judge_about_new_outputs_under_an_arm_of_its_own(judged, server):
    fork = ("--fork-at", "answer", "--set", "prompt:answer=Kindly {text}", "--mode", "auto", "--json")
    forked = judged("eval", "toyset", *fork, "--save-recordings", TOY_URL=server.url)
    assert forked.json["provider_calls"] == 6
    arms = {ref.arm for ref in judged.dataset.arms("ants")}
    (change,) = (arm for arm in arms if arm.startswith("fork:"))
    assert f"evaluator:polite@1+{change}" in arms


def test_a_fork_whose_outputs_are_equal_needs_no_new_judgement(judged, server):
    """Another model gives the same words: the judge's recorded answers hold."""
    fork = ("--fork-at", "answer", "--set", "model=toy-2", "--mode", "auto", "--json")
    forked = judged("eval", "toyset", *fork, TOY_URL=server.url)
    assert (forked.json["provider_calls"], forked.json["outputs_equal"]) == (3, 3)
    assert forked.json["scores"]["polite"]["value"] == 1.0


def test_a_shipped_evaluator_gates_by_its_summary(toy):
    toy.manifest(
        '[gate]\nthresholds = { "label.accuracy" = 0.9, "label.f1.macro" = 0.9 }\n'
        '[[evaluators]]\nname = "label"\nuse = "evaluators.classification:Classification"\n'
        'options = { field = "answer" }\n'
    )
    done = toy("eval", "toyset", "--json")
    assert (done.code, done.json["scores"]["label.accuracy"]["value"]) == (0, 1.0), done.json
    toy.edit("toy.py", '{"answer": answer(look(text))}', '{"answer": answer(look(text)) + "!" * (text == "CATS")}')
    done = toy("eval", "toyset", "--json")
    assert (done.code, done.json["verdict"]) == (1, "regressed")
    assert done.json["verdicts"]["label.accuracy"]["basis"] == "threshold"


def test_a_step_can_be_evaluated_alone(toy):
    (toy.path / "toy_evaluators.py").write_text("def lower(output):\n    return output.islower()\n")
    head = '[gate]\nscorers = ["lower"]\n[[evaluators]]\nname = "lower"\nuse = "toy_evaluators:lower"\n'
    toy.manifest(head + '[evaluators.options]\nstep = "look"\n')
    assert toy("eval", "toyset", "--json").json["scores"]["lower"]["value"] == 1.0
    toy.manifest(head + '[evaluators.options]\nstep = "peek"\n')
    assert toy("eval", "toyset").code == 4
    assert "no step 'peek'; its steps are answer, look" in toy("experiment", "show", "latest").out


CRASHES = """
def right(output):
    if "bees" in output["answer"]:
        raise KeyError("bees")
    return float("inf") if "cats" in output["answer"] else 1
"""


def test_a_crashing_evaluator_is_a_failed_score_not_a_zero(toy):
    (toy.path / "toy_evaluators.py").write_text(CRASHES)
    toy.manifest('[[evaluators]]\nname = "right"\nuse = "toy_evaluators:right"\n')
    found = toy("eval", "toyset", "--json").json["scores"]["right"]
    assert (found["value"], found["missing"]) == (1.0, 2)


def test_async_evaluators_and_targets_work_together(toy, server):
    (toy.path / "toy_evaluators.py").write_text("async def right(output, trial):\n    return trial == 0\n")
    toy.edit("toy.py", '@workflow("toy")\ndef run', '@workflow("toy")\nasync def run')
    toy.manifest('[gate]\nscorers = ["right"]\n[[evaluators]]\nname = "right"\nuse = "toy_evaluators:right"\n')
    done = toy("eval", "toyset", "--json")
    assert (done.code, done.json["scores"]["right"]["value"]) == (0, 1.0)


def test_everything_is_in_the_store(toy):
    experiment = toy("eval", "toyset", "--json").json["experiment"]
    listed = [json.loads(line) for line in toy("experiment", "list", "--json").out.splitlines()]
    assert [(line["experiment"], line["status"], line["verdict"]) for line in listed] == [
        (experiment, "ok", "equivalent")
    ]
    shown = toy("experiment", "show", experiment[:20], "--json").json
    assert (shown["experiment"], shown["outputs_equal"], shown["verdict"]) == (experiment, 3, "equivalent")
    assert shown == toy("experiment", "show", "latest", "--json").json


def test_two_experiments_are_compared_output_by_output(toy):
    first = toy("eval", "toyset", "--json").json["experiment"]
    toy.edit("toy.py", '{"answer": answer(look(text))}', '{"answer": answer(look(text)) + "!" * (text == "CATS")}')
    second = toy("eval", "toyset", "--json").json["experiment"]
    found = toy("experiment", "compare", first, second, "--json").json
    assert (found["paired"], [(one["case"], one["trial"]) for one in found["differing"]]) == (3, [("cats", 0)])
    assert [place["path"] for place in found["differing"][0]["output"]["places"]] == ["$.answer"]
    assert found["scores"]["right"]["difference"] == pytest.approx(-1 / 3)
    assert "2 of 3 trials equal" in toy("experiment", "compare", first, second).out


def test_a_baseline_is_accepted_shown_and_compared_with(toy):
    accepted = toy("baseline", "accept", "toyset", "--json")
    assert accepted.code == 0, accepted.err
    shown = toy("baseline", "show", "toyset", "--json").json
    assert (shown["experiment"], shown["fresh"], shown["cases"]) == (accepted.json["experiment"], False, 3)
    assert "right" in toy("baseline", "show", "toyset").out
    toy.edit("toy.py", '{"answer": answer(look(text))}', '{"answer": answer(look(text)) + "!" * (text == "CATS")}')
    found = toy("eval", "toyset", "--json").json["verdicts"]["right"]
    assert found["word"] == "inconclusive"
    assert found["difference"] == pytest.approx(-1 / 3)


def test_a_finished_experiment_can_be_accepted(toy):
    experiment = toy("eval", "toyset", "--json").json["experiment"]
    toy("baseline", "accept", "toyset", "--experiment", experiment)
    assert GoldenDataset.load(toy.path / "toyset").read_baseline()["experiment"] == experiment


def test_a_refused_call_is_repeated_as_told_and_counted_once(toy, server):
    """C-008: 429, then the answer; the wait is short because the provider says so."""
    server.script(Scripted(status=429, body={"error": {"message": "slow"}}, headers={"retry-after-ms": "1"}))
    done = toy("eval", "toyset", "--mode", "live", "--case", "ants", "--json", TOY_URL=server.url)
    assert (done.code, done.json["outputs_equal"], done.json["provider_calls"]) == (0, 1, 2)
    assert server.calls == 2
    once = toy("eval", "toyset", "--mode", "live", "--case", "ants", "--json", TOY_URL=server.url)
    assert done.json["tokens"] == once.json["tokens"]


def test_what_was_answered_before_a_refusal_is_not_asked_again(toy, server):
    toy.edit("toy.py", "answer(look(text))}", "answer(answer(look(text)))}")
    server.script("one", Scripted(status=429, body={"error": {"message": "slow"}}, headers={"retry-after": "0"}))
    done = toy("eval", "toyset", "--mode", "live", "--case", "ants", "--json", TOY_URL=server.url)
    assert [seen.json["messages"][0]["content"] for seen in server.requests] == [
        "Answer this: ants",
        "Answer this: one",
        "Answer this: one",
    ]
    assert done.json["provider_calls"] == 3
    assert done.json["tokens"] == {"spent": 7 + 1 + 7 + 5, "saved": 0}


def test_a_judge_that_is_refused_asks_again(toy, server):
    toy.manifest(JUDGED)
    server.script(Scripted(status=429, body={"error": {"message": "slow"}}, headers={"retry-after": "0"}))
    done = toy("eval", "toyset", "--mode", "auto", "--json", TOY_URL=server.url)
    assert (server.calls, done.json["provider_calls"]) == (4, 4)
    assert (done.json["scores"]["polite"]["value"], done.json["scores"]["polite"]["missing"]) == (1.0, 0)


def test_a_wait_over_the_cap_fails_the_trial_and_says_so(toy, server):
    server.script(Scripted(status=429, body={"error": {"message": "slow"}}, headers={"retry-after": "86400"}))
    done = toy("eval", "toyset", "--mode", "live", "--case", "ants", "--max-wait", "5", TOY_URL=server.url)
    assert done.code == 4
    assert server.calls == 1
    assert "86400 s, more than the 5 s of --max-wait" in " ".join(done.out.split())


def test_the_datasets_own_prices_say_what_was_saved_and_spent(toy, server):
    toy.manifest('[prices.toy-1]\ninput = "2"\noutput = "10"\ncurrency = "EUR"\n')
    replayed = toy("eval", "toyset", "--json").json
    live = toy("eval", "toyset", "--mode", "live", "--json", TOY_URL=server.url).json
    money = 3 * (7 * 2 + 5 * 10)
    assert replayed["tokens"] == {"spent": 0, "saved": 3 * (7 + 5)}
    assert float(replayed["cost"]["saved"]) == pytest.approx(money / 1e6)
    assert float(live["cost"]["spent"]) == pytest.approx(money / 1e6)
    assert (replayed["cost"]["currency"], live["cost"]["currency"]) == ("EUR", "EUR")


def test_a_watcher_sees_every_trial_and_what_was_spent(toy, tools):
    seen = []
    with tools.inside(toy.path, {}), open_store(f"sqlite:///{toy.path / 'own.db'}") as store:
        result = run_experiment(toy.dataset, EvalOptions(concurrency=1), store=store, progress=seen.append)
    assert [(one.done, one.total) for one in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert seen[0].last is None
    assert {one.last.case for one in seen[1:]} == {"ants", "bees", "cats"}
    assert seen[-1].counts == result.counts
