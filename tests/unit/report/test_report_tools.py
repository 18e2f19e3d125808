"""What forks did with tools: added up once, and the same in every format."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.report import build, render_html, render_markdown, render_text, to_json


def with_tools(trial, *, kept):
    age = {"tool": "rate", "step": "research/rate", "age_s": 90_000.0, "ttl_s": 3600.0}
    outcome = replace(
        trial.outcome,
        expired=({**age, "action": "kept" if kept else "refreshed"},),
        jitter=("draft#1: gpt-5-mini was called anew with temperature 0.7",),
        blocked=({"tool": "send", "step": "send#1", "arguments": {}, "answered_by": "nothing"},),
    )
    return replace(trial, outcome=outcome)


@pytest.fixture
def tooled(result):
    trials = tuple(with_tools(trial, kept=index > 0) for index, trial in enumerate(result.trials[:3]))
    return build(replace(result, trials=trials))


def test_each_step_is_added_up_once(tooled):
    assert [(row.word, row.step, row.times, len(row.cases), row.told) for row in tooled.tools] == [
        ("not executed", "send", 3, 3, "answered by nothing"),
        ("expired, kept", "research/rate", 2, 2, "up to 1 d old, good for 1 h"),
        ("expired, called anew", "research/rate", 1, 1, "up to 1 d old, good for 1 h"),
        ("may come out otherwise", "draft", 3, 3, "gpt-5-mini was called anew with temperature 0.7"),
    ]


def test_a_machine_gets_the_same(tooled):
    data = to_json(tooled)
    assert [(row["step"], row["times"]) for row in data["blocked"]] == [("send", 3)]
    assert [(row["action"], row["times"]) for row in data["expired"]] == [("kept", 2), ("refreshed", 1)]
    assert [row["cases"] for row in data["jitter_calls"]] == [list(tooled.tools[-1].cases)]


@pytest.mark.parametrize("render", [render_text, render_html, render_markdown])
def test_every_format_shows_all_of_them(tooled, render):
    text = render(tooled)
    for row in tooled.tools:
        assert row.word in text
        assert "up to 1 d old" in text


def test_a_replay_whose_effects_the_recording_answered_says_nothing_of_them(equal):
    trial = equal.trials[0]
    call = {"tool": "send", "step": "send", "arguments": {}, "answered_by": "recording"}
    quiet = build(replace(equal, trials=(replace(trial, outcome=replace(trial.outcome, blocked=(call,))),)))
    assert to_json(quiet)["blocked"][0]["told"] == "answered by recording"
    assert "Tools and chance" not in render_text(quiet)


@pytest.mark.parametrize("render", [render_text, render_html, render_markdown])
def test_an_undeclared_change_of_all_cases_is_said_once(forked, render):
    text = " ".join(render(forked).split())
    assert forked.undeclared == (
        "in all 16 cases: the output of step 'classify' has hash 0011aabb, recorded 2233ccdd (first at $)",
    )
    assert text.count("in all 16 cases") == 1
    assert not [problem for problem in forked.problems if problem.kind == "undeclared"]
    assert to_json(forked)["undeclared"] == list(forked.undeclared)
