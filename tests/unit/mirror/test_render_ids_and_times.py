"""Ids and times that a Langfuse takes, whatever ours look like (C-015)."""

import os
import re
import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.mirror import span_id, trace_id

C_015 = {
    "6F1A0C2E-9B7D-4E55-8C11-2D3E4F5A6B7C": "6f1a0c2e9b7d4e558c112d3e4f5a6b7c",
    "01JDW3Q8ZK5V7T2M4N6P8R0S1X": sha256(b"01JDW3Q8ZK5V7T2M4N6P8R0S1X").hexdigest()[:32],
    "order/77#ü": sha256("order/77#ü".encode()).hexdigest()[:32],
    "00000000000000000000000000000000": sha256(b"0" * 32).hexdigest()[:32],
}


@pytest.mark.parametrize("run_id", C_015)
def test_c_015_a_run_id_becomes_32_lower_case_hex_digits_by_a_fixed_rule(books, run_id):
    assert trace_id(run_id) == C_015[run_id]
    book = books()
    book.run = replace(book.run, id=run_id)
    frozen = book.frozen()
    assert frozen.trace_id == C_015[run_id]
    for span in book.spans().values():
        assert span["traceId"] == C_015[run_id]
        assert book.meta(span)["run"] == run_id


@given(st.text(max_size=60) | st.uuids().map(str) | st.uuids().map(lambda found: found.hex))
def test_ids_are_never_all_zero_and_always_hex(text):
    assert re.fullmatch("[0-9a-f]{32}", trace_id(text))
    assert int(trace_id(text), 16)
    for kind in ("step", "message"):
        assert re.fullmatch("[0-9a-f]{16}", span_id(kind, text))
        assert int(span_id(kind, text), 16)
    assert span_id("step", text) != span_id("message", text)


@given(st.uuids())
def test_two_spellings_of_a_uuid_are_one_trace_and_other_texts_are_not(found):
    assert trace_id(str(found)) == trace_id(found.hex) == trace_id(str(found).upper())
    assert trace_id(f"{{{found}}}") != trace_id(str(found))
    assert trace_id(str(found)) == uuid.UUID(str(found)).hex or not found.int


def test_c_015_times_over_a_clock_change_go_out_in_utc(books):
    book = books()
    started = datetime.fromisoformat("2026-03-29T01:59:59+01:00")
    ended = datetime.fromisoformat("2026-03-29T03:00:01+02:00")
    book.run = replace(book.run, started_at=started, ended_at=ended)
    book.steps, book.messages = [], []
    (root,) = book.spans().values()
    assert root["end"] - root["start"] == 2000
    assert root["start"] == datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC).timestamp() * 1000


def test_c_015_a_wall_clock_that_steps_back_makes_no_negative_duration(books):
    book = books()
    started = datetime.fromisoformat("2026-11-30T10:00:05Z")
    ended = datetime.fromisoformat("2026-11-30T10:00:02Z")
    book.run = replace(book.run, started_at=started, ended_at=ended)
    book.steps[0] = replace(book.steps[0], started_at=started, duration_ms=1500.0)
    root = book.step(book.ROOT)
    assert root["end"] - root["start"] == 1500
    book.steps, book.messages = [], []
    (bare,) = book.spans().values()
    assert bare["end"] == bare["start"]


def test_c_015_a_time_without_a_zone_is_read_as_utc(books):
    plain, book = books(), books()
    started = datetime.fromisoformat("2026-11-30T10:00:00")
    for each, zone in ((plain, None), (book, UTC)):
        each.run = replace(each.run, started_at=started.replace(tzinfo=zone), ended_at=None)
        each.steps = [replace(step, started_at=started.replace(tzinfo=zone)) for step in each.steps]
        each.messages = [replace(message, started_at=started.replace(tzinfo=zone)) for message in each.messages]
    assert plain.frozen().data == book.frozen().data


_FREEZE = """
import sys, importlib.util
spec = importlib.util.spec_from_file_location("made", sys.argv[1])
made = importlib.util.module_from_spec(spec); spec.loader.exec_module(made)
book = made.Book()
book.messages = [made.replace(book.messages[0], started_at=book.run.started_at.replace(tzinfo=None))]
print(book.frozen().hash)
"""


def test_c_015_two_machine_zones_give_equal_payloads(books):
    source = sys.modules[books.__module__].__file__
    hashes = {
        subprocess.run(
            [sys.executable, "-c", _FREEZE, source],
            env={**os.environ, "TZ": zone, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for zone, seed in (("America/New_York", "1"), ("Pacific/Auckland", "2"))
    }
    assert len(hashes) == 1


def test_zones_of_the_rows_do_not_matter(books):
    plain, book = books(), books()
    book.steps = [replace(s, started_at=s.started_at.astimezone(timezone(timedelta(hours=9)))) for s in book.steps]
    assert plain.frozen().data == book.frozen().data


def test_equal_starts_are_one_millisecond_apart_in_order_of_seq(book):
    spans = sorted(book.spans().values(), key=lambda span: book.meta(span)["seq"])
    first = spans[0]["start"]
    assert [span["start"] - first for span in spans] == [0, 1, 2, 3, 4]
    assert first == 1796032800123
    assert book.frozen().starts == tuple(int(span["start"]) for span in spans)
    assert len(spans) == len(book.frozen().span_ids)


def test_a_bump_never_lands_on_a_taken_millisecond(book):
    book.steps[2] = replace(book.steps[2], started_at=book.START + timedelta(milliseconds=1))
    starts = book.frozen().starts
    assert len(set(starts)) == len(starts)


def test_times_are_floored_and_ends_follow_the_monotonic_clock(book):
    root, tool = book.step(book.ROOT), book.step(book.SEARCH)
    assert root["startTimeUnixNano"].endswith("123000000")
    assert root["end"] - root["start"] == 2000
    # 0.457 ms within the first millisecond and 20.7 ms on: 21 whole ones, three of which the bump took.
    assert tool["end"] - tool["start"] == 18


@pytest.mark.parametrize("lasted", [float("nan"), float("inf"), -5.0, 1e300])
def test_a_duration_that_is_none_ends_where_it_began(book, lasted):
    book.steps[3] = replace(book.steps[3], duration_ms=lasted)
    span = book.step(book.JOB)
    assert span["end"] == span["start"]


def test_a_time_that_the_wire_cannot_hold_is_held_back(book):
    for when in (datetime(9999, 12, 31, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)):
        book.steps[3] = replace(book.steps[3], started_at=when, duration_ms=10.0)
        span = book.step(book.JOB)
        assert 0 <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) < 2**63


def test_the_first_token_stands_where_it_came(book):
    span = book.chat()
    assert span["start"] == 1796032800125
    assert book.attribute(span, "completion_start_time") == "2026-11-30T10:00:00.375Z"
    book.messages = [book.message(first_chunk_ms=None)]
    assert book.attribute(book.chat(), "completion_start_time") is None
