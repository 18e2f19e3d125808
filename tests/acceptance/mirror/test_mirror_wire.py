"""What answers mean, how long to wait, what travels together."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.mirror import Project, Sent
from harness.mirror._batch import Piece, batches, deliver
from harness.mirror._verify import compare
from harness.mirror._wire import backoff, bounded, by_error, by_status, retry_after

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, "accepted") for status in (200, 202, 204, 207)),
        *((status, "retry") for status in (301, 302, 307, 308, 408, 425, 429, 500, 502, 503, 504, 529)),
        *((status, "refused") for status in (400, 413, 422)),
        *((status, "denied") for status in (401, 403, 404, 405, 415)),
    ],
)
def test_only_2xx_is_success(status, outcome):
    assert by_status(status, {}, "", now=NOW).outcome == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (httpx.ConnectError("refused"), "retry"),
        (httpx.ConnectTimeout("slow"), "retry"),
        (httpx.PoolTimeout("full"), "retry"),
        (httpx.ReadTimeout("no answer"), "ambiguous"),
        (httpx.WriteTimeout("stuck"), "ambiguous"),
        (httpx.ReadError("reset"), "ambiguous"),
        (httpx.RemoteProtocolError("cut"), "ambiguous"),
    ],
)
def test_what_may_have_arrived_is_in_doubt(error, outcome):
    assert by_error(error).outcome == outcome


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        (format_datetime(NOW + timedelta(minutes=3), usegmt=True), 180.0),
        (format_datetime(NOW - timedelta(minutes=3), usegmt=True), 0.0),
        ("99999999999999999999", 86_400.0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_retry_after_in_seconds_or_as_a_date(value, seconds):
    assert retry_after({"Retry-After": value}, now=NOW) == seconds


@given(failures=st.integers(1, 10_000), jitter=st.floats(0, 1, exclude_max=True), asked=st.none() | st.floats(0, 9e4))
@settings(max_examples=200)
def test_the_pause_grows_to_five_minutes_and_is_never_shorter_than_asked(failures, jitter, asked):
    wait = backoff(failures, asked=asked, jitter=lambda: jitter)
    assert 0.5 <= wait <= max(300.0, asked or 0.0)
    assert wait >= (asked or 0.0)
    assert backoff(failures + 1, jitter=lambda: jitter) >= backoff(failures, jitter=lambda: jitter)


def test_foreign_words_are_short_on_one_line_and_without_secrets():
    words = bounded("no\nway, mail anna@example.org " + "x" * 10_000)
    assert "anna@example.org" not in words
    assert "\n" not in words
    assert len(words) <= 500


def pieces(run, count, size=10):
    return [Piece(run=run, data=f"{run}/{number}".encode().ljust(size, b".")) for number in range(count)]


@given(
    runs=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 60)), max_size=30),
    spans=st.integers(1, 20),
    size=st.integers(1, 300),
)
@settings(max_examples=200)
def test_packing_keeps_the_limits_and_the_order_and_loses_nothing(runs, spans, size):
    packed = [pieces(str(number), count, width) for number, (count, width) in enumerate(runs)]
    made = list(batches(packed, spans=spans, size=size))
    assert [piece for batch in made for piece in batch] == [piece for run in packed for piece in run]
    for batch in made:
        assert 1 <= len(batch) <= spans
        assert sum(len(piece.data) for piece in batch) <= size or len(batch) == 1
    # A run that fits into one request is never split.
    for run in packed:
        if len(run) <= spans and sum(len(piece.data) for piece in run) <= size:
            assert sum(any(piece in batch for piece in run) for batch in made) == 1


@given(data=st.data(), runs=st.lists(st.integers(1, 12), min_size=1, max_size=12))
@settings(max_examples=200)
def test_bisection_finds_exactly_the_refused_spans(data, runs):
    batch = [piece for number, count in enumerate(runs) for piece in pieces(str(number), count)]
    bad = set(data.draw(st.lists(st.sampled_from(batch), max_size=4)))
    posted = []

    def post(some):
        posted.append(len(some))
        if bad.intersection(some):
            return Sent(outcome="refused", status=400)
        return Sent(outcome="accepted", status=200)

    answers = deliver(batch, post)
    assert [piece for piece, _ in answers] == batch
    assert {piece for piece, sent in answers if sent.outcome == "refused"} == bad
    assert len(posted) <= 1 + len(bad) * 2 * max(len(batch).bit_length() * 2, 1)


def test_bisection_stops_at_trouble():
    batch = pieces("a", 8)
    answers = iter([Sent(outcome="refused"), Sent(outcome="accepted"), Sent(outcome="retry")])
    outcomes = [sent.outcome for _, sent in deliver(batch, lambda some: next(answers))]
    assert outcomes == ["accepted"] * 4 + ["retry"] * 4


def test_what_is_there_is_judged_by_id_and_start():
    starts = {"a": 10, "b": 20}
    assert compare(starts, [("a", 10), ("b", 20), ("stranger", 5)]).whole
    assert compare(starts, [("a", 10)]).missing == {"b"}
    assert compare(starts, [("a", 10), ("a", 10), ("b", 20)]).doubled
    seen = compare(starts, [("a", 10), ("a", 11), ("b", 20)])
    assert seen.moved
    assert not seen.whole


def test_missing_variables_are_named():
    with pytest.raises(UsageError, match="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY are not set"):
        Project.from_environment({})
    with pytest.raises(UsageError, match="LANGFUSE_SECRET_KEY is not set"):
        Project.from_environment({"LANGFUSE_PUBLIC_KEY": "pk-lf-1"})


def test_the_address_may_have_two_names_and_no_password():
    keys = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-hidden"}
    assert Project.from_environment({**keys, "LANGFUSE_HOST": "http://lf:3000/"}).base_url == "http://lf:3000"
    both = {**keys, "LANGFUSE_HOST": "http://old", "LANGFUSE_BASE_URL": "http://new"}
    assert Project.from_environment(both).base_url == "http://new"
    with pytest.raises(UsageError, match="password") as caught:
        Project.from_environment({**keys, "LANGFUSE_BASE_URL": "https://me:topsecret@lf"})
    assert "topsecret" not in str(caught.value)
    assert "sk-lf-hidden" not in repr(Project.from_environment(keys))
