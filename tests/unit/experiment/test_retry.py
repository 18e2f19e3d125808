"""A trial that the provider refused is run again: nothing that is known is asked or done again."""

import httpx
import pytest

from harness.dataset import Case
from harness.experiment import EvalOptions, Pace
from harness.experiment._trial import Job, Setting, _outcome
from harness.gateway import wrap
from harness.pipeline import step, tool, workflow
from harness.replay import live_run
from harness.session import Change, NullSink
from harness.testing import Scripted, ScriptedServer


class Toy:
    """one (a call) → middle (a call) → send (a side effect) → last (a call that hangs on it)."""

    def __init__(self, url):
        self.middle = "two"
        self.client = wrap(httpx.Client(base_url=url))

        @tool(determinism="side-effect", stand_in="not sent", version="1")
        def send(text):
            return f"sent {text}"

        @step
        def one(text):
            return self.ask(text)

        @step
        def middle():
            return self.ask(self.middle)

        @workflow("retried")
        def run(text):
            return [one(text), middle(), self.ask(send(text))]

        self.run = run

    def ask(self, text):
        asked = {"model": "m", "messages": [{"role": "user", "content": text}]}
        return self.client.post("/chat/completions", json=asked).raise_for_status().json()["id"]


class Folder:
    """A dataset of one case without recordings of forks."""

    def __init__(self):
        self.prices = {}

    def recording(self, case, *, arm="recorded", trial=0):
        return None


@pytest.fixture
def server():
    with ScriptedServer() as made:
        yield made


@pytest.fixture
def toy(server):
    made = Toy(server.url)
    with made.client:
        yield made


def attempts(server, toy, parent, *replies, **options):
    """The attempt that is refused after these replies, and the one after it."""
    setting = Setting(
        id="e", dataset=Folder(), options=EvalOptions(**options), target=toy.run, evaluators=(), sink=NullSink(),
        code_version="c", baseline={}, baseline_hashes=None, pace=Pace(),
    )  # fmt: skip
    job = Job(Case(id="a", input={"text": "one"}), 0)
    server.script(*replies, Scripted(status=429, body={"error": {"message": "slow"}}))
    before = len(server.requests)
    first = _outcome(job, setting, parent, ())
    second = _outcome(job, setting, parent, (first,))
    asked = [seen.json["messages"][-1]["content"] for seen in server.requests[before:]]
    return first, second, asked


def test_a_retry_in_auto_is_answered_by_the_recording_too(server, toy):
    parent = live_run(toy.run, {"text": "one"}, code_version="c", dry=False).run
    toy.middle = "new"
    first, second, asked = attempts(server, toy, parent, mode="auto")
    assert (first.status, second.status, second.error) == ("error", "ok", None)
    assert asked == ["new", "new"]
    assert [step.state for step in second.run.steps if step.kind == "tool"] == ["dry"]
    assert second.parent is parent
    assert second.counts.provider_calls == 2
    known = [message.usage.total for message in parent.messages]
    assert (second.counts.tokens_saved, second.counts.unknown_spent) == (known[0] + known[2], 0)


def test_a_retried_fork_is_answered_by_the_recording_too(server, toy):
    parent = live_run(toy.run, {"text": "one"}, code_version="c", dry=False).run
    change = Change.parse("input:text=other", at="one")
    first, second, asked = attempts(server, toy, parent, mode="auto", change=change)
    assert (first.status, second.status) == ("error", "ok")
    assert asked == ["other", "other"]
    assert second.counts.tokens_saved == sum(message.usage.total for message in parent.messages[1:])


def test_a_live_retry_takes_nothing_from_the_recording(server, toy):
    parent = live_run(toy.run, {"text": "one"}, code_version="c", dry=False).run
    _, second, asked = attempts(server, toy, parent, "first", mode="live")
    assert (second.status, second.parent) == ("ok", parent)
    assert asked[:3] == ["one", "two", "two"]
    assert len(asked) == 4
    # The first answer was paid for by the refused attempt.
    assert second.counts.tokens_saved == 0
    assert second.counts.provider_calls == 4
