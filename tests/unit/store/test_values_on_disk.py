"""How values stand on disk: reversible, compact, and safe to read."""

import inspect
import json
import os
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.store._codec import BASED, RAW, ZLIB, decode, encode, encode_against, pack, unpack
from harness.store._columns import Table
from harness.store._eval_tables import Experiment
from harness.store._liveness import abandoned
from harness.store._outbox_sql import ENTERED
from harness.store._packing import (
    pack_hash,
    pack_id,
    pack_json,
    pack_key,
    pack_text,
    pack_time_text,
    unpack_json,
    unpack_key,
    unpack_text,
    unpack_time_text,
)
from harness.store._reference import schema_reference
from harness.store._rows import CHUNK, EXCHANGE, MESSAGE, RUN, STEP, VOLATILE
from harness.store._tables import Message

_TEXT = st.text(st.characters(codec=None) | st.sampled_from("\x00\x1a\ud800\udfff0a"))

_some = settings(max_examples=60, deadline=None)


@_some
@given(_TEXT)
@example("\x1a0000")
@example("\ud83d\x00")
def test_any_text_comes_back_and_is_carried(text):
    packed = pack_text(text)
    assert unpack_text(packed) == text
    assert "\x00" not in packed
    packed.encode()


@_some
@given(_TEXT)
@example("a" * 32)
@example("a" * 31)
@example("a" * 30)
@example("0" * 64)
def test_any_key_comes_back(text):
    assert unpack_key(pack_key(text)) == text


def test_a_hash_takes_32_bytes_and_an_id_16():
    assert pack_hash("ab" * 32) == pack_key("ab" * 32) == b"\xab" * 32
    assert len(pack_id("0190b6a2-0000-7000-8000-000000000000")) == 16
    for wrong in ("AB" * 32, "ab" * 31, "ü" * 64):
        with pytest.raises(ValueError, match="SHA-256"):
            pack_hash(wrong)
    with pytest.raises(ValueError, match="'run-1' is not a UUID"):
        pack_id("run-1")


@_some
@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_times_come_back_and_sort_as_text(first, second):
    assert unpack_time_text(pack_time_text(first)) == first
    assert (pack_time_text(first) < pack_time_text(second)) == (first < second)


def test_a_time_is_stored_in_utc_and_needs_a_zone():
    assert (
        pack_time_text(datetime(2026, 3, 29, 3, 0, 1, tzinfo=timezone(timedelta(hours=2))))
        == "2026-03-29T01:00:01.000000Z"
    )
    with pytest.raises(ValueError, match="no zone"):
        pack_time_text(datetime(2026, 3, 29, 3, 0, 1))  # noqa: DTZ001 - what is refused


def test_json_is_exact():
    value = {"n": 2**70, "text": "a\x00\ud83d", "f": 0.1}
    assert unpack_json(pack_json(value)) == value
    assert pack_json(value).isascii()


@_some
@given(st.binary(max_size=3000), st.binary(max_size=300))
def test_content_comes_back(content, base):
    assert decode(*encode(content), len(content)) == content
    assert decode(BASED, encode_against(content, base), len(content), base) == content
    assert unpack(pack(content)) == content


def test_small_content_is_stored_smaller():
    reply = json.dumps(
        {"role": "assistant", "content": "Your parcel is on its way; it should arrive tomorrow."}
    ).encode()
    codec, data = encode(reply)
    assert codec == ZLIB
    assert len(data) < 0.7 * len(reply)
    assert encode(b"\x00\xff" * 10)[0] == RAW


def test_compressed_content_is_never_unpacked_beyond_its_size():
    codec, bomb = encode(bytes(10_000_000))
    with pytest.raises(ValueError, match="longer than its recorded size"):
        decode(codec, bomb, 1000)
    with pytest.raises(ValueError, match="damaged"):
        decode(ZLIB, b"\xff\xff\xff\xff", 10)
    with pytest.raises(ValueError, match="codec 9"):
        decode(9, b"", 0)


def test_a_process_that_lives_and_one_that_is_gone():
    now, start = datetime.now(UTC), time.time_ns() // 1_000_000
    host = os.uname().nodename
    assert not abandoned(f"{host}:{os.getpid()}:{start}", now, now)
    assert abandoned(f"{host}:4194303:{start}", now, now)
    assert abandoned(f"{host}:{os.getpid()}:1000", now, now)
    assert not abandoned("elsewhere:1:1", now, now)
    assert abandoned("elsewhere:1:1", now - timedelta(seconds=61), now)
    assert abandoned("", None, now)


def test_the_writer_fills_every_column():
    written = {
        "runs": RUN, "steps": STEP, "messages": MESSAGE, "exchanges": EXCHANGE, "chunks": CHUNK,
        "volatile": ("seq", *VOLATILE), "outbox": (*ENTERED, "updated_at", "error", "frozen", "frozen_hash"),
    }  # fmt: skip
    for table, names in written.items():
        assert sorted(Table.metadata.tables[table].columns.keys()) == sorted(names)
    assert Message.__tablename__ == "messages"
    assert Experiment.__tablename__ == "experiments"


def test_every_column_is_described_and_the_reference_is_current():
    page = Path(__file__).parents[3] / "docs" / "schema.md"
    assert page.read_text(encoding="utf-8") == schema_reference()
    for kind in Table.__subclasses__():
        assert inspect.getdoc(kind)
        for name, field in kind.model_fields.items():
            assert field.description, f"{kind.__tablename__}.{name}"
