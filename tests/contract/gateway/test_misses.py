"""A changed request is a miss that says what changed, and no socket is opened."""

from dataclasses import replace

import pytest

from harness.errors import GoldforkStop, LiveCallForbidden, RecordingExhausted, RecordingMissing, StatefulFork
from harness.gateway import FORBID_LIVE
from harness.session import (
    Frame,
    Mode,
    NullSink,
    RecordedAnswers,
    RunPlan,
    StepHandle,
    call_frame,
    entered,
    planned,
)

TOOL = {"type": "function", "function": {"name": "search", "description": "Looks it up", "parameters": {}}}
BASE = {
    "model": "m-1",
    "temperature": 0,
    "tools": [TOOL],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is my parcel?"}],
}


def changed_tool() -> dict[str, object]:
    return {**TOOL, "function": {**TOOL["function"], "description": "Searches the archive"}}


def create(client, **options):
    return client.chat.completions.create(**{**BASE, **options})


@pytest.fixture
def client(lab):
    client = lab.client()
    lab.live(lambda: create(client))
    return client


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": 0.9}, r"parameter 'temperature' \(recorded 0, now 0.9\)"),
        ({"seed": 7}, r"parameter 'seed' \(recorded absent, now 7\)"),
        ({"model": "m-2"}, r"the model \(recorded 'm-1', now 'm-2'\)"),
        ({"tools": [changed_tool()]}, r"tool 'search' at 'function.description' .*'Searches the archive'"),
        ({"tools": []}, "tool 'search' is gone"),
        (
            {"messages": [BASE["messages"][0], {"role": "user", "content": "Where is my order?"}]},
            r"message 1 \(user\) at 'content' \(recorded .*parcel.* now .*order",
        ),
        ({"messages": BASE["messages"][:1]}, r"the count of messages \(recorded 2, now 1\)"),
    ],
)
def test_a_miss_names_what_changed(lab, client, options, says):
    with pytest.raises(RecordingMissing, match=says) as caught:
        lab.replay(lambda: create(client, **options))
    assert not isinstance(caught.value, RecordingExhausted)
    assert lab.runs[0].misses == [str(caught.value)]
    if "messages" not in options:
        assert "The same: " in str(caught.value)
        assert "messages" in str(caught.value).split("The same: ")[1]


def test_a_handler_in_the_application_does_not_hide_a_miss(lab, client):
    def careless():
        try:
            return create(client, temperature=0.9)
        except Exception:
            return "fallback"

    with pytest.raises(RecordingMissing):
        lab.replay(careless)


def test_a_time_in_a_prompt_is_pointed_out(lab):
    client = lab.client()
    lab.live(lambda: create(client, messages=[{"role": "user", "content": "It is 2026-11-30T10:00:00Z. Hi"}]))
    with pytest.raises(RecordingMissing, match=r"harness\.now\(\)"):
        lab.replay(lambda: create(client, messages=[{"role": "user", "content": "It is 2026-12-01T10:00:00Z. Hi"}]))


def test_nothing_else_of_the_client_leaves_in_replay(lab, client):
    with pytest.raises(RecordingMissing, match=r"GET /v1/models is not a model call"):
        lab.replay(client.models.list)
    lab.server.script({"object": "list", "data": []})
    assert lab.live(client.models.list).data == []
    assert lab.sink.messages[-1].endpoint == "/chat/completions"


def test_auto_answers_what_it_has_and_records_the_rest(lab, client):
    before, resolver = lab.server.calls, RecordedAnswers(lab.recording, errors=False)
    lab.live(lambda: [create(client), create(client, temperature=1)], mode=Mode.AUTO, resolver=resolver)
    assert lab.server.calls == before + 1
    assert [message.cache_state for message in lab.recording.messages] == ["recorded", "live"]


def test_off_records_nothing(lab, client):
    before = len(lab.sink.log)
    with planned(RunPlan(mode=Mode.OFF, sink=NullSink())):
        create(client)
    assert len(lab.sink.log) == before


@pytest.mark.parametrize("mode", [Mode.LIVE, Mode.AUTO])
def test_the_fuse_stops_live_calls(lab, client, monkeypatch, mode):
    monkeypatch.setenv(FORBID_LIVE, "1")
    before = lab.server.calls
    with pytest.raises(LiveCallForbidden, match=FORBID_LIVE):
        lab.live(lambda: create(client, temperature=1), mode=mode)
    assert lab.server.calls == before


def test_a_recorded_response_id_is_never_continued_live(lab):
    client = lab.client()
    first = lab.live(lambda: client.responses.create(model="m", input="hi"))
    resolver, before = RecordedAnswers(lab.recording, errors=False), lab.server.calls

    def fork():
        again = client.responses.create(model="m", input="hi")
        assert again.id == first.id
        return client.responses.create(model="m", input="go on", previous_response_id=again.id)

    with pytest.raises(StatefulFork, match=first.id):
        lab.live(fork, mode=Mode.AUTO, resolver=resolver)
    assert lab.server.calls == before


def in_step(name, work):
    root = call_frame()
    record = replace(root.step.record, name=name)
    with entered(Frame(root.run, StepHandle(record), name)):
        return work()


def test_a_renamed_step_is_named(lab):
    client = lab.client()
    lab.live(lambda: in_step("draft", lambda: create(client)))
    with pytest.raises(RecordingMissing, match="in step 'write' is not recorded.*in step 'draft'.*renamed or moved"):
        lab.replay(lambda: in_step("write", lambda: create(client)))


def test_the_nearest_recording_is_the_one_that_agrees_most(lab):
    client = lab.client()
    for_model = {"model": "m-9", "temperature": 1}
    lab.live(lambda: [create(client, **for_model), create(client, seed=3), create(client, seed=4, top_p=0.5)])
    nearest = lab.recording.messages[1].id
    with pytest.raises(RecordingMissing, match=f"{nearest}.*'seed'"):
        lab.replay(lambda: create(client, seed=5))


def test_stops_are_no_exceptions():
    assert not issubclass(GoldforkStop, Exception)
