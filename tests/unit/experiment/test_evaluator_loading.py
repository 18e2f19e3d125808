"""Evaluators are found by name, built from options, and get what they ask for by parameter name."""

import sys
import types

import pytest

from harness.dataset import EvaluatorSpec
from harness.errors import EvaluatorError
from harness.experiment import load_evaluators
from harness.score import EvaluatorContext


class Length:
    version = "7"

    def __init__(self, *, name: str, most: int = 10) -> None:
        self.name, self.most = name, most

    def evaluate(self, output):
        return len(output) <= self.most


def equals(output, expected_output):
    return output == expected_output


def longer(output, than=3):
    return len(output) > than


def nosy(output, temperature):
    return temperature


async def slow(output, trial):
    return trial


@pytest.fixture(autouse=True)
def toy_module():
    """This file under an importable name: test modules have none in importlib mode."""
    module = types.ModuleType("toy_evaluators")
    module.__dict__.update(Length=Length, equals=equals, longer=longer, nosy=nosy, slow=slow, number=3)
    sys.modules["toy_evaluators"] = module
    yield
    del sys.modules["toy_evaluators"]


def load(use, **options):
    (found,) = load_evaluators((EvaluatorSpec(name="mine", use=use, options=options),))
    return found


def context(**changes):
    given = {"input": {}, "output": "abcd", "expected_output": "abcd", "metadata": {}, "case": None, "run": None}
    return EvaluatorContext(**{**given, "trial": 2, **changes})


def call(evaluator, **changes):
    return evaluator.call(**evaluator.arguments(context(**changes)))


def test_a_class_is_built_from_its_options_and_named_by_the_dataset():
    found = load("toy_evaluators:Length", most=3)
    assert (found.name, found.version, found.arm) == ("mine", "7", "evaluator:mine@7")
    assert found.subject.name == "mine"
    assert call(found) is False


def test_a_plain_function_is_bound_by_parameter_name():
    found = load("toy_evaluators:equals")
    assert found.asks == ("output", "expected_output")
    assert call(found) is True
    assert call(found, expected_output="x") is False


def test_options_of_a_function_are_its_own_parameters():
    assert call(load("toy_evaluators:longer")) is True
    assert call(load("toy_evaluators:longer", than=4)) is False


def test_a_step_option_selects_a_step_and_is_not_passed_on():
    found = load("toy_evaluators:equals", step="draft")
    assert found.step == "draft"
    assert call(found) is True


@pytest.mark.parametrize(
    ("use", "options", "says"),
    [
        ("clasification", {}, "there is no evaluator 'clasification'; known are"),
        ("toy_evaluators:absent", {}, "cannot import 'toy_evaluators:absent'"),
        ("no_such_module:Thing", {}, "cannot import 'no_such_module:Thing'"),
        ("toy_evaluators:nosy", {}, "asks for 'temperature', which is not offered"),
        ("toy_evaluators:number", {}, "neither a function nor an object with an evaluate method"),
        ("toy_evaluators:equals", {"fuzzy": True}, "has no option 'fuzzy'"),
        ("toy_evaluators:Length", {"least": 1}, "does not take these options"),
        ("toy_evaluators:equals", {"step": 3}, "write a step's name"),
    ],
)
def test_a_wrong_evaluator_is_refused_when_it_is_loaded(use, options, says):
    with pytest.raises(EvaluatorError) as refused:
        load(use, **options)
    assert says in str(refused.value)
    assert "mine" in str(refused.value)


def test_two_evaluators_of_one_name_are_refused():
    spec = EvaluatorSpec(name="mine", use="toy_evaluators:equals")
    with pytest.raises(EvaluatorError, match="two evaluators are named 'mine'"):
        load_evaluators((spec, spec))


def test_an_evaluator_that_sees_the_run_is_known_as_such():
    sys.modules["toy_evaluators"].whole = lambda run: len(run.steps)
    assert load("toy_evaluators:whole").sees_run
    assert not load("toy_evaluators:equals").sees_run
