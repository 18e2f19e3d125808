"""JUnit for CI; it agrees with the exit code."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from harness.report import build, render_junit


def parsed(result):
    return ET.fromstring(render_junit(build(result)).encode())


def outcome(root, name):
    test = next(test for test in root.iter("testcase") if test.get("name") == name)
    return next((child.tag for child in test if child.tag in {"failure", "error", "skipped"}), "passed")


def test_each_case_is_a_test(result):
    root = parsed(result)
    names = [test.get("name") for test in root.iter("testcase") if test.get("classname") == "triage"]

    assert names == sorted({trial.case for trial in result.trials})
    assert outcome(root, "wrong-item") == "failure"
    assert outcome(root, "angry-third-mail") == "error"
    assert outcome(root, "password-reset") == "error"
    assert outcome(root, "invoice-vat") == "passed", "a changed output alone fails nothing"


def test_the_counts_agree_with_the_tests(result):
    root = parsed(result)
    suite = root.find("testsuite")

    for element in (root, suite):
        assert int(element.get("tests")) == len(list(root.iter("testcase")))
        assert int(element.get("failures")) == len(list(root.iter("failure")))
        assert int(element.get("errors")) == len(list(root.iter("error")))


def test_scores_are_properties(result):
    found = {one.get("name"): one.get("value") for one in parsed(result).iter("property")}

    assert found["score.helpful.value"] == "0.731"
    assert found["score.helpful.missing"] == "3"
    assert found["score.agreement.kappa.value"] == "unknown"
    assert found["cost.spent"] == "0.009888"


@pytest.mark.parametrize(
    ("code", "verdict", "tag"),
    [
        (0, "passed", "skipped"),
        (1, "failure", "failure"),
        (3, "failure", "failure"),
        (4, "error", "error"),
        (130, "error", "error"),
    ],
)
def test_the_gate_agrees_with_the_exit_code(result, code, verdict, tag):
    root = parsed(replace(result, exit_code=code))

    assert outcome(root, "verdict") == verdict
    assert outcome(root, "category.f1_macro") == tag
    assert outcome(root, "min_measured") == "passed"
    assert (outcome(root, "wrong-item") == "passed") is (code == 0)


def test_an_equal_replay_passes(equal):
    root = parsed(equal)

    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("0", "0", "0")


def test_characters_that_xml_cannot_hold_are_written_as_escapes(hostile, hostile_strings):
    root = parsed(hostile)
    names = {test.get("name") for test in root.iter("testcase")}

    assert "\\x1b[31mred\\x00\\ud800\\ufffe\\u202egnirts" in names
    assert hostile_strings[0] in names
