"""What becomes of a span's attributes."""

import json

import pytest

OBSERVATION = "langfuse.observation."
META = OBSERVATION + "metadata"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        (w, w.upper())
        for w in ("generation", "embedding", "agent", "tool", "chain", "retriever", "evaluator", "guardrail")
    ]
    + [("span", "SPAN"), ("TOOL", "SPAN"), ("wizard", "SPAN")],
)
def test_types_are_matched_in_lower_case(target, word, kind):
    assert target.stored(attributes={OBSERVATION + "type": word})["type"] == kind


def test_a_span_with_a_gen_ai_attribute_is_a_generation(target):
    assert target.stored(attributes={"gen_ai.request.model": "probe-model"})["type"] == "GENERATION"
    assert target.stored()["type"] == "SPAN"


@pytest.mark.parametrize(
    ("attributes", "status", "level", "message"),
    [
        ({}, {}, "DEFAULT", None),
        ({OBSERVATION + "level": "WARNING"}, {}, "WARNING", None),
        ({OBSERVATION + "level": "info"}, {}, "DEFAULT", None),
        ({}, {"code": 2, "message": "no luck"}, "ERROR", "no luck"),
        ({OBSERVATION + "level": "ERROR", OBSERVATION + "status_message": "lost"}, {}, "ERROR", "lost"),
    ],
)
def test_levels_and_status(target, attributes, status, level, message):
    row = target.stored(attributes=attributes, status=status)
    assert (row["level"], row["statusMessage"] or None) == (level, message)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("42", 42),
        ('"42"', "42"),
        ("1.10", 1.1),
        ("12345678901234567890", "12345678901234567890"),
        ("plain words", "plain words"),
        ("true", True),
        ('{"a":{"b":1}}', {"a": {"b": 1}}),
        ("[1,2]", [1, 2]),
    ],
)
def test_metadata_is_decoded_where_it_can_be(target, sent, read):
    assert target.stored(attributes={META + ".k": sent})["metadata"]["k"] == read


def test_metadata_comes_as_one_object_or_key_by_key_and_dots_nest(target):
    row = target.stored(
        attributes={META: json.dumps({"whole": {"x": 1}}), META + ".a.b": "1", "langfuse.trace.metadata.t": '"of it"'}
    )
    metadata = row["metadata"]
    assert (metadata["whole"], metadata["a"], metadata["t"]) == ({"x": 1}, {"b": 1}, "of it")


def test_long_metadata_is_cut_unless_its_top_key_is_named(target):
    long = "ü" * 201
    attributes = {META + ".long": json.dumps(long), META + ".deep": json.dumps({"er": long, "s": "x" * 200})}
    trace = target.trace()
    target.send(target.span(trace, 1, attributes=attributes))
    cut = target.seen(trace)["step 1"]["metadata"]
    assert (cut["long"], cut["deep"]) == (long[:200], {"er": long[:200], "s": "x" * 200})
    whole = target.seen(trace, expandMetadata="long,deep")["step 1"]["metadata"]
    assert (whole["long"], whole["deep"]["er"]) == (long, long)
    half = target.seen(trace, expandMetadata="deep")["step 1"]["metadata"]
    assert (half["long"], half["deep"]["er"]) == (long[:200], long)


@pytest.mark.parametrize(("scope", "repeated"), [("langfuse-sdk", False), ("langfuse-sdk.x", False), ("mine", True)])
def test_raw_attributes_are_repeated_for_other_scopes(target, scope, repeated):
    metadata = target.stored(attributes={"own.key": "v"}, scope=scope)["metadata"]
    assert ("attributes" in metadata) is repeated


@pytest.mark.parametrize(
    ("given", "resource", "read"),
    [
        ("nightly", None, "nightly"),
        (None, "staging", "staging"),
        ("nightly", "staging", "nightly"),
        ("Not Valid", None, "default"),
        ("langfuse-own", None, "default"),
        (None, None, "default"),
    ],
)
def test_environment(target, given, resource, read):
    attributes = {"langfuse.environment": given} if given else {}
    shared = {"langfuse.environment": resource} if resource else {}
    assert target.stored(attributes=attributes, resource=shared)["environment"] == read


@pytest.mark.parametrize(
    ("usage", "kept"),
    [
        ({"input": 3, "input_cached_tokens": 2, "output": 4}, {"input": 3, "input_cached_tokens": 2, "output": 4}),
        ({"input": 3, "output": -1}, {}),
        ({"input": 3, "output": 1.5}, {}),
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}},
            {"input": 4, "input_cached_tokens": 6, "output": 4},
        ),
    ],
)
def test_usage_is_whole_or_lost(target, usage, kept):
    # Without a known model the server does not count tokens itself.
    attributes = {
        OBSERVATION + "type": "generation",
        OBSERVATION + "model.name": "goldfork-probe-model",
        OBSERVATION + "usage_details": json.dumps(usage),
        OBSERVATION + "cost_details": json.dumps({"total": 0}),
    }
    row = target.stored(attributes=attributes)
    assert {key: value for key, value in row["usageDetails"].items() if key != "total"} == kept


@pytest.mark.parametrize("total", [0, 0.000125])
def test_explicit_cost_wins(target, total):
    attributes = {
        OBSERVATION + "type": "generation",
        OBSERVATION + "model.name": "gpt-4o",
        OBSERVATION + "usage_details": json.dumps({"input": 1000, "output": 10}),
        OBSERVATION + "cost_details": json.dumps({"total": total}),
    }
    row = target.stored(attributes=attributes)
    assert row["model"] == "gpt-4o"
    assert row["totalCost"] == pytest.approx(total)


@pytest.mark.parametrize("text", ['{ "a" : 1.0 }', "42", "zero \x00 byte, \U0001f600, \u2028 and  spaces \n", '"'])
def test_input_and_output_come_back_as_they_were(target, text):
    row = target.stored(attributes={OBSERVATION + "input": text, OBSERVATION + "output": text})
    assert (row["input"], row["output"]) == (text, text)


@pytest.mark.parametrize("tags", [["b", "a"], '["b", "a"]', "b,a"])
def test_tags_are_taken_in_three_shapes(target, tags):
    assert sorted(target.stored(attributes={"langfuse.trace.tags": tags})["tags"]) == ["a", "b"]


def test_what_is_said_of_the_trace_is_on_the_observation(target):
    row = target.stored(
        attributes={
            "langfuse.trace.name": "whole",
            "user.id": "u",
            "session.id": "s",
            "langfuse.release": "r",
            "langfuse.version": "v",
        }
    )
    assert [row[name] for name in ("traceName", "userId", "sessionId", "release", "version")] == [
        "whole",
        "u",
        "s",
        "r",
        "v",
    ]
    assert target.stored()["traceName"] == "step 1"


def test_completion_start_and_model_parameters(target):
    attributes = {
        OBSERVATION + "type": "generation",
        OBSERVATION + "model.parameters": json.dumps({"temperature": 0}),
        OBSERVATION + "completion_start_time": json.dumps("2026-11-30T10:00:00.250Z"),
        OBSERVATION + "usage_details": json.dumps({"input": 1}),
    }
    row = target.stored(attributes=attributes)
    assert row["completionStartTime"] == "2026-11-30T10:00:00.250Z"
    assert row["modelParameters"] in ({"temperature": 0}, {"temperature": "0"}, '{"temperature":0}')


def test_the_sdks_root_flag_makes_a_root_of_a_span_with_a_parent(target):
    row = target.stored(parentSpanId=f"{9:016x}", attributes={"langfuse.internal.is_app_root": True})
    assert (row["isRootObservation"], row["parentObservationId"]) == (True, f"{9:016x}")
