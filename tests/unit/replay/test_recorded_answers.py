"""Which recorded messages answer a call, and in which order recordings are asked."""

from dataclasses import replace

import pytest

from harness.errors import ChangeError
from harness.record import Exchange
from harness.replay import live_run
from harness.session import Call, Change, RecordedAnswers, ToolCall
from harness.testing import MemorySink


@pytest.fixture
def recording(shop):
    sink = MemorySink()
    live_run(shop.run, {"ticket": "Ada"}, dry=False, sink=sink)
    return sink.recording()


def call(message, **changes):
    made = Call(
        scope=message.scope,
        method=message.method,
        endpoint=message.endpoint,
        exact_key=message.exact_key,
        semantic_key=message.semantic_key,
        occurrence=message.occurrence,
        body=b"",
    )
    return replace(made, **changes)


def with_first(recording, **changes):
    first, *rest = recording.messages
    return replace(recording, messages=(replace(first, **changes), *rest))


@pytest.mark.parametrize("status", [200, 400, 404])
def test_a_final_status_answers_in_every_mode(recording, status):
    changed = with_first(recording, exchanges=(Exchange(status=status),))
    for errors in (True, False):
        assert RecordedAnswers(changed, errors=errors).message(call(changed.messages[0])) is not None


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 599, None])
def test_what_an_sdk_would_retry_answers_only_a_replay(recording, status):
    changed = with_first(recording, exchanges=(Exchange(status=status, error=None if status else "ReadTimeout"),))
    asked = call(changed.messages[0])
    assert RecordedAnswers(changed).message(asked).message == changed.messages[0]
    auto = RecordedAnswers(changed, errors=False)
    assert auto.message(asked) is None
    assert auto.recorded(asked) == 0


@pytest.mark.parametrize("changes", [{"status": "running"}, {"exchanges": ()}])
def test_an_unfinished_message_answers_nothing(recording, changes):
    changed = with_first(recording, **changes)
    assert RecordedAnswers(changed).message(call(changed.messages[0])) is None


def test_an_interrupted_answer_is_not_taken_where_it_can_be_asked_again(recording):
    changed = with_first(recording, status="interrupted")
    asked = call(changed.messages[0])
    assert RecordedAnswers(changed, errors=False).message(asked) is None
    assert RecordedAnswers(changed).message(asked) is not None


def test_the_first_recording_that_has_an_answer_gives_it(recording):
    asked = call(recording.messages[0])
    other = with_first(recording, id="newer")
    less = replace(recording, messages=recording.messages[1:], steps=(), volatile=())
    assert RecordedAnswers(other, recording).message(asked).message.id == "newer"
    answer = RecordedAnswers(less, recording).message(asked)
    assert (answer.message, answer.recording) == (recording.messages[0], recording)
    assert RecordedAnswers(less, recording).recordings == [less, recording]
    assert RecordedAnswers(less, recording).recorded(asked) == 1
    look = next(step for step in recording.steps if step.kind == "tool")
    tool = ToolCall(scope=look.scope, name=look.name, key=look.key, occurrence=look.occurrence)
    assert RecordedAnswers(less, recording).tool(tool).step == look
    value = recording.volatile[0]
    assert RecordedAnswers(less, recording).volatile(value.scope, value.name, value.occurrence) == value


def test_scope_key_and_occurrence_have_to_agree(recording):
    answers, first = RecordedAnswers(recording), recording.messages[0]
    for changes in ({"scope": "elsewhere"}, {"exact_key": "v1:0"}, {"occurrence": 9}):
        assert answers.message(call(first, **changes)) is None
    assert answers.recorded(call(first, occurrence=9)) == 1
    assert answers.recorded(call(first, exact_key="v1:0")) == 0
    drafts = [message for message in recording.messages if message.scope == "draft"]
    assert answers.recorded(call(drafts[0])) == 2
    assert [answers.message(call(message)).message for message in drafts] == drafts


def test_tool_calls_that_ended_answer_whether_well_or_not(recording):
    look = next(step for step in recording.steps if step.kind == "tool")
    asked = ToolCall(scope=look.scope, name=look.name, key=look.key, occurrence=look.occurrence)
    for status, answers in (("ok", True), ("error", True), ("running", False), ("interrupted", False)):
        steps = tuple(replace(step, status=status) if step is look else step for step in recording.steps)
        found = RecordedAnswers(replace(recording, steps=steps)).tool(asked)
        assert (found is not None) is answers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("param:temperature=0", 0),
        ("param:stop=null", None),
        ('input:ticket="Ada"', "Ada"),
        ("input:ticket=Where is it?", "Where is it?"),
        ('input={"ticket":1}', {"ticket": 1}),
        ("output=[1]", [1]),
        ("prompt:p=1", "1"),
        ("model=4", "4"),
        ("prompt:p=a=b", "a=b"),
    ],
)
def test_values_are_json_where_they_can_be(text, value):
    change = Change.parse(text, at="s")
    assert change.value == value
    assert change.kind == text.partition("=")[0].partition(":")[0]
    assert change.name == text.partition("=")[0].partition(":")[2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("param=1", "say which one"),
        ("model:m=x", "takes no name"),
        ("output:o=1", "takes no name"),
        ("draft", "write KIND"),
    ],
)
def test_a_malformed_change_says_what_is_wrong(text, says):
    with pytest.raises(ChangeError, match=says):
        Change.parse(text, at="s")


def test_a_file_in_another_encoding_is_a_change_error(tmp_path):
    (tmp_path / "new.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ChangeError, match="cannot read"):
        Change.parse(f"prompt:p=@{tmp_path / 'new.txt'}", at="s")


def test_an_arm_is_named_by_sixteen_digits():
    change = Change.parse("model=x", at="s")
    assert change.arm == f"fork:{change.digest}"
    assert len(change.digest) == 16
    assert Change.from_dict({"kind": "output", "at": "s", "value": 1}).name == ""
