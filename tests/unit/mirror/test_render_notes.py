"""Content that cannot be shown is a note that says why, in Langfuse and at a collector; never null without a word."""

import json
from dataclasses import replace

import pytest

from harness.mirror._otel import spans_of
from harness.pipeline import step, tool, workflow
from harness.replay import live_run
from harness.testing import MemorySink

HALF = "late \ud800 parcel"
LONG = 12345678901234567890123


def read(text):
    return None if text is None else json.loads(text)


def told(book, row):
    span = book.step(row)
    return read(book.attribute(span, "input")), read(book.attribute(span, "output"))


def said(book):
    chat = book.chat()
    return read(book.attribute(chat, "input")), read(book.attribute(chat, "output"))


def exported(recording, name):
    """Attributes of a span at the collector."""
    [span] = [span for span in spans_of(recording, content=True) if span["name"].endswith(name)]
    return {pair["key"]: pair["value"].get("stringValue") for pair in span["attributes"]}


class Odd:
    """No codec knows it."""


@pytest.mark.parametrize("value", [HALF, {"deep": [HALF]}, Odd()], ids=["half a character", "deep in it", "a class"])
def test_what_a_real_run_could_not_record_is_told(books, value):
    @tool(determinism="deterministic")
    def look(query):
        return query

    @step
    def draft(text):
        return look(text)

    @workflow("desk")
    def desk(text):
        return draft(text)

    sink = MemorySink()
    assert live_run(desk, {"text": value}, sink=sink).error is None
    book = books()
    recording = sink.recording()
    book.run, book.steps, book.messages, book.blobs = recording.run, list(recording.steps), [], sink.blobs
    for row in recording.steps:
        given, made = told(book, row.id)
        assert given.startswith("⟦the input was not recorded: it holds what JSON cannot")
        assert made.startswith("⟦the output was not recorded: it holds what JSON cannot")
    for name, keys in (
        ("look", ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")),
        ("draft", ("goldfork.input", "goldfork.output")),
        ("desk", ("goldfork.input", "goldfork.output")),
    ):
        there = exported(recording, name)
        assert all("was not recorded" in there[key] for key in keys), name


def test_a_step_that_returned_nothing_has_null_and_one_that_failed_has_nothing(book):
    book.steps[1] = replace(book.steps[1], input_hash=book.put({"q": 1}), output_hash=book.put(None))
    assert told(book, book.DRAFT) == ({"q": 1}, None)
    book.steps[1] = replace(book.steps[1], output_hash=None, status="error", error="ValueError: no")
    assert book.attribute(book.step(book.DRAFT), "output") is None
    assert "goldfork.output" not in exported(book.recording, "draft")


def test_what_is_gone_from_the_store_is_told(book):
    book.blobs.clear()
    for given, made in (told(book, book.SEARCH), said(book)):
        assert given.startswith("⟦content ")
        assert given.endswith(" is no longer in the store⟧")
        assert made.endswith(" is no longer in the store⟧")
    there = exported(book.recording, "search_kb")
    assert "is no longer in the store" in there["gen_ai.tool.call.arguments"]
    assert "is no longer in the store" in there["gen_ai.tool.call.result"]
    chat = exported(book.recording, "gpt-5-mini")
    assert "is no longer in the store" in chat["gen_ai.input.messages"]
    assert "is no longer in the store" in chat["gen_ai.output.messages"]


def test_what_is_damaged_is_told(book):
    for digest in book.blobs:
        book.blobs[digest] = b"\xff{"
    assert all("cannot be read" in text for text in told(book, book.SEARCH))
    assert "cannot be read" in exported(book.recording, "search_kb")["gen_ai.tool.call.result"]


def test_an_answer_that_cannot_be_decoded_is_told(book):
    message = book.message()
    answer = replace(message.exchanges[0], headers=(("content-encoding", "gzip"),))
    book.messages = [replace(message, exchanges=(answer,))]
    assert said(book)[1].startswith("⟦the body cannot be decoded: ")


def test_a_long_answer_that_is_no_json_says_that_it_is_cut(book):
    book.messages = [book.message(response=b"x" * 5000)]
    assert said(book)[1] == "x" * 4096 + " ⟦904 characters more⟧"


def test_half_a_character_and_odd_numbers_of_a_message_come_through(book):
    odd = f"NaN,-Infinity,1e999,{LONG},0.5"
    body = '{"messages":[{"role":"user","content":"late \\\\\\ud800 parcel"},' + odd + "]}"
    book.messages = [book.message(body.encode())]
    assert said(book)[0] == [
        {"role": "user", "content": "late \\\ud800 parcel"}, "NaN", "-Infinity", "1e999", LONG, 0.5,
    ]  # fmt: skip


def test_a_whole_number_of_any_size_stays_what_it_is(book):
    book.messages = [book.message(f'{{"messages":[{LONG}]}}'.encode())]
    assert said(book)[0] == [LONG]
