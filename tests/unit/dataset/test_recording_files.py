"""A recording survives the way through files, whatever it holds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.dataset import Case, GoldenDataset
from harness.dataset._recording import decode, encode
from harness.dataset._slices import split
from harness.errors import DatasetEdited, DatasetError, DatasetMissing
from harness.record import Exchange, MessageRecord, Recording, RunRecord, StepRecord, Usage, VolatileRecord

text = st.text(max_size=20)
names = st.sampled_from(["plan", "draft", "plan/search", ""])
moments = st.datetimes(
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001 - as above
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
)
mappings = st.dictionaries(text, values, max_size=3)
contents = (
    st.binary(max_size=40)
    | st.binary(min_size=513, max_size=600)
    | st.text(max_size=40).map(lambda value: value.encode("utf-8", "replace"))
)
errors = st.none() | st.sampled_from(["RuntimeError: no", "HTTP 500", ""])
usages = st.builds(Usage, input_tokens=st.none() | st.integers(0), output_tokens=st.none() | st.integers(0))


@st.composite
def recordings(draw: st.DrawFn) -> tuple[Recording, dict[str, bytes]]:
    blobs: dict[str, bytes] = {}

    def content() -> str:
        data = draw(contents)
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return digest

    def exchange() -> Exchange:
        return Exchange(
            status=draw(st.none() | st.sampled_from([200, 429, 500])),
            headers=tuple(
                draw(st.lists(st.tuples(st.sampled_from(["content-type", "x-request-id"]), text), max_size=2))
            ),
            body_hash=content() if draw(st.booleans()) else None,
            chunks=tuple(draw(st.lists(st.tuples(st.integers(0), st.floats(0, 1e6)), max_size=2))),
            error=draw(errors),
        )

    run = RunRecord(
        id="r",
        workflow=draw(text),
        status=draw(st.sampled_from(["ok", "error", "interrupted"])),
        mode="live",
        arm=draw(st.sampled_from(["recorded", "fork:0123"])),
        trial=draw(st.integers(0, 5)),
        started_at=draw(moments),
        ended_at=draw(st.none() | moments),
        input_hash=content() if draw(st.booleans()) else None,
        tags=tuple(draw(st.lists(text, max_size=2))),
        metadata=draw(mappings),
        change=draw(st.none() | mappings),
        usable=draw(st.booleans()),
        error=draw(errors),
    )
    steps = tuple(
        StepRecord(
            id=f"s{n}",
            run_id="r",
            parent_id=draw(st.none() | st.just("s0")),
            seq=n,
            name=draw(names),
            kind=draw(st.sampled_from(["agent", "tool", "job"])),
            scope=draw(names),
            occurrence=draw(st.integers(0, 3)),
            key=draw(text),
            status="ok",
            determinism=draw(st.none() | st.just("time-bound")),
            ttl=draw(st.none() | st.floats(0, 1e6)),
            output_hash=content(),
            started_at=draw(moments),
            duration_ms=draw(st.floats(0, 1e6)),
        )
        for n in range(draw(st.integers(0, 2)))
    )
    messages = tuple(
        MessageRecord(
            id=f"m{n}",
            run_id="r",
            step_id=draw(st.none() | st.just("s0")),
            seq=n + 10,
            scope=draw(names),
            method="POST",
            endpoint="/responses",
            provider="recorded",
            exact_key=draw(text),
            semantic_key=draw(text),
            occurrence=draw(st.integers(0, 3)),
            request_hash=content(),
            exchanges=tuple(exchange() for _ in range(draw(st.integers(0, 2)))),
            streamed=draw(st.booleans()),
            status=draw(st.sampled_from(["ok", "error"])),
            params=draw(mappings),
            usage=draw(usages),
            cost=draw(st.none() | st.decimals(allow_nan=False, allow_infinity=False, places=6)),
            latency_ms=draw(st.none() | st.floats(0, 1e6)),
            started_at=draw(moments),
        )
        for n in range(draw(st.integers(0, 2)))
    )
    volatile = tuple(
        VolatileRecord(run_id="r", scope=draw(names), name="now", occurrence=n, value=draw(scalars))
        for n in range(draw(st.integers(0, 2)))
    )
    return Recording(run=run, steps=steps, messages=messages, volatile=volatile, read=blobs.__getitem__), blobs


def parts_of(recording: Recording) -> tuple[Any, ...]:
    return recording.run, recording.steps, recording.messages, recording.volatile, recording.rules


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(recordings())
def test_any_recording_comes_back_equal(made: tuple[Recording, dict[str, bytes]]) -> None:
    recording, blobs = made
    files = encode(recording)
    again = decode(files.data, "a recording", read_part=files.parts.__getitem__)
    assert parts_of(again) == parts_of(recording)
    assert {digest: again.read(digest) for digest in blobs} == blobs
    assert encode(again) == files


@given(st.binary(max_size=2000) | st.text('[]{},"\\ax', min_size=600, max_size=1500).map(str.encode))
def test_slices_join_to_the_same_bytes(data: bytes) -> None:
    assert b"".join(split(data)) == data


def test_tools_that_follow_a_short_last_turn_are_shared_by_all_turns() -> None:
    def body(last: str) -> bytes:
        messages = [{"role": "user", "content": "x" * 600}, {"role": "user", "content": last}]
        return json.dumps({"messages": messages, "tools": [{"description": "d" * 3000}]}).encode()

    first, second = split(body("hi")), split(body("ho"))
    assert sum(len(piece) for piece in set(second) - set(first)) < 100


def test_a_growing_conversation_is_stored_as_its_growth(tmp_path: Path, talk: Callable[..., Recording]) -> None:
    def stored(turns: int) -> int:
        dataset = GoldenDataset.create(tmp_path / f"turns-{turns}", target="app:run")
        dataset.put_case(Case(id="talk", input={}))
        dataset.put_recording("talk", talk(turns, words=12))
        return sum(path.stat().st_size for path in dataset.path.glob("recordings/*"))

    b50, b100, b200 = stored(50), stored(100), stored(200)
    assert b200 - b100 <= 2.1 * (b100 - b50)
    assert b200 < 200 * 4000


def test_content_is_read_back_from_the_folder(dataset: GoldenDataset, talk: Callable[..., Recording]) -> None:
    ours, theirs = dataset.recording("lost"), talk(3)
    assert ours is not None
    assert [ours.read(m.request_hash) for m in ours.messages] == [theirs.read(m.request_hash) for m in theirs.messages]


def test_long_parts_are_shared_by_all_recordings(dataset: GoldenDataset) -> None:
    before = set(dataset.path.glob("recordings/*.part"))
    recording = dataset.recording("lost")
    assert recording is not None
    dataset.put_case(Case(id="copy", input={}))
    dataset.put_recording("copy", dataclasses.replace(recording, volatile=()))
    assert set(dataset.path.glob("recordings/*.part")) == before != set()


def test_no_host_no_owner_no_credential_no_home_folder(dataset: GoldenDataset, talk: Callable[..., Recording]) -> None:
    recording = talk(1)
    marks = ("set-cookie", "Authorization", "x-api-key", "OpenAI-Organization", "Location")
    exchange = dataclasses.replace(
        recording.messages[0].exchanges[0],
        headers=(("content-type", "application/json"), *((name, f"MARK-{name}") for name in marks)),
    )
    message = dataclasses.replace(
        recording.messages[0],
        provider="MARK-host:443",
        exchanges=(exchange,),
        error="OSError: /home/MARK-person/work/x.py and C:\\Users\\MARK-person\\x",
    )
    run = dataclasses.replace(recording.run, owner="MARK-machine:1:2")
    dataset.put_recording("late", dataclasses.replace(recording, run=run, messages=(message,)))
    written = b"".join(path.read_bytes() for path in dataset.path.rglob("*") if path.is_file())
    assert b"MARK" not in written
    kept = dataset.recording("late")
    assert kept is not None
    assert kept.messages[0].exchanges[0].headers == (("content-type", "application/json"),)


def test_content_that_is_not_its_hash_is_refused(dataset: GoldenDataset, talk: Callable[..., Recording]) -> None:
    with pytest.raises(DatasetError, match="differs from its hash"):
        dataset.put_recording("late", dataclasses.replace(talk(1), read=lambda _: b"other"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"format":1', b'"format":2', "newer than this Goldfork"),
        (b'"rules":"v1"', b'"rules":"v0"', "recorded under key rules 'v0', this version uses 'v1'; record it again"),
        (b'"record":"step"', b'"record":"span"', "unknown record 'span'"),
        (b'"kind":"agent"', b'"kind":"agent","colour":"red"', "unknown key 'colour'"),
        (b'"kind":"agent"', b'"kind":"robot"', "kind"),
        (b'"seq":1,', b'"seq":1,"seq":2,', "'seq' occurs twice"),
        (b'"seq":1,', b'"seq":NaN,', "NaN"),
        (b"+00:00", b"", "time zone"),
        (b'"prev":0', b'"prev":99', "follow its prefix"),
        (b'"record":"recording"', b'"record":"step"', "begins with its 'recording' line"),
    ],
)
def test_a_malformed_line_is_named(old: bytes, new: bytes, says: str, talk: Callable[..., Recording]) -> None:
    files = encode(talk(2))
    assert old in files.data
    with pytest.raises(DatasetError, match=says) as caught:
        decode(files.data.replace(old, new), "recordings/x.jsonl", read_part=files.parts.__getitem__)
    assert "recordings/x.jsonl, line" in str(caught.value)


def test_an_edited_recording_is_not_read(dataset: GoldenDataset) -> None:
    (ref,) = dataset.arms("late")
    path = dataset.path / f"recordings/{ref.digest}.jsonl"
    path.write_bytes(path.read_bytes().replace(b"answer 0000", b"answer 9999"))
    with pytest.raises(DatasetEdited, match="was edited"):
        dataset.recording("late")


def test_a_missing_part_is_named_when_it_is_read(dataset: GoldenDataset) -> None:
    for path in dataset.path.glob("recordings/*.part"):
        path.unlink()
    recording = dataset.recording("late")
    assert recording is not None
    with pytest.raises(DatasetMissing, match=r"content '[0-9a-f]{12}' is missing"):
        recording.read(recording.messages[0].request_hash)


def test_u2028_does_not_end_a_line(dataset: GoldenDataset, talk: Callable[..., Recording]) -> None:
    recording = talk(1)
    run = dataclasses.replace(recording.run, metadata={"note": "one\u2028two"})
    dataset.put_recording("late", dataclasses.replace(recording, run=run))
    again = dataset.recording("late")
    assert again is not None
    assert again.run.metadata == {"note": "one\u2028two"}


def test_cost_stays_a_decimal(dataset: GoldenDataset, talk: Callable[..., Recording]) -> None:
    recording = talk(1)
    message = dataclasses.replace(recording.messages[0], cost=Decimal("0.0010"))
    dataset.put_recording("late", dataclasses.replace(recording, messages=(message,)))
    again = dataset.recording("late")
    assert again is not None
    assert str(again.messages[0].cost) == "0.0010"


def test_a_recording_never_leads_out_of_its_folder(dataset: GoldenDataset, talk: Callable[..., Recording]) -> None:
    recording = talk(1)
    exchange = dataclasses.replace(recording.messages[0].exchanges[0], body_hash="../../outside")
    files = encode(recording)
    answer = recording.messages[0].exchanges[0].body_hash
    assert answer is not None
    data = files.data.replace(f'"body_hash":"{answer}"'.encode(), b'"body_hash":"../../outside"')
    again = decode(data, "x", read_part=files.parts.__getitem__)
    assert again.messages[0].exchanges[0] == exchange
    with pytest.raises(DatasetError, match="is not a SHA-256 hash"):
        again.read("../../outside")


def test_the_error_of_a_tool_is_kept_as_it_was_raised(talk: Callable[..., Recording]) -> None:
    recording = talk(1)
    error = "FileNotFoundError: /home/ann/kb.json"
    steps = tuple(
        dataclasses.replace(recording.steps[0], id=kind, kind=kind, error=error) for kind in ("tool", "agent")
    )
    files = encode(dataclasses.replace(recording, steps=steps))
    again = decode(files.data, "x", read_part=files.parts.__getitem__)
    assert [step.error for step in again.steps] == [error, "FileNotFoundError: ~/kb.json"]


def test_recordings_of_one_case_may_be_written_by_several_threads(
    dataset: GoldenDataset, talk: Callable[..., Recording]
) -> None:
    recording = talk(1)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda trial: dataset.put_recording("late", recording, trial=trial), range(20)))
    assert [ref.trial for ref in GoldenDataset.load(dataset.path).arms("late")] == list(range(20))
