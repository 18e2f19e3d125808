"""Word-level differences."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from harness.report._difference import SIDE, difference, readable

TEXT = st.lists(st.sampled_from(["a", "bc", " ", "\n", ".", "é", "日本", "x_1"]), max_size=40).map("".join)


@given(TEXT, TEXT)
def test_both_texts_can_be_read_from_the_pieces(before, after):
    pieces = difference(before, after)

    if before == after:
        assert pieces == ()
        return
    assert "".join(piece.text for piece in pieces if piece.kind in {"same", "gone"}) == before
    assert "".join(piece.text for piece in pieces if piece.kind in {"same", "new"}) == after


def test_words_are_not_cut():
    pieces = difference("the reply was polite", "the reply was polished")

    assert [(piece.kind, piece.text) for piece in pieces] == [
        ("same", "the reply was "),
        ("gone", "polite"),
        ("new", "polished"),
    ]


def test_long_equal_text_is_shortened_and_counted():
    filler = " ".join(f"word{number}" for number in range(200))
    pieces = difference(f"{filler} one {filler} two {filler}", f"{filler} ONE {filler} TWO {filler}")

    assert [piece.text for piece in pieces if piece.kind == "gone"] == ["one", "two"]
    assert [piece.text for piece in pieces if piece.kind == "left_out"] == [
        "1,330 equal characters",
        "1,171 equal characters",
        "1,330 equal characters",
    ]


def test_a_huge_text_is_cut_and_the_cut_is_stated():
    pieces = difference("old " * 50_000, "new " * 50_000)

    assert "further characters before" in pieces[-2].text
    assert sum(len(piece.text) for piece in pieces) < 2 * SIDE + 200


def test_monotonous_text_is_compared_too():
    assert len(difference("a b " * 3_000, "b a c " * 3_000)) > 1


def test_text_is_shown_bare_and_other_json_indented():
    assert readable(json.dumps("two\nlines").encode()) == "two\nlines"
    assert readable(b'{"a":[1]}') == '{\n  "a": [\n    1\n  ]\n}'
    assert readable(b"not json \xff") == "not json �"
