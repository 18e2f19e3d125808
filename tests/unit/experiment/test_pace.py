"""C-008, the runner's side: waiting as told."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from harness.experiment import Pace
from harness.experiment._pace import TooLong, retry_after
from harness.record import Exchange, MessageRecord

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


class FakeClock:
    """Time passes only by sleeping."""

    def __init__(self):
        self.passed = 0.0
        self.slept = []

    def now(self):
        return NOON + timedelta(seconds=self.passed)

    def monotonic(self):
        return self.passed

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.passed += seconds


def call(status=429, *, provider="a:443", cache_state="live", **headers):
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return MessageRecord(
        id="m", run_id="r", step_id=None, seq=0, scope="", method="POST", endpoint="/chat/completions",
        provider=provider, exact_key="k", semantic_key="s", occurrence=0, request_hash="h", status="error",
        cache_state=cache_state, exchanges=(Exchange(status=status, headers=named),), started_at=NOON,
    )  # fmt: skip


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def pace(clock):
    return Pace(60, clock=clock, sleep=clock.sleep, jitter=lambda: 0.0)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "Tue, 01 Dec 2026 12:00:20 GMT"}, 20),
        ({"retry_after": "Tue, 01 Dec 2026 11:59:00 GMT"}, 0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "NaN"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "86400"}, 86400),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after_ms": "1500", "retry_after": "2"}, 1.5),
        ({}, None),
    ],
)
def test_what_the_header_says(headers, wait):
    named = [(name.replace("_", "-").title(), value) for name, value in headers.items()]
    assert retry_after(named, NOON) == wait


def test_the_caller_waits_as_told(pace, clock):
    pace.note("target", [call()])
    assert pace.again([call(retry_after="7")], 1)
    asyncio.run(pace.ready("target"))
    assert clock.slept == [7]


def test_one_workers_wait_holds_back_others_on_the_same_provider_only(pace, clock):
    pace.note("target", [call(200)])
    pace.note("judge", [call(200, provider="b:443")])
    assert pace.again([call(retry_after="7")], 1)
    asyncio.run(pace.ready("judge"))
    assert clock.slept == []
    asyncio.run(pace.ready("target"))
    assert clock.slept == [7]


def test_a_shorter_wait_does_not_cut_a_longer_one_short(pace, clock):
    pace.note("target", [call()])
    pace.again([call(retry_after="9")], 1)
    pace.again([call(retry_after="2")], 1)
    asyncio.run(pace.ready("target"))
    assert sum(clock.slept) == 9


def test_jitter_goes_upward_only(clock):
    pace = Pace(60, clock=clock, sleep=clock.sleep, jitter=lambda: 1.0)
    pace.note("target", [call()])
    pace.again([call(retry_after="8")], 1)
    asyncio.run(pace.ready("target"))
    assert clock.slept == [10]


def test_its_own_backoff_doubles_and_ends(pace, clock):
    pace.note("target", [call()])
    for attempt in range(1, 5):
        assert pace.again([call(retry_after="soon")], attempt)
        asyncio.run(pace.ready("target"))
    assert clock.slept == [1, 2, 4, 8]
    assert not pace.again([call(retry_after="soon")], 5)


def test_a_wait_over_the_cap_is_given_up_and_says_so(pace):
    with pytest.raises(TooLong, match=r"86400 s, more than the 60 s of --max-wait"):
        pace.again([call(retry_after="86400")], 1)


@pytest.mark.parametrize(
    "message", [call(500), call(200), call(503), call(cache_state="recorded", retry_after="7"), call(status=None)]
)
def test_other_failures_and_replayed_ones_are_not_repeated(pace, message):
    assert not pace.again([message], 1)


def test_a_service_that_says_when_to_come_back_is_taken_at_its_word(pace):
    assert pace.again([call(503, retry_after="1")], 1)
    assert not pace.again([], 1)
