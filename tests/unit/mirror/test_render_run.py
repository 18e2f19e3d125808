"""What a run looks like in the mirror: places, types, levels, usage, money, marks, and the way back."""

import base64
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from hashlib import sha256

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import StoreError
from harness.mirror import Context, envelope, freeze_run, span_id, thaw, trace_id
from harness.mirror import _dictionary as words
from harness.record import Exchange, Usage, VolatileRecord

EXPERIMENT = {"id": "0198c0de-0000-7000-8000-00000000e001", "dataset": "triage", "version": 3, "mode": "replay"}
PARENT = "019ad3b4-2222-7000-8000-000000000001"
PNG = base64.b64encode(b"\x89PNG not really").decode()


def test_every_row_is_a_span_below_the_one_it_belongs_to(book):
    spans = book.spans()
    assert len(spans) == 5
    root = span_id("step", book.ROOT)
    assert {name: span.get("parentSpanId") for name, span in spans.items()} == {
        root: None,
        span_id("step", book.DRAFT): root,
        span_id("step", book.SEARCH): span_id("step", book.DRAFT),
        span_id("step", book.JOB): root,
        span_id("message", book.CHAT): span_id("step", book.DRAFT),
    }
    types = [book.attribute(book.step(row), "type") for row in (book.ROOT, book.DRAFT, book.SEARCH, book.JOB)]
    assert types == ["agent", "agent", "tool", "span"]
    assert book.attribute(book.chat(), "type") == "generation"


def test_every_span_says_to_which_trace_user_and_session_it_belongs(book):
    for span in book.spans().values():
        assert span["traceId"] == trace_id(book.RUN)
        assert {name: span["attributes"][name] for name in span["attributes"] if "observation" not in name} == {
            "langfuse.trace.name": "triage",
            "langfuse.environment": "production",
            "langfuse.release": "1.2",
            "user.id": "u-1",
            "session.id": "s-1",
            "langfuse.trace.tags": ["vip"],
            **({"langfuse.version": "2"} if span["name"] == "search_kb" else {}),
            **({"langfuse.trace.metadata": json.dumps(book.run.metadata, separators=(",", ":"))}
               if "parentSpanId" not in span else {}),
        }  # fmt: skip


def test_inputs_and_outputs_are_the_json_that_people_know(book):
    assert orjson.loads(book.attribute(book.step(book.ROOT), "input")) == {"ticket": "late"}
    assert orjson.loads(book.attribute(book.step(book.ROOT), "output")) == {"reply": "soon"}
    chat = book.chat()
    assert orjson.loads(book.attribute(chat, "input"))[1] == {"role": "user", "content": "late"}
    assert orjson.loads(book.attribute(chat, "output")) == {"role": "assistant", "content": "soon"}
    assert orjson.loads(book.attribute(chat, "model.parameters")) == {"temperature": 0}
    assert book.meta(chat)["request"]["tools"][0]["function"]["name"] == "search_kb"
    assert book.attribute(chat, "model.name") == "gpt-5-mini"


def test_a_body_without_messages_goes_as_a_whole_and_vectors_are_counted(book):
    vectors = {"data": [{"index": 0, "embedding": [0.5] * 1536}], "usage": {"prompt_tokens": 3}}
    book.messages = [book.message({"model": "m", "query": "x"}, vectors, endpoint="/embeddings")]
    chat = book.chat()
    assert book.attribute(chat, "type") == "embedding"
    assert orjson.loads(book.attribute(chat, "input")) == {"model": "m", "query": "x"}
    assert orjson.loads(book.attribute(chat, "output"))["data"] == [{"index": 0, "embedding": "⟦1,536 numbers⟧"}]


def test_usage_is_in_disjoint_buckets_and_the_cost_is_our_own_decimal(book):
    chat = book.chat()
    usage = orjson.loads(book.attribute(chat, "usage_details"))
    assert usage == {"input": 400, "input_cached_tokens": 600, "output": 30, "output_reasoning_tokens": 20}
    assert book.attribute(chat, "cost_details") == '{"total":0.00012300}'


COUNTS = st.none() | st.integers(0, 2**62)


@settings(max_examples=50, deadline=None)
@given(st.builds(Usage, input_tokens=COUNTS, output_tokens=COUNTS, cached_tokens=COUNTS, reasoning_tokens=COUNTS))
def test_buckets_add_up_to_what_the_provider_counted(books, usage):
    book = books()
    book.messages = [book.message(usage=usage, cost=None)]
    buckets = orjson.loads(book.attribute(book.chat(), "usage_details") or b"{}")
    assert all(isinstance(count, int) and count >= 0 for count in buckets.values())
    for side, whole in (("input", usage.input_tokens), ("output", usage.output_tokens)):
        if whole is None:
            assert side not in buckets
        else:
            assert sum(count for name, count in buckets.items() if name.startswith(side)) == whole
    assert book.attribute(book.chat(), "cost_details") is None


def test_money_of_another_currency_is_not_passed_off_as_dollars(book):
    book.messages = [book.message(currency="EUR", cost=Decimal("0.5"))]
    assert book.attribute(book.chat(), "cost_details") is None
    assert book.meta(book.chat())["row"]["cost"] == "0.5"


@pytest.mark.parametrize("state", ["recorded", "renamed"])
@pytest.mark.parametrize(
    ("changes", "tag"),
    [
        ({"mode": "replay"}, "goldfork:replay"),
        ({"mode": "replay", "arm": "fork:ab12", "fork_step": "draft", "change": {"kind": "prompt"}}, "goldfork:fork"),
    ],
)
def test_what_a_recording_answered_is_marked_linked_and_free(book, state, changes, tag):
    book.run = replace(book.run, parent_run_id=PARENT, **changes)
    book.messages = [book.message(cache_state=state, replay_of=book.CHAT)]
    chat = book.chat()
    assert orjson.loads(book.attribute(chat, "cost_details")) == {"total": 0}
    assert set(orjson.loads(book.attribute(chat, "usage_details")).values()) == {0}
    assert book.meta(chat)["row"]["usage"]["input_tokens"] == 1000
    for span in book.spans().values():
        assert span["attributes"]["langfuse.trace.tags"] == ["vip", tag]
        assert book.meta(span)["parent_run"] == PARENT
        assert book.meta(span)["parent_trace"] == trace_id(PARENT)


def test_a_live_message_of_a_fork_costs_what_it_costs(book):
    book.run = replace(book.run, mode="auto", arm="fork:ab12", parent_run_id=PARENT)
    assert book.attribute(book.chat(), "cost_details") == '{"total":0.00012300}'


def test_errors_are_levels_with_a_status(book):
    book.steps[3] = replace(book.steps[3], status="error", error="ValueError: no")
    book.messages = [book.message(response=b"gone", status="error", error="HTTP 503: busy")]
    for span, words_of in ((book.step(book.JOB), "ValueError: no"), (book.chat(), "HTTP 503: busy")):
        assert book.attribute(span, "level") == "ERROR"
        assert book.attribute(span, "status_message") == words_of
        assert span["status"] == {"code": 2}
    assert book.attribute(book.step(book.ROOT), "level") == "DEFAULT"
    assert book.attribute(book.step(book.ROOT), "status_message") is None


@pytest.mark.parametrize("status", ["running", "interrupted"])
def test_what_an_abandoned_run_left_open_is_shown_as_interrupted(book, status):
    late = book.START + timedelta(seconds=7)
    book.run = replace(book.run, status=status, ended_at=None, output_hash=None)
    book.steps[0] = replace(book.steps[0], status=status, duration_ms=0.0, output_hash=None)
    book.steps[3] = replace(book.steps[3], started_at=late, duration_ms=30.0)
    root = book.step(book.ROOT)
    assert book.attribute(root, "level") == "ERROR"
    assert "interrupted" in book.attribute(root, "status_message")
    assert root["end"] - root["start"] == 7030
    book.messages = [book.message(status=status, exchanges=())]
    assert book.attribute(book.chat(), "level") == "ERROR"
    assert book.attribute(book.chat(), "output") is None


def test_content_that_is_gone_is_a_note(book):
    book.blobs.clear()
    for span in book.spans().values():
        assert "error" not in book.attribute(span, "level").lower()
    assert "no longer in the store" in book.attribute(book.step(book.ROOT), "input")
    assert "no longer in the store" in book.attribute(book.chat(), "input")
    assert "no longer in the store" in book.attribute(book.chat(), "output")


def test_damaged_content_is_a_note(book):
    def read(digest):
        raise StoreError(f"content {digest!r} is damaged")

    spans = thaw(freeze_run(replace(book.recording, read=read), book.PLAIN).data)
    assert len(spans) == 5
    assert all("cannot be read" in span.decode() for span in spans[:1])


@pytest.mark.parametrize("body", [b"[" * 5000, b"\xff\xfe", b"{\"a\": NaN}", b'{"a": 123456789012345678901234567890}',
                                  b'{"a": "\\ud800"}', b"", b"null", b"[]", b'{"messages": null}'])  # fmt: skip
def test_hostile_bodies_render(book, body):
    book.messages = [book.message(body, body)]
    book.steps[1] = replace(book.steps[1], input_hash=book.put(body, raw=True))
    assert len(book.spans()) == 5


def test_an_embedded_file_becomes_a_note_and_a_media_entry(book):
    url = f"data:image/png;base64,{PNG}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "input_audio", "input_audio": {
        "data": PNG, "format": "mp3"}}]  # fmt: skip
    book.messages = [book.message({"messages": [{"role": "user", "content": parts}]})]
    frozen = book.frozen()
    digest = sha256(b"\x89PNG not really").hexdigest()
    assert PNG.encode() not in b"".join(thaw(frozen.data))
    assert f"⟦image/png, 15 bytes, sha256 {digest}⟧" in book.attribute(book.chat(), "input")
    assert [(media.content_type, media.sha256, media.field) for media in frozen.media] == [
        ("image/png", digest, "input"),
        ("audio/mp3", digest, "input"),
    ]
    assert {media.span_id for media in frozen.media} == {span_id("message", book.CHAT)}


@pytest.mark.parametrize(("source", "linked"), [("langfuse", True), ("fallback", False), ("change", False)])
def test_a_prompt_is_linked_only_if_it_came_from_there(book, source, linked):
    value = json.dumps({"text": "t", "name": "draft-at-home", "version": 7, "label": "production", "source": source})
    book.volatile = [VolatileRecord(run_id=book.RUN, scope="", name="prompt-source:draft", occurrence=0, value=value)]
    chat = book.chat()
    expected = ("draft-at-home", "7") if linked else (None, None)
    assert (book.attribute(chat, "prompt.name"), book.attribute(chat, "prompt.version")) == expected
    book.volatile = [replace(book.volatile[0], value="edited by hand")]
    assert book.attribute(book.chat(), "prompt.name") is None


@pytest.mark.parametrize(("trial", "suffix"), [(0, ""), (2, "-t2")])
def test_an_experiments_run_says_so_on_every_span(book, trial, suffix):
    book.run = replace(book.run, experiment=EXPERIMENT["id"], case="case-1", trial=trial)
    context = Context(environment="production", release=None, run_url="https://ui.example.org/runs/{run}",
                      experiment=EXPERIMENT, dataset_id="ds-1", item_id="ds-1/case-1",
                      item_version="2026-11-30T10:00:00Z")  # fmt: skip
    for span in book.spans(context).values():
        said = {name.removeprefix("langfuse.experiment."): value for name, value in span["attributes"].items()
                if name.startswith("langfuse.experiment.")}  # fmt: skip
        assert orjson.loads(said.pop("metadata")) == {
            "dataset": "triage", "version": 3, "mode": "replay", "trial": trial}  # fmt: skip
        assert orjson.loads(said.pop("item.metadata")) == {"case": "case-1", "arm": "recorded"}
        assert said == {
            "id": f"{EXPERIMENT['id']}{suffix}",
            "name": f"{EXPERIMENT['id']}{suffix}",
            "dataset.id": "ds-1",
            "item.id": "ds-1/case-1",
            "item.version": "2026-11-30T10:00:00Z",
            "item.root_observation_id": span_id("step", book.ROOT),
        }
        assert span["attributes"]["langfuse.environment"] == "sdk-experiment"
        assert book.meta(span)["url"] == f"https://ui.example.org/runs/{book.RUN}"


def test_names_tags_users_and_environments_are_within_the_servers_limits(book):
    long = "ü" * 250
    book.run = replace(book.run, workflow=long, tags=(long, "x" * 201), metadata={"user_id": long, "session_id": 7})
    book.steps[1] = replace(book.steps[1], name="s" * 500)
    span = book.step(book.DRAFT, Context(environment="Langfuse Prod!" + "x" * 50, release="r" * 300, run_url=""))
    attributes = span["attributes"]
    named = [attributes["langfuse.trace.name"], attributes["user.id"], span["name"], attributes["langfuse.release"]]
    for text in [*named, *attributes["langfuse.trace.tags"]]:
        assert len(text) == 200
        assert text[-13] == "~"
    assert attributes["user.id"].isascii()
    assert attributes["session.id"] == "7"
    assert attributes["langfuse.environment"].startswith("env-langfuse-prod-x")
    assert len(attributes["langfuse.environment"]) == 40
    assert words.bounded("a" * 200 + "b") != words.bounded("a" * 200 + "c")
    assert words.environment("") == "default"


def test_freezing_twice_gives_equal_bytes_and_thawing_gives_them_back(book):
    first, second = book.frozen(), book.frozen()
    assert first == second
    assert first.hash == sha256(first.data).hexdigest()
    assert [orjson.loads(span)["spanId"] for span in thaw(first.data)] == list(first.span_ids)
    assert thaw(b"") == []


def test_the_envelope_keeps_the_spans_byte_for_byte(book):
    spans = thaw(book.frozen().data)
    for key, scope in (("", "goldfork"), ("pk-lf-1", "langfuse-sdk.goldfork")):
        body = envelope(iter(spans), public_key=key)
        assert b",".join(spans) in body
        (resource,) = orjson.loads(body)["resourceSpans"]
        (scoped,) = resource["scopeSpans"]
        assert scoped["scope"]["name"] == scope
        assert len(scoped["spans"]) == 5
    assert orjson.loads(envelope(())) == {"resourceSpans": []}


def test_the_rows_come_back_from_the_metadata(book):
    book.run = replace(book.run, change={"kind": "prompt"}, parent_run_id=PARENT, error="no", status="error", trial=2)
    book.steps[3] = replace(book.steps[3], status="error", error="why", ttl=5.0, mutated=True)
    book.messages = [book.message(exchanges=(Exchange(status=503, error="busy"), book.message().exchanges[0]))]
    spans = book.spans()
    root = spans[span_id("step", book.ROOT)]
    status = book.attribute(root, "status_message")
    assert words.run_record(book.meta(root), status_message=status) == book.run
    for step in book.steps:
        span = spans[span_id("step", step.id)]
        text = orjson.loads(book.attribute(span, "metadata.goldfork"))
        assert words.step_record(text, status_message=book.attribute(span, "status_message")) == step
    assert words.message_record(book.meta(book.chat())) == book.messages[0]


@pytest.mark.parametrize(
    "row", ["{}", "[]", "no", '{"id":1}', '{"id":"x","run_id":"r","seq":"1"}', '{"started_at":5}', '{"usage":[1]}']
)
def test_a_row_that_is_none_is_refused(row):
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError, ArithmeticError)):
        words.message_record({"row": row})


STATUSES = st.sampled_from(["ok", "error", "interrupted", "running"])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_tree_of_rows_renders_to_one_valid_trace(books, data):
    book = books()
    steps, messages = [], []
    for place in range(data.draw(st.integers(0, 6))):
        above = data.draw(st.sampled_from([None, "gone", *(step.id for step in steps)]))
        steps.append(
            replace(
                book.steps[3], id=f"step-{place}", parent_id=above, seq=place, status=data.draw(STATUSES),
                started_at=book.START + timedelta(milliseconds=data.draw(st.integers(-3, 3))),
                duration_ms=data.draw(st.floats(-10, 10)), name=data.draw(st.text(max_size=5)),
            )
        )  # fmt: skip
    for place in range(data.draw(st.integers(0, 4))):
        above = data.draw(st.sampled_from([None, "gone", *(step.id for step in steps)]))
        messages.append(
            book.message(
                id=f"message-{place}", step_id=above, seq=10 + place, status=data.draw(STATUSES),
                started_at=book.START + timedelta(milliseconds=data.draw(st.integers(-3, 3))),
                latency_ms=data.draw(st.none() | st.floats(-10, 10)), error=data.draw(st.none() | st.text(max_size=5)),
            )
        )  # fmt: skip
    book.steps, book.messages = steps, messages
    book.run = replace(book.run, status=data.draw(STATUSES))
    spans = book.spans()
    frozen = book.frozen()
    has_root = any(step.parent_id is None for step in steps)
    assert len(spans) == len(frozen.span_ids) == len(steps) + len(messages) + (not has_root)
    assert [name for name, span in spans.items() if "parentSpanId" not in span] == [frozen.span_ids[0]]
    assert all(span["parentSpanId"] in spans for span in spans.values() if "parentSpanId" in span)
    assert all(span["end"] >= span["start"] for span in spans.values())
    assert len(set(frozen.starts)) == len(frozen.starts)
    assert {span["traceId"] for span in spans.values()} == {frozen.trace_id}
