"""Requests that must not share a key, although their forms could be mistaken for each other."""

import json

import pytest

from harness.canonical import request_keys


def keys(body, path="/v1/chat/completions", **options):
    return request_keys("POST", path, json.dumps(body).encode(), **options)


def says(content):
    return {"model": "m", "messages": [{"role": "user", "content": content}]}


def test_text_that_looks_like_a_mark_is_told_apart_from_one():
    noon = "2026-11-30T12:00:00Z"
    marked = keys(says(f"{noon} and {noon}"), volatile=[("now", noon)])
    written = keys(says(f"⟦now#0⟧ and {noon}"), volatile=[("now", noon)])
    assert marked.exact != written.exact
    assert keys(says("⟦now#0⟧")).exact != keys(says(noon), volatile=[("now", noon)]).exact
    assert keys({**says("x"), "⟦y": 1}).exact != keys({**says("x"), "⟦⟦y": 1}).exact


@pytest.mark.parametrize(("left", "right"), [([[1, 2]], [[1, 3]]), ([1], [2]), ([1], [[1]]), ([None], [])])
def test_one_list_of_tokens_counts_in_both_keys(left, right):
    one, other = (keys({"model": "e", "input": value}, "/v1/embeddings") for value in (left, right))
    assert one.exact != other.exact
    assert one.semantic != other.semantic
