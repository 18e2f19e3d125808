"""C-022: repeats are repeats, not one cached answer k times."""

import json

import pytest

from harness.testing import ScriptedServer

ANSWERS = ["red", "blue", "red", "green"]


@pytest.fixture(scope="module")
def recorded_colours(tmp_path_factory, tools):
    """One case, four repeats at once, four answers of which two are right."""
    with ScriptedServer(*ANSWERS) as server:
        toy = tools.build(tmp_path_factory.mktemp("colours"), server, cases=("colour",), trials=4)
    case = toy.path / "toyset" / "cases" / "colour.json"
    data = json.loads(case.read_text())
    data["expected_output"] = {"answer": "red"}
    case.write_text(json.dumps(data))
    toy.dataset.snapshot()
    return toy


@pytest.fixture
def colours(recorded_colours, tmp_path, tools):
    """A fresh copy of it."""
    return tools.copied(recorded_colours, tmp_path)


def answers(toy):
    """The recorded answers by trial."""
    recordings = (toy.dataset.recording("colour", trial=trial) for trial in range(6))
    return [json.loads(one.read(one.run.output_hash))["answer"] if one else None for one in recordings]


def test_the_first_pass_stores_four_answers(colours):
    assert sorted(one for one in answers(colours) if one) == sorted(ANSWERS)


def test_the_second_pass_gives_the_same_four_in_the_same_places_offline(colours):
    done = colours("eval", "toyset", "--json", TOY_URL="http://127.0.0.1:9/v1")
    assert (done.json["trials"], done.json["outputs_equal"], done.json["provider_calls"]) == (4, 4, 0)


def test_four_repeats_of_one_case_are_one_unit(colours):
    """A hand calculation: two of four right is 0.5 of one case; one case has no interval."""
    score = colours("eval", "toyset", "--json").json["scores"]["right"]
    assert score == {"value": 0.5, "low": None, "high": None, "n": 1, "missing": 0}


def test_two_more_repeats_are_two_new_calls(colours):
    before = answers(colours)
    with ScriptedServer("green", "green") as server:
        done = colours(
            "eval", "toyset", "--trials", "6", "--mode", "auto", "--save-recordings", "--json", TOY_URL=server.url
        )
        assert server.calls == 2
    assert (done.json["trials"], done.json["provider_calls"], done.json["outputs_equal"]) == (6, 2, 4)
    assert done.json["scores"]["right"]["value"] == pytest.approx(2 / 6)
    colours.dataset.snapshot()
    assert answers(colours) == [*before[:4], "green", "green"]


def test_the_repeat_number_is_part_of_a_judges_key_too(colours):
    colours.manifest('[[evaluators]]\nname = "polite"\nuse = "toy_evaluators:Polite"\n')
    with ScriptedServer("yes", "no", "yes", "yes") as server:
        first = colours("eval", "toyset", "--mode", "auto", "--save-recordings", "--json", TOY_URL=server.url)
        assert server.calls == 4
    colours.dataset.snapshot()
    again = colours("eval", "toyset", "--json")
    assert again.json["provider_calls"] == 0
    assert again.json["scores"]["polite"]["value"] == first.json["scores"]["polite"]["value"] == 0.75
