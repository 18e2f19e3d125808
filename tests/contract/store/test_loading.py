"""Rows become records without the tables' column types on the way; both say the same, whatever is in the rows."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import DatasetMissing
from harness.record import Usage, VolatileRecord

TEXTS = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["\x00", "\x1a0041", "\ud800", "{}", "[]", ""]
)
KEYS = st.sampled_from(["a" * 64, "v1:" + "b" * 64, "k" * 31, "", "v0:" + "c" * 64]) | TEXTS
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
COUNTS = st.none() | st.integers(0, 2**63 - 1)
MAYBE = st.none() | TEXTS


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_records_come_back_as_they_were_written(store, records, data):
    draw = data.draw
    run = records.done(
        records.run(
            workflow=draw(TEXTS), case=draw(MAYBE), arm=draw(TEXTS), tags=tuple(draw(st.lists(TEXTS, max_size=2))),
            metadata=draw(OBJECTS), change=draw(st.none() | OBJECTS), usable=draw(st.booleans()), error=draw(MAYBE),
        )
    )  # fmt: skip
    step = records.step(
        run, name=draw(TEXTS), scope=draw(TEXTS), key=draw(KEYS), version=draw(MAYBE), mutated=draw(st.booleans()),
        ttl=draw(st.none() | st.floats(0, 1e9)), reused_from=draw(MAYBE), output_hash="d" * 64,
    )  # fmt: skip
    message = records.message(
        run, b"{}", step_id=draw(st.sampled_from([None, step.id])), exact_key=draw(KEYS), semantic_key=draw(KEYS),
        params=draw(OBJECTS), model=draw(MAYBE), streamed=draw(st.booleans()), prompt_name=draw(MAYBE),
        usage=Usage(**{name: draw(COUNTS) for name in ("input_tokens", "output_tokens", "cached_tokens")}),
        cost=draw(st.none() | st.decimals(0, 10**9, places=9)), currency="EUR",
        finish_reasons=tuple(draw(st.lists(TEXTS, max_size=2))),
    )  # fmt: skip
    message = replace(message, currency="EUR" if message.cost is not None else "USD")
    answer = replace(
        message.exchanges[0],
        headers=tuple(draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=2))),
        chunks=tuple(draw(st.lists(st.tuples(st.integers(0, 2**40), st.floats(0, 1e6)), max_size=2))),
        error=draw(MAYBE),
    )
    message = replace(message, exchanges=(replace(answer, status=500, body_hash=None), answer))
    value = VolatileRecord(
        run_id=run.id, step_id=step.id, scope=draw(TEXTS), name="now", occurrence=0, value=draw(JSON)
    )
    store.write(run, step, message, value, blobs=records.blobs(b"{}")).result(30)
    for found in (store.recording(run.id), *store.recordings([run.id])):
        assert found.run == run
        assert found.steps == (step,)
        assert found.messages == (message,)
        assert found.volatile == (value,)
        assert all(isinstance(one.cost, Decimal | None) for one in found.messages)
    # The column types, which ``load`` goes through, tell the same.
    [told] = store.load("messages", id=message.id)
    assert {name: told[name] for name in ("params", "cost", "exact_key", "model", "started_at")} == {
        name: getattr(message, name) for name in ("params", "cost", "exact_key", "model", "started_at")
    }


def test_content_of_many_runs_is_that_of_each_long_and_missing_ones_too(store, records):
    run = records.done(records.run())
    contents = [
        b"short",
        b"long " * 30_000,
        b'{"messages": [' + b'{"role": "user", "content": "x"},' * 80 + b"{}]}",
        b"{}",
    ]
    request, answer = records.hash(contents[2]), records.hash(contents[3])
    message = records.message(run, contents[2])
    steps = [
        records.step(run, seq=seq, output_hash=records.hash(content))
        for seq, content in enumerate([*contents[:2], b"never stored"])
    ]
    store.write(run, *steps, message, blobs=records.blobs(*contents)).result(30)
    [many] = store.recordings([run.id])
    one = store.recording(run.id)
    assert (many.read(request), many.read(answer)) == (contents[2], contents[3])
    for step, content in zip(steps[:2], contents[:2], strict=True):
        assert many.read(step.output_hash) == one.read(step.output_hash) == content
    with pytest.raises(DatasetMissing, match="is not in the store"):
        many.read(steps[2].output_hash)
    # What the run does not name is found as well.
    store.write(blobs=records.blobs(b"elsewhere")).result(30)
    assert many.read(records.hash(b"elsewhere")) == b"elsewhere"
