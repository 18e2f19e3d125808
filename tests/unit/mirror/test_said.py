"""The quick way through a plain answer gives what following it in full gives."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mirror import _content
from harness.record import Exchange, MessageRecord

ID = "019ad3b4-1111-7000-8000-000000000001"
TEXTS = st.none() | st.text(max_size=6) | st.sampled_from(["soon", "\ud800", ""]) | st.integers(0, 2**70)
CALLS = (
    st.none() | st.just([]) | st.just([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}])
)
TURNS = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "content": st.text(max_size=6) | TEXTS | st.just([{"type": "text", "text": "part"}]),
    },
    optional={
        "refusal": TEXTS, "reasoning": TEXTS, "reasoning_content": TEXTS, "tool_calls": CALLS,
        "annotations": st.just([]),
        "function_call": st.none() | st.just({"name": "f", "arguments": "{}"}),
    },
)  # fmt: skip
CHOICES = st.fixed_dictionaries(
    {"message": TURNS | TURNS | st.none() | st.just("text")},
    optional={"index": st.integers(-1, 3), "delta": TURNS | st.none(), "text": TEXTS, "finish_reason": TEXTS},
)
BODIES = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, min_size=1, max_size=1) | st.lists(CHOICES | st.none(), max_size=2) | st.none()},
    optional={"usage": st.none(), "error": st.none() | st.just({"message": "no"}), "id": TEXTS},
).map(lambda value: json.dumps(value).encode()) | st.sampled_from(
    [b"", b"{", b"[]", b"{}", b"data: {}", b'{"choices": [{"message": {"content": "\xff"}}]}']
)
HEADERS = st.lists(
    st.sampled_from(
        [("content-type", "application/json"), ("Content-Type", "Text/Event-Stream"), ("Content-Encoding", "identity"),
         ("content-encoding", "gzip"), ("x-request-id", "r-1")]
    ),
    max_size=2, unique=True,
).map(tuple)  # fmt: skip
ENDPOINTS = st.sampled_from([*["/chat/completions"] * 9, "/completions", "/responses", "/embeddings"])


@settings(max_examples=400, deadline=None)
@given(BODIES, HEADERS, ENDPOINTS, st.sampled_from([*[200] * 9, None, 201, 400]))
def test_the_quick_way_changes_no_answer(body, headers, endpoint, status):
    answer = Exchange(status=status, headers=headers, body_hash="a" * 64)
    message = MessageRecord(
        id=ID, run_id=ID, step_id=None, seq=1, scope="", method="POST", endpoint=endpoint, provider="p",
        exact_key="k", semantic_key="k", occurrence=0, request_hash="b" * 64, exchanges=(answer,), status="ok",
        started_at=datetime(2026, 11, 30, tzinfo=UTC),
    )  # fmt: skip
    quickly = _content._plain_turn(endpoint, answer, body)
    if quickly is None:
        return
    view = _content.view_response(endpoint, answer, body)
    assert [_content._turn(choice) for choice in view.choices] == [quickly]
    assert _content.said(message, body) == quickly


@pytest.mark.parametrize(
    "more",
    [{"refusal": "no"}, {"reasoning": "so"}, {"reasoning_content": "so"}, {"function_call": {"name": "f"}},
     {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
     {"content": None}, {"content": [{"type": "text", "text": "part"}]}],
)  # fmt: skip
def test_what_says_more_is_followed_in_full(more):
    choice = {"index": 0, "message": {"role": "assistant", "content": "soon", **more}}
    for body in ({"choices": [choice]}, {"choices": [choice, choice]}):
        data = json.dumps(body).encode()
        assert _content._plain_turn("/chat/completions", Exchange(status=200), data) is None
    choice = {"index": 0, "message": {"role": "assistant", "content": "soon"}, "delta": {"content": "other"}}
    data = json.dumps({"choices": [choice]}).encode()
    assert _content._plain_turn("/chat/completions", Exchange(status=200), data) is None


def test_a_plain_answer_takes_the_quick_way():
    body = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "soon", "refusal": None}}]})
    answer = Exchange(status=200, headers=(("content-type", "application/json"),))
    assert _content._plain_turn("/chat/completions", answer, body.encode()) == {"role": "assistant", "content": "soon"}
