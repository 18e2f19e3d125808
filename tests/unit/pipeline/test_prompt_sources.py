"""Prompts whose text comes from a source that is installed as an entry point: fetched once, frozen, recorded."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import types
import warnings
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from harness.errors import ChangeError, PromptError, UsageError
from harness.pipeline import carry, prompt, step, workflow
from harness.replay import ReplayOptions, fork_run, live_run, replay_run
from harness.session import Change, FetchedPrompt, Mode, NullSink, RecordedAnswers, RunPlan, planned, recording_of
from harness.testing import MemorySink

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
_numbers = itertools.count()


class Shelf:
    """An installed prompt source: what it holds, and what it was asked for."""

    def __init__(self, scheme):
        self.scheme = scheme
        self.text = "v1 {x}"
        self.version = 1
        self.down = False
        self.asked = []

    def fetch(self, ref):
        self.asked.append(ref)
        if self.down:
            raise PromptError("the shelf is closed")
        return FetchedPrompt(text=self.text, name=ref.partition("@")[0], version=self.version, label="production")

    def publish(self, text):
        self.text, self.version = text, self.version + 1

    @property
    def ref(self):
        return f"{self.scheme}:letters/draft@production"


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A source under a scheme of its own, so that nothing a process keeps is shared between tests."""
    scheme = f"shelf{next(_numbers)}"
    made = Shelf(scheme)
    module = types.ModuleType(f"prompts_of_{scheme}")
    module.Shelf = lambda: made
    monkeypatch.setitem(sys.modules, module.__name__, module)
    folder = tmp_path / f"{scheme}-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {scheme}\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[goldfork.prompt_sources]\n{scheme} = {module.__name__}:Shelf\n")
    monkeypatch.syspath_prepend(tmp_path)
    return made


class Seconds:
    """A clock that is set by hand, or goes on by so many seconds each time it is read."""

    def __init__(self, each=0.0):
        self.passed, self.each = 0.0, each

    def now(self):
        return datetime(2026, 11, 30, tzinfo=UTC)

    def monotonic(self):
        self.passed += self.each
        return self.passed


def writer(text):
    @step
    def draft(x):
        return text.format(x=x)

    @workflow("letters")
    def run(x):
        return draft(x)

    return run


def recorded(recording, name="draft"):
    return [json.loads(v.value) for v in recording.volatile if v.name == f"prompt-source:{name}"]


def test_the_source_gives_the_text_and_the_run_records_where_it_came_from(shelf):
    outcome = live_run(writer(prompt("draft", source=shelf.ref)), {"x": 1})
    assert outcome.output == "v1 1"
    assert recorded(outcome.run) == [
        {
            "text": "v1 {x}",
            "name": "letters/draft",
            "version": 1,
            "label": "production",
            "source": shelf.scheme,
        }
    ]
    (row,) = (v for v in outcome.run.volatile if v.name == "prompt-source:draft")
    assert (row.scope, row.occurrence) == ("", 0)


def test_messages_stay_linked_by_name_and_content_version(shelf):
    """The link is the one that a written prompt of the same text has."""
    versions = [
        next(v.value for v in live_run(writer(made), {"x": 1}).run.volatile if v.name == "prompt:draft")
        for made in (prompt("draft", source=shelf.ref), prompt("draft", "v1 {x}"))
    ]
    assert versions[0] == versions[1]


def test_declaring_and_showing_a_prompt_asks_nobody(shelf):
    made = prompt("draft", source=shelf.ref)
    assert shelf.ref in repr(made)
    assert shelf.ref in made.declared
    assert shelf.asked == []


def test_one_run_never_sees_two_texts(shelf):
    text, clock = prompt("draft", source=shelf.ref), Seconds()

    @workflow("letters")
    def run(x):
        first = text.format(x=x)
        shelf.publish("v2 {x}")
        clock.passed += 3600
        return [first, text.format(x=x), text.text]

    with planned(RunPlan(mode=Mode.LIVE, sink=NullSink(), clock=clock, keep=True)) as runs:
        assert run(1) == ["v1 1", "v1 1", "v1 {x}"]
        assert run(1)[0] == "v2 1"
    assert [[kept["version"] for kept in recorded(recording_of(one))] for one in runs] == [[1], [2]]


def test_threads_of_one_run_agree_on_the_text(shelf, monkeypatch):
    """All ask at once, and the source tells each of them another text."""
    text, clock = prompt("draft", source=shelf.ref), Seconds(each=100)
    everybody = threading.Barrier(8)
    fetch = shelf.fetch

    def slowly(ref):
        if not shelf.asked:
            time.sleep(0.3)  # until the others have seen that the run has no text yet
        shelf.publish(f"v{shelf.version + 1} {{x}}")
        return fetch(ref)

    monkeypatch.setattr(shelf, "fetch", slowly)

    def use(found):
        everybody.wait()
        found.append(text.format(x=0))

    @workflow("letters")
    def run():
        found = []
        threads = [threading.Thread(target=carry(use), args=(found,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    with planned(RunPlan(mode=Mode.LIVE, sink=NullSink(), clock=clock, keep=True)) as runs:
        found = run()
    assert len(shelf.asked) > 1
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(recorded(recording_of(runs[0]))) == 1


def test_a_process_asks_again_only_after_sixty_seconds(shelf):
    run, clock = writer(prompt("draft", source=shelf.ref)), Seconds()
    plan = RunPlan(mode=Mode.LIVE, sink=NullSink(), clock=clock)
    with planned(plan):
        run(1)
        shelf.publish("v2 {x}")
        clock.passed = 59.9
        assert run(1) == "v1 1"
        clock.passed = 60.0
        assert run(1) == "v2 1"
    assert shelf.asked == ["letters/draft@production"] * 2


def test_replay_answers_from_the_recording_and_asks_nobody(shelf):
    run = writer(prompt("draft", source=shelf.ref))
    parent = live_run(run, {"x": 1}).run
    shelf.publish("v2 {x}")
    shelf.down = True
    shelf.asked.clear()
    again = replay_run(parent, target=run)
    assert again.output == "v1 1"
    assert again.diff.output_equal
    assert shelf.asked == []
    assert recorded(again.run) == recorded(parent)


def test_a_fork_answers_from_the_recording_and_is_a_recording_itself(shelf):
    """The step that used the prompt is skipped; a replay of the fork runs it and needs its text."""
    text = prompt("draft", source=shelf.ref)

    @step
    def draft(x):
        return text.format(x=x)

    @step
    def sign(letter, name):
        return f"{letter}, {name}"

    @workflow("letters")
    def run(x):
        return sign(draft(x), "Ada")

    parent = live_run(run, {"x": 1}, code_version=CODE).run
    shelf.down = True
    shelf.asked.clear()
    fork = fork_run(parent, target=run, change="input:name=Bea", at="sign", options=OPTIONS)
    assert fork.counts.steps_reused == 1
    assert recorded(fork.run) == recorded(parent)
    assert replay_run(fork.run, target=run).output == "v1 1, Ada"
    assert shelf.asked == []


def test_a_replay_without_a_recorded_text_is_a_miss(shelf):
    parent = live_run(writer(prompt("draft", "written {x}")), {"x": 1}).run
    outcome = replay_run(parent, target=writer(prompt("draft", source=shelf.ref)))
    assert outcome.misses == (
        f"the recording holds no text of prompt 'draft', which comes from {shelf.ref!r}; "
        "record the run again, or write a text beside the source",
    )
    assert shelf.asked == []


@pytest.mark.parametrize("mode", ["replay", "auto"])
def test_a_recording_from_before_the_source_keeps_its_written_text(shelf, mode):
    """Today's text in the source would be a second change that nobody declared."""
    parent = live_run(writer(prompt("draft", "written {x}")), {"x": 1}).run
    outcome = replay_run(parent, target=writer(prompt("draft", "written {x}", source=shelf.ref)), mode=mode)
    assert outcome.diff.output_equal
    assert shelf.asked == []


def test_auto_fetches_what_was_never_recorded(shelf):
    parent = live_run(writer(prompt("other", "written {x}")), {"x": 1}).run
    outcome = replay_run(parent, target=writer(prompt("draft", source=shelf.ref)), mode="auto")
    assert outcome.output == "v1 1"
    assert recorded(outcome.run)[0]["source"] == shelf.scheme


def test_code_outside_any_workflow_replays_without_asking(shelf, tmp_path):
    text = prompt("draft", source=shelf.ref)
    with planned(RunPlan(mode=Mode.LIVE, sink=NullSink(), keep=True)) as runs:
        assert text.format(x=1) == "v1 1"
    made = recording_of(runs[0])
    assert recorded(made)[0]["version"] == 1
    shelf.asked.clear()
    shelf.publish("v2 {x}")
    with planned(RunPlan(mode=Mode.REPLAY, sink=NullSink(), resolver=RecordedAnswers(made))):
        assert text.format(x=1) == "v1 1"
    assert shelf.asked == []
    # A process of its own: this one may have an implicit run already.
    alone = subprocess.run(
        [sys.executable, "-c", "import harness; harness.prompt('draft', source='langfuse:draft').format(x=1)"],
        env={**os.environ, "GOLDFORK_HOME": str(tmp_path), "GOLDFORK_MODE": "replay"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "there is no recording named 'implicit' to replay" in alone.stderr


def test_a_source_that_is_down_stops_the_run_before_a_model_is_called(shelf):
    shelf.down = True
    with pytest.raises(PromptError, match="prompt 'draft' has no text: the shelf is closed"):
        prompt("draft", source=shelf.ref).format(x=1)
    outcome = live_run(writer(prompt("draft", source=shelf.ref)), {"x": 1})
    assert outcome.error is not None
    assert "the shelf is closed" in outcome.error
    # The outage costs one attempt, not one for each use.
    assert len(shelf.asked) == 1


def test_the_written_text_stands_in_and_is_recorded_as_such(shelf):
    shelf.down = True
    name = f"draft-{shelf.scheme}"
    run = writer(prompt(name, "written {x}", source=shelf.ref))
    with pytest.warns(RuntimeWarning, match="falls back to the text written in the code.*the shelf is closed"):
        outcome = live_run(run, {"x": 1})
    assert outcome.output == "written 1"
    (kept,) = recorded(outcome.run, name)
    assert (kept["source"], kept["text"], kept["name"], kept["label"]) == ("fallback", "written {x}", name, "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns once in a process
        assert live_run(run, {"x": 2}).output == "written 2"
    shelf.down = False
    assert replay_run(outcome.run, target=run).output == "written 1"


def test_an_outage_does_not_change_what_an_agent_in_production_says(shelf):
    run, clock = writer(prompt("draft", "written {x}", source=shelf.ref)), Seconds()
    with planned(RunPlan(mode=Mode.LIVE, sink=NullSink(), clock=clock, keep=True)) as runs:
        assert run(1) == "v1 1"
        shelf.down = True
        clock.passed = 60
        with pytest.warns(RuntimeWarning, match=r"stays as it was fetched before \(version 1\): the shelf is closed"):
            assert run(1) == "v1 1"
        assert run(1) == "v1 1"
        assert len(shelf.asked) == 2
        shelf.down = False
        shelf.publish("v2 {x}")
        clock.passed = 120
        assert run(1) == "v2 1"
    assert [recorded(recording_of(one))[0]["version"] for one in runs] == [1, 1, 1, 2]


def test_a_slow_source_of_one_prompt_keeps_nobody_from_another(shelf, monkeypatch):
    prompt("other", source=f"{shelf.scheme}:other").format(x=1)
    waiting, done = threading.Event(), threading.Event()
    fetch = shelf.fetch

    def slowly(ref):
        waiting.set()
        assert done.wait(10)
        return fetch(ref)

    monkeypatch.setattr(shelf, "fetch", slowly)
    thread = threading.Thread(target=lambda: prompt("draft", source=shelf.ref).format(x=1))
    thread.start()
    try:
        assert waiting.wait(10)
        assert prompt("other", source=f"{shelf.scheme}:other").format(x=1) == "v1 1"
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{a.b}", "a place is a plain name"),
        ("{", "is not a template"),
        ("half \ud800 a pair", "has a text that cannot be recorded"),
    ],
)
def test_a_fetched_text_that_is_no_template_is_refused(shelf, text, words):
    shelf.text = text
    with pytest.raises(PromptError, match=words):
        prompt("draft", source=shelf.ref).format(x=1)


def test_a_fetched_text_that_asks_for_a_field_nobody_gives_is_named(shelf):
    shelf.text = "{tone} {x}"
    with pytest.raises(PromptError, match=r"prompt 'draft' names \{tone\}, which is not given; given: x"):
        prompt("draft", source=shelf.ref).format(x=1)


def test_an_unknown_scheme_is_an_error_that_names_the_known_ones(shelf):
    with pytest.raises(PromptError, match=f"names no installed source.*{shelf.scheme}"):
        prompt("draft", source="nowhere:draft").format()


@pytest.mark.parametrize("source", ["draft", "langfuse:", "langfuse:two words", ":draft"])
def test_a_source_is_a_scheme_and_a_name(source):
    with pytest.raises(UsageError, match="write SCHEME:NAME"):
        prompt("draft", source=source)


def test_a_prompt_needs_a_text_or_a_source():
    with pytest.raises(UsageError, match="neither a text nor a source"):
        prompt("draft")


@pytest.mark.parametrize("value", ["not json", "[]", '{"name": "x"}', '{"text": 7}'])
def test_a_recording_edited_by_hand_is_refused_and_never_guessed(shelf, value):
    run = writer(prompt("draft", source=shelf.ref))
    parent = live_run(run, {"x": 1}).run
    broken = tuple(replace(v, value=value) if v.name == "prompt-source:draft" else v for v in parent.volatile)
    outcome = replay_run(replace(parent, volatile=broken), target=run)
    assert "prompt source that cannot be read" in outcome.error


def test_the_sources_text_takes_no_part_in_request_keys(shelf):
    """Declared volatile values become places in a request's key; a prompt must not, or its change would be unseen."""
    from harness.gateway import declared

    parent = live_run(writer(prompt("draft", source=shelf.ref)), {"x": 1}).run
    assert recorded(parent)
    assert declared(parent.volatile, "draft") == []


class TestChange:
    def test_a_prompt_set_from_a_source_is_its_text_with_its_origin(self, shelf):
        change = Change.parse(f"prompt:draft={shelf.ref}", at="draft")
        assert change.value == "v1 {x}"
        assert change.origin == {
            "source": shelf.scheme,
            "name": "letters/draft",
            "version": 1,
            "label": "production",
        }
        assert Change.from_dict(json.loads(json.dumps(change.as_dict()))).origin == change.origin

    def test_the_arm_is_found_by_text_wherever_it_came_from(self, shelf):
        fetched = Change.parse(f"prompt:draft={shelf.ref}", at="draft")
        typed = Change.parse("prompt:draft=v1 {x}", at="draft")
        assert fetched.digest == typed.digest
        assert fetched == typed
        assert "origin" not in typed.as_dict()
        shelf.publish("v2 {x}")
        assert typed.digest != Change(kind="prompt", at="draft", name="draft", value="v2 {x}").digest

    def test_text_that_only_looks_like_a_source_is_text(self, shelf):
        for text in ("Note:answer", "note:answer", f"{shelf.ref} and more"):
            assert Change.parse(f"prompt:draft={text}", at="draft").value == text
        assert Change.parse(f"model={shelf.ref}", at="draft").value == shelf.ref
        assert shelf.asked == []

    def test_a_mistyped_scheme_does_not_become_the_prompt(self, shelf):
        with pytest.raises(ChangeError, match=f"no prompt source 'langfuze', installed: .*{shelf.scheme}"):
            Change.parse("prompt:draft=langfuze:draft@production", at="draft")

    def test_a_source_that_is_down_stops_the_fork_before_it_starts(self, shelf):
        run = writer(prompt("draft", source=shelf.ref))
        parent = live_run(run, {"x": 1}).run
        shelf.down = True
        with pytest.raises(PromptError, match="the shelf is closed"):
            fork_run(parent, target=run, change=f"prompt:draft={shelf.scheme}:other", at="draft")

    def test_a_fork_from_a_source_records_the_version_it_ran_with(self, shelf):
        """Of a prompt that is written in the code, too: the mirror links the messages to the source's version."""
        run = writer(prompt("draft", "written {x}"))
        parent = live_run(run, {"x": 1}).run
        sink = MemorySink()
        fork = fork_run(parent, target=run, change=f"prompt:draft={shelf.ref}", at="draft", sink=sink)
        assert fork.output == "v1 1"
        (kept,) = recorded(fork.run)
        assert (kept["source"], kept["version"], kept["text"]) == (shelf.scheme, 1, "v1 {x}")
        assert sink.runs[0].change["origin"]["version"] == 1

    def test_a_fork_of_a_sourced_prompt_replays_with_the_text_it_had(self, shelf):
        run = writer(prompt("draft", source=shelf.ref))
        parent = live_run(run, {"x": 1}).run
        fork = fork_run(parent, target=run, change="prompt:draft=typed {x}", at="draft")
        assert recorded(fork.run)[0]["source"] == "change"
        shelf.down = True
        assert replay_run(fork.run, target=run).output == "typed 1"

    def test_a_fetched_text_that_does_not_fit_the_step_is_the_changes_fault(self, shelf):
        run = writer(prompt("draft", "written {x}"))
        parent = live_run(run, {"x": 1}).run
        shelf.text = "{nobody}"
        outcome = fork_run(parent, target=run, change=f"prompt:draft={shelf.ref}", at="draft")
        assert outcome.error.startswith(ChangeError.__name__)


@pytest.mark.parametrize("error", [KeyError("port"), ValueError("Port could not be cast"), OSError("no route")])
def test_whatever_a_source_raises_the_written_text_stands_in(shelf, error):
    def fetch(ref):
        raise error

    shelf.fetch = fetch
    with pytest.warns(RuntimeWarning, match="falls back to the text written in the code"):
        outcome = live_run(writer(prompt(shelf.scheme, "written {x}", source=shelf.ref)), {"x": 1})
    assert outcome.output == "written 1"
