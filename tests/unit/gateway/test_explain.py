"""The first difference between two requests, in words."""

import json

import pytest

from harness.gateway import differences


def said(before: object, after: object) -> list[tuple[str, str]]:
    found = differences(json.dumps(before).encode(), json.dumps(after).encode())
    return [(difference.cause, str(difference)) for difference in found]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"model": "a"}, {"model": "b"}, ("model", "the model (recorded 'a', now 'b')")),
        ({"top_p": 1}, {}, ("parameter", "parameter 'top_p' (recorded 1, now absent)")),
        ({"n": True}, {"n": 1}, ("parameter", "parameter 'n' (recorded true, now 1)")),
        (
            {"response_format": {"schema": {"b": 1}}},
            {"response_format": {"schema": {"b": 2}}},
            ("parameter", "parameter 'response_format.schema.b' (recorded 1, now 2)"),
        ),
        ({"input": "a"}, {"input": "b"}, ("messages", "the prompt (input) (recorded 'a', now 'b')")),
        ({"input": ["a"]}, {"input": ["a", "b"]}, ("messages", "the count of input (recorded 1, now 2)")),
    ],
)
def test_one_difference(before, after, expected):
    assert said(before, after) == [expected]


def test_the_model_comes_first_and_the_prompt_last():
    before = {"messages": [{"role": "user", "content": "a"}], "seed": 1, "model": "a", "tools": []}
    after = {"messages": [], "seed": 2, "model": "b", "tools": [{"name": "t"}]}
    assert [cause for cause, _ in said(before, after)] == ["model", "parameter", "tools", "messages"]


def test_long_texts_are_cut_around_the_difference():
    before = "x" * 5000 + "old" + "y" * 5000
    ((_, text),) = said({"prompt": before}, {"prompt": before.replace("old", "new")})
    assert "old" in text
    assert "new" in text
    assert len(text) < 250


def test_hostile_text_is_quoted():
    ((_, text),) = said({"prompt": "a"}, {"prompt": "\x1b[2J\n"})
    assert "\x1b" not in text
    assert "\n" not in text


def test_an_id_is_seen_to_be_volatile():
    before, after = (f"run {'0' * 4}{n}1b2c3d-1111-2222-3333-444444444444" for n in "ab")
    (difference,) = differences(json.dumps({"prompt": before}).encode(), json.dumps({"prompt": after}).encode())
    assert difference.volatile


def test_bodies_that_are_not_json_and_bodies_that_differ_in_form():
    assert differences(b"\x00", b"\x01")[0].cause == "body"
    assert differences(b'{"a": 1}', b'{"a":1}')[0].name.startswith("the form")
