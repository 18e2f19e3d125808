"""A stranger's trace as a run: whatever its parents, texts and types say."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.canonical import content_hash, request_keys
from harness.mirror._import_run import build, made_id, root_id, run_id
from harness.mirror._observation import Malformed, Observation, looks_cut
from harness.pipeline import plain
from harness.record import request_view, view_response
from harness.store import open_store

BEGIN = datetime(2026, 11, 10, 9, tzinfo=UTC)


def moment(milliseconds):
    return (BEGIN + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row(identifier, parent=None, *, start=0, end=10, kind="SPAN", **more):
    """An observation as the list shows it."""
    return {
        "id": identifier,
        "traceId": "t",
        "projectId": "p",
        "parentObservationId": parent,
        "type": kind,
        "name": identifier,
        "startTime": moment(start),
        "endTime": moment(end),
        "updatedAt": moment(1000),
        "traceName": "shop",
        **more,
    }


def run_of(*rows, **options):
    return build("t", [Observation.read(one) for one in rows], **options)


def test_the_single_root_is_the_root_step_and_children_are_scoped():
    built = run_of(
        row("root", kind="AGENT", end=100, input='{"q": 1}', output='"done"'),
        row("plan", "root", start=5, end=50),
        row("search", "plan", start=6, kind="TOOL", input='{"x": 1}', output="[1, 2]"),
        row("llm", "plan", start=20, kind="GENERATION"),
    )
    root, plan, search = built.steps
    assert (root.name, root.kind, root.parent_id, root.seq, root.duration_ms) == ("root", "agent", None, 0, 100.0)
    assert (plan.parent_id, plan.scope, plan.kind) == (root.id, "", "job")
    assert (search.parent_id, search.scope, search.kind, search.state) == (plan.id, "plan", "tool", "called")
    assert (built.messages[0].step_id, built.messages[0].scope, built.messages[0].seq) == (plan.id, "plan", 3)
    assert (built.run.workflow, built.run.fidelity, built.run.mode, built.run.usable) == (
        "shop",
        "imported",
        "live",
        True,
    )
    assert plain(built.blobs[built.run.input_hash]) == {"q": 1}
    assert plain(built.blobs[built.run.output_hash]) == "done"
    assert plain(built.blobs[search.output_hash]) == [1, 2]


@pytest.mark.parametrize(
    "rows",
    [
        (row("a"), row("b", start=5)),
        (row("a", "gone"), row("b", "gone", start=5)),
        (row("a", kind="GENERATION"), row("b", "a", start=5)),
        (row("a", "b"), row("b", "a", start=5)),
        (row("a", "a"), row("b", "a", start=5, kind="EMBEDDING")),
    ],
)
def test_without_exactly_one_root_a_step_named_after_the_trace_holds_it_together(rows):
    built = run_of(*rows)
    root = built.steps[0]
    assert (root.name, root.parent_id, root.id) == ("shop", None, root_id("p", "t"))
    assert len(built.steps) + len(built.messages) == 3
    ids = {step.id for step in built.steps}
    assert all(step.parent_id in ids for step in built.steps[1:])
    assert all(message.step_id in ids for message in built.messages)


names = st.sampled_from([f"o{n}" for n in range(8)])
kinds = st.sampled_from(["SPAN", "TOOL", "GENERATION", "EVENT", "EMBEDDING", "AGENT"])
shapes = st.dictionaries(
    names, st.tuples(st.one_of(st.none(), names, st.just("gone")), st.integers(0, 5), kinds), min_size=1
)


@settings(max_examples=150, deadline=None)
@given(shapes, st.randoms(use_true_random=False))
def test_any_parents_give_one_tree_with_one_order(shape, random):
    rows = [row(name, parent, start=start, kind=kind) for name, (parent, start, kind) in shape.items()]
    again = list(rows)
    random.shuffle(again)
    built, other = run_of(*rows), run_of(*again)
    assert (built.steps, built.messages) == (other.steps, other.messages), "the order of arrival means nothing"
    steps = {step.id: step for step in built.steps}
    sequence = sorted([one.seq for one in [*built.steps, *built.messages]])
    assert sequence == list(range(len(sequence)))
    roots = [step for step in built.steps if step.parent_id is None]
    assert [step.seq for step in roots] == [0]
    assert len(sequence) - len(shape) in {0, 1}
    for step in built.steps[1:]:
        above = steps[step.parent_id]
        assert above.seq < step.seq
        inside = "" if above.parent_id is None else f"{above.scope}/{above.name}".lstrip("/")
        assert step.scope == inside
    addresses = [(step.scope, step.name, step.occurrence) for step in built.steps if step.kind != "tool"]
    assert len(addresses) == len(set(addresses))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
surrogates = st.text(alphabet=st.characters(codec=None, categories=("Cs", "Cc", "Lu")), max_size=6)
hostile = st.one_of(json_values, surrogates, surrogates.map(lambda text: json.dumps([text])))
FIELDS = [
    "input",
    "output",
    "metadata",
    "modelParameters",
    "usageDetails",
    "costDetails",
    "totalCost",
    "tags",
    "name",
    "level",
    "statusMessage",
    "version",
    "endTime",
    "completionStartTime",
    "updatedAt",
    "type",
    "userId",
    "model",
    "promptName",
    "promptVersion",
    "traceName",
    "environment",
    "isRootObservation",
    "parentObservationId",
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('kept')}/s.db", durability="normal") as store:
        yield store


@settings(max_examples=120, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), hostile, max_size=6), min_size=1, max_size=3))
def test_whatever_the_fields_hold_the_run_can_be_stored_and_read_back(kept, changes):
    rows = [{**row(f"o{n}", kind="GENERATION" if n else "SPAN"), **change} for n, change in enumerate(changes)]
    built = run_of(*rows)
    kept.write(*built.records, blobs=built.blobs).result()
    recording = kept.recording(built.run.id)
    assert recording.run == built.run
    assert {step.id for step in recording.steps} >= {step.id for step in built.steps}
    for message in built.messages:
        assert content_hash(recording.read(message.request_hash)) == message.request_hash
    for digest in built.blobs:
        assert recording.read(digest) == built.blobs[digest]


def test_a_model_call_keeps_what_was_reported_and_nothing_else():
    asked = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    said = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
    built = run_of(
        row("root", end=100),
        row(
            "llm",
            "root",
            start=20,
            end=90,
            kind="GENERATION",
            input=json.dumps(asked),
            output=json.dumps(said),
            model="m-1",
            modelParameters={"temperature": 0.5, "tools": [1]},
            usageDetails={"input": 3, "input_cached_tokens": 2, "output": 4, "output_reasoning_tokens": 1, "total": 10},
            costDetails={"total": Decimal("0.00123456789012345")},
            completionStartTime=moment(30),
            promptName="draft",
            promptVersion=3,
        ),
        row("bare", "root", start=95, kind="GENERATION"),
    )
    message, bare = built.messages
    request = built.blobs[message.request_hash]
    view = request_view(message.endpoint, request)
    assert (view.model, [dict(part) for part in view.messages]) == ("m-1", asked)
    keys = request_keys("POST", message.endpoint, request)
    assert (message.exact_key, message.semantic_key) == (keys.exact, keys.semantic)
    answer = view_response(message.endpoint, message.answer, built.blobs[message.answer.body_hash])
    assert answer.tool_calls[0].name == "f"
    usage = message.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens) == (5, 2, 5, 1)
    assert message.cost == Decimal("0.00123456789012345")
    assert (message.latency_ms, message.first_chunk_ms, message.params["temperature"]) == (70.0, 10.0, 0.5)
    assert (message.prompt_name, message.prompt_version) == ("draft", "3")
    assert (bare.usage.input_tokens, bare.usage.output_tokens, bare.cost, bare.model, bare.answer) == (None,) * 5


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        ({"input": 10, "input_cached_tokens": 4, "output": 2, "total": 12}, (10, 2, 4, None)),
        ({"input": 6, "input_cache_read": 4, "output": 2, "total": 12}, (10, 2, 4, None)),
        ({"input": 6, "output": 0}, (6, 0, None, None)),
        ({"total": 9}, (None, None, None, None)),
        ({}, (None, None, None, None)),
    ],
)
def test_usage_buckets_are_disjoint_unless_the_total_says_otherwise(buckets, expected):
    usage = run_of(row("llm", kind="GENERATION", usageDetails=buckets)).messages[0].usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens) == expected


def test_a_total_of_zero_without_buckets_is_an_unknown_cost_and_a_zero_bucket_is_known():
    unknown, free = (
        run_of(row("llm", kind="GENERATION", totalCost=0, costDetails=given)).messages[0].cost
        for given in ({}, {"total": 0})
    )
    assert (unknown, free) == (None, Decimal(0))


def test_an_answer_that_is_a_number_is_text_and_a_step_that_gives_one_gives_a_number():
    built = run_of(row("root", output="42"), row("llm", "root", kind="GENERATION", output="42"))
    assert plain(built.blobs[built.steps[0].output_hash]) == 42
    message = built.messages[0]
    assert view_response(message.endpoint, message.answer, built.blobs[message.answer.body_hash]).text == "42"


def test_failures_are_failures():
    built = run_of(
        row("root", level="ERROR", statusMessage="boom"), row("llm", "root", kind="GENERATION", level="ERROR")
    )
    assert (built.run.status, built.run.error, built.steps[0].status) == ("error", "boom", "error")
    assert built.messages[0].status == "error"
    assert built.messages[0].answer.error


def test_ids_are_stable_apart_by_project_and_sorted_by_time():
    assert made_id("p", "t", "step", "a") == made_id("p", "t", "step", "a")
    different = {
        made_id(*parts) for parts in [("p", "t", "step", "a"), ("q", "t", "step", "a"), ("p", "t/a", "step", "")]
    }
    assert len(different) == 3
    early, late = run_id("p", "z", BEGIN), run_id("p", "a", BEGIN + timedelta(milliseconds=1))
    assert early < late
    for made in (early, made_id("p", "t", "step")):
        assert str(uuid.UUID(made)) == made
        assert uuid.UUID(made).variant == uuid.RFC_4122
    assert run_id("p", "t", datetime(1, 1, 1, tzinfo=UTC)) < early


def test_what_cannot_be_placed_in_time_is_named():
    for bad in ({"startTime": None}, {"startTime": "soon"}, {"startTime": 5}, {"id": None}, {"id": ""}):
        with pytest.raises(Malformed):
            Observation.read({**row("a"), **bad})
    assert Observation.read({**row("a"), "startTime": "2026-11-10T09:00:00"}).start == BEGIN


@pytest.mark.parametrize(
    ("value", "cut"),
    [("x" * 200, True), ("x" * 199, False), ("x" * 201, False), ({"a": ["é" * 200]}, True), ("é" * 100, True),
     ("😀" * 100, True), (5, False)],
)  # fmt: skip
def test_values_of_the_length_of_a_cut_are_noticed(value, cut):
    assert looks_cut(value) is cut
