"""Control forks: what nothing changed does to the scores, beside what the change does."""

import contextlib
import itertools

import pytest

from harness.store import open_store
from harness.testing import ScriptedServer

FORK = ("--fork-at", "answer", "--set", "prompt:answer=Shout this: {text}")


class Jittery:
    """Another answer every time, as a model with a temperature gives; the judge says yes."""

    def __init__(self):
        self.numbers = itertools.count()

    def __call__(self, seen):
        question = seen.json["messages"][0]["content"]
        return "yes" if question.startswith("Is this polite?") else f"reply {next(self.numbers)} to {question}"


def test_controls_are_recorded_and_replay_offline_for_nothing(toy, server):
    made = toy(
        "eval", "toyset", "--mode", "auto", *FORK, "--controls", "2", "--save-recordings", "--report-only", "--json",
        TOY_URL=server.url,
    )  # fmt: skip
    assert made.code == 0, made.err
    # A fork's call and one for each of two controls, per case.
    assert made.json["provider_calls"] == 3 * 3
    assert made.json["controls"]["per_trial"] == 2
    arms = {ref.arm for case in ("ants", "bees", "cats") for ref in toy.dataset.arms(case)}
    assert {"control:1@answer", "control:2@answer"} < arms
    toy.dataset.snapshot()
    asked = len(server.requests)
    again = toy("eval", "toyset", *FORK, "--controls", "2", "--report-only", "--json")
    assert again.code == 0, again.err
    assert again.json["provider_calls"] == 0
    assert again.json["tokens"]["spent"] == 0
    assert len(server.requests) == asked
    assert again.json["effects"] == made.json["effects"]
    effect = again.json["effects"]["right"]
    assert effect["effect"]["value"] == -1
    # Every control gave the recorded reply, so three cases moved by the change and not by chance.
    assert {one["word"] for one in effect["cases"]} == {"beyond jitter"}
    assert [one["controls"] for one in effect["cases"]] == [[1.0, 1.0]] * 3
    assert effect["word"] == "unknown"
    assert again.json["steps"] == {"reused": 3, "run": 3}


def test_a_model_that_never_answers_twice_the_same_is_within_its_jitter(toy):
    with ScriptedServer(rule=Jittery()) as jittery:
        done = toy(
            "eval", "toyset", "--mode", "auto", *FORK, "--controls", "2", "--report-only", "--json",
            TOY_URL=jittery.url,
        )  # fmt: skip
    assert done.code == 0, done.err
    # Recorded is right and every later answer is not, controls as well: chance did that, not the change.
    assert {one["word"] for one in done.json["effects"]["right"]["cases"]} == {"within jitter"}
    assert done.json["effects"]["right"]["jitter"]["value"] == -1


def test_one_control_is_too_few_to_say_anything(toy, server):
    done = toy(
        "eval", "toyset", "--mode", "auto", *FORK, "--controls", "1", "--report-only", "--json", TOY_URL=server.url
    )
    assert {one["word"] for one in done.json["effects"]["right"]["cases"]} == {"unknown"}


def test_replay_says_which_controls_are_not_recorded(toy):
    done = toy("eval", "toyset", *FORK, "--controls", "2")
    assert done.code == 2
    assert "case 'ants' lacks control:1@answer, control:2@answer" in done.err
    assert "--mode auto --save-recordings" in done.err
    assert done.err.count("\n") == 1


def test_controls_without_a_provider_are_one_sentence_and_exit_2(toy):
    done = toy("eval", "toyset", "--mode", "auto", *FORK, "--controls", "2", GOLDFORK_FORBID_LIVE="1")
    assert done.code == 2
    assert "GOLDFORK_FORBID_LIVE" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--controls", "2"), ("--mode", "live", "--controls", "1")])
def test_controls_belong_to_a_fork(toy, arguments):
    done = toy("eval", "toyset", *arguments)
    assert done.code == 2
    assert "--fork-at and --set" in done.err


def test_a_resumed_experiment_keeps_its_controls(toy, server):
    options = ("--mode", "auto", *FORK, "--controls", "2", "--report-only", "--json")
    made = toy("eval", "toyset", *options, TOY_URL=server.url).json
    shown = toy("experiment", "show", made["experiment"], "--json")
    assert shown.json["effects"] == made["effects"]


def test_the_scores_of_controls_stand_in_the_tables_under_their_arms(toy, server):
    options = ("--mode", "auto", *FORK, "--controls", "2", "--report-only", "--json")
    made = toy("eval", "toyset", *options, TOY_URL=server.url).json
    with contextlib.closing(open_store(f"sqlite:///{toy.path / '.goldfork' / 'goldfork.db'}")) as store:
        scores = store.load("scores", experiment=made["experiment"], name="right")
        trials = store.load("trials", experiment=made["experiment"])
        arms = {store.run(row["run_id"]).arm: row["arm"] for row in trials}
    found = {case: {"recorded": 0.0, "fork": 0.0, "controls": []} for case in ("ants", "bees", "cats")}
    for row in sorted((row for row in scores if row["case"]), key=lambda row: row["arm"]):
        kind = row["arm"].partition(":")[0]
        if kind == "control":
            found[row["case"]]["controls"].append(float(row["value"]))
        else:
            found[row["case"]][kind] = float(row["value"])
    shown = toy("experiment", "show", made["experiment"], "--json").json["effects"]["right"]["cases"]
    assert {one["case"]: {name: one[name] for name in ("recorded", "fork", "controls")} for one in shown} == found
    # Each trial, and each control of it, is joined to the run that it is about.
    assert len(trials) == 9
    assert {"control:1@answer", "control:2@answer"} < set(arms)
    assert all(arm == of for arm, of in arms.items())
