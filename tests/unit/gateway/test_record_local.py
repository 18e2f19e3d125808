"""``record_local``: what this process computes is matched and recorded like a model call."""

import pytest

from harness.errors import RecordingMissing
from harness.gateway import record_local
from harness.session import Mode, NullSink, RecordedAnswers, RunPlan, planned
from harness.testing import MemorySink

REQUEST = {"input": ["a", "b"], "model": "local-embedder@1"}


def vectors():
    return {"data": [{"embedding": [0.1, 1e-7, 3.0]}], "usage": {"prompt_tokens": 2, "total_tokens": 2}}


def never():
    raise AssertionError("must be answered from the recording")


def live(compute=vectors, request=REQUEST, **options):
    sink = MemorySink()
    with planned(RunPlan(mode=Mode.LIVE, sink=sink)):
        answer = record_local("/embeddings", request, compute, **options)
    return answer, sink.recording()


def replay(recording, compute=never, request=REQUEST):
    with planned(RunPlan(mode=Mode.REPLAY, sink=NullSink(), resolver=RecordedAnswers(recording))):
        return record_local("/embeddings", request, compute)


def test_the_answer_is_the_same_live_and_replayed_and_computed_once():
    answer, recording = live()
    assert answer == vectors()
    assert replay(recording) == answer
    (message,) = recording.messages
    assert (message.provider, message.model, message.status) == ("local", "local-embedder@1", "ok")
    assert message.usage.total == 2


def test_another_text_is_a_miss():
    _, recording = live()
    with pytest.raises(RecordingMissing, match=r"input\[1\]"):
        replay(recording, request={**REQUEST, "input": ["a", "c"]})


def test_a_failure_is_recorded_and_raised():
    def broken():
        raise ValueError("no model file")

    sink = MemorySink()
    with planned(RunPlan(mode=Mode.LIVE, sink=sink)), pytest.raises(ValueError, match="no model file"):
        record_local("/embeddings", REQUEST, broken)
    assert sink.recording().messages[0].error == "ValueError: no model file"


def test_a_model_given_apart_is_part_of_the_request():
    _, recording = live(request={"input": "a"}, model="m-1")
    assert recording.messages[0].model == "m-1"


def test_off_computes_and_records_nothing():
    with planned(RunPlan(mode=Mode.OFF, sink=NullSink())):
        assert record_local("/embeddings", REQUEST, vectors) == vectors()


def test_local_work_is_allowed_where_live_calls_are_not(monkeypatch):
    monkeypatch.setenv("GOLDFORK_FORBID_LIVE", "1")
    assert live()[0] == vectors()
