"""Reading a judge's reply: a verdict, or the reason why there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators._scale import Scale, parse_scale
from evaluators._verdict import read_reply
from harness.errors import EvaluatorError

TEN = Scale("range", 0, 10)
FIVE = Scale("range", 0, 5)
LETTERS = Scale("labels", labels=("C", "I"))
PASS = Scale("pass")


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        ("8/10", 8),
        ("I would say 8 out of 10.", 8),
        ("Score: 7.5 (out of 10)", 7.5),
        ("Grade: C\nNo grounds to downgrade: it holds up.", "C"),
        ("First thought GRADE: I. On reflection GRADE:\u200bC", "C"),
        ("grade: c", "C"),
        ("GRADE: C/I", "unscored: ambiguous"),
        ("Score: 11", "unscored: out of range"),
        ("Somewhere between 6 and 8", "unscored: ambiguous"),
        ("I can't help with rating this content.", "unscored: refusal"),
        ("", "unscored: empty"),
    ],
)
def test_c025_a_grade_out_of_prose(reply, want):
    scale = LETTERS if "grade" in reply.lower() else TEN
    found = read_reply(reply, scale)
    if isinstance(want, str) and want.startswith("unscored: "):
        assert found.verdict is None
        assert str(found.unscored).startswith(want.removeprefix("unscored: "))
    else:
        assert (found.verdict, found.unscored) == (want, None)


@pytest.mark.parametrize(
    ("reply", "finish_reason", "want", "note"),
    [
        ('```json\n{"reason":"ok","score":4}\n```', "stop", 4, None),
        ('Here you go: {"reason":"uses {braces}","score":4} Thanks!', "stop", 4, None),
        ('<think>maybe {"score":1}</think>{"score":4}', "stop", 4, None),
        ('{"score":"4"}', "stop", 4, "the text '4' was read as a number"),
        ('{"score":true}', "stop", None, "wrong type"),
        ('{"score":NaN}', "stop", None, "not finite"),
        ('{"score":"high"}', "stop", None, "wrong type"),
        ('{"pass":true,"score":0}', "stop", None, "contradiction"),
        ('{"reason":"fine"}', "stop", None, "no verdict"),
        ('{"reason":"long', "length", None, "truncated"),
    ],
)
def test_c026_fences_drafts_and_contradictions(reply, finish_reason, want, note):
    found = read_reply(reply, FIVE, finish_reason=finish_reason)
    assert found.verdict == want
    assert not isinstance(found.verdict, bool)
    if want is None:
        assert str(found.unscored).startswith(note)
    else:
        assert found.notes == ((note,) if note else ())


def test_c026_a_truncated_reply_hints_at_the_limit_and_is_not_asked_again():
    found = read_reply('{"reason":"long', FIVE, finish_reason="length")
    assert "max_tokens" in str(found.unscored)
    assert found.retry is False
    assert read_reply("<think>so much to say", FIVE, finish_reason="length").retry is False
    assert read_reply('{"reason":"ok","verdict":3}', FIVE, finish_reason="length").verdict == 3


@pytest.mark.parametrize(
    ("scale", "reply", "want"),
    [
        (PASS, '{"reason":"r","verdict":true}', True),
        (PASS, '{"reason":"r","verdict":"FAIL"}', False),
        (PASS, '{"verdict":1}', None),
        (PASS, '{"pass":true,"score":0}', None),
        (PASS, '{"verdict":true,"pass":false}', None),
        (PASS, "Verdict: **pass**", True),
        (PASS, "**Fail**", False),
        (PASS, "It might pass or fail.", None),
        (FIVE, '{"verdict":2}\nOn reflection:\n{"verdict":4}', 4),
        (FIVE, '{"verdict":6}', None),
        (FIVE, '{"verdict":null}', None),
        (FIVE, '{"passed":true}', None),
        (FIVE, "4", 4),
        (FIVE, "2/3 of the facts are right. Score: 4", 4),
        (FIVE, "7/10", None),
        (FIVE, "4/5 for tone, 2/5 for facts", None),
        (FIVE, "There are 3 errors.", None),
        (FIVE, "Grade 3 pupils wrote this.", None),
        (FIVE, '<think>maybe {"score":1}</think>I cannot tell.', None),
        (LETTERS, '{"verdict":"i"}', "I"),
        (LETTERS, '{"verdict":"D"}', None),
        (LETTERS, '{"verdict":["C"]}', None),
    ],
)
def test_every_scale_reads_its_own_verdicts_only(scale, reply, want):
    found = read_reply(reply, scale)
    assert found.verdict is want or (found.verdict == want and not isinstance(want, bool))
    assert (found.verdict is None) == (found.unscored is not None)


@pytest.mark.parametrize("scale", [TEN, LETTERS, PASS])
@given(reply=st.text(max_size=80))
def test_any_text_is_read_or_unscored_with_a_reason(scale, reply):
    found = read_reply(reply, scale)
    assert (found.verdict is None) == bool(found.unscored)


def test_deep_and_long_replies_are_read_in_time():
    assert read_reply("{" * 50_000, FIVE).unscored == "no verdict"
    assert read_reply('{"a":' * 5_000, FIVE).unscored
    assert read_reply("score: " * 20_000 + '{"verdict": 3}', FIVE).verdict == 3


def test_scales_are_parsed_and_bad_ones_named():
    assert parse_scale("pass") == PASS
    assert parse_scale([0, 5]) == FIVE
    assert parse_scale(["C", "I"]) == LETTERS
    for bad in ("fail", 5, [5, 0], [0, 1000], [0, 2, 4], ["a"], ["a", "A"], ["a", ""], [True, False], [0.5, 1]):
        with pytest.raises(EvaluatorError, match="option 'scale'"):
            parse_scale(bad)


def test_a_persons_label_is_read_on_the_same_scale():
    assert [PASS.human(value) for value in (True, 0, 1, "pass", "maybe", 2)] == [True, False, True, True, None, None]
    assert [FIVE.human(value) for value in (3, "4", 9)] == [3, 4, None]
