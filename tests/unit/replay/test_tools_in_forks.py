"""Tools in forks: results past their ttl, tools called anew, effects kept dry or executed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from harness.errors import ChangeError, UsageError
from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, control_run, fork_run, live_run, plan_fork, refresh_change, replay_run
from harness.session import Change
from harness.store import open_store
from harness.testing import MemorySink

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
EXPIRED = ReplayOptions(expired="refresh")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Watch:
    """A clock that is set by hand; it is no part of what a step hangs on."""

    __goldfork_opaque__ = True

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def now(self):
        return BEGIN + timedelta(seconds=self.seconds)

    def monotonic(self):
        return self.seconds


class Desk:
    """gather (search, then rules) → answer (search again) → note, a side effect."""

    __goldfork_opaque__ = True

    def __init__(self):
        self.log = []
        self.run = self._make()

    def _make(self):
        @tool(determinism="time-bound", ttl=60, version="1")
        def search(query):
            self.log.append(f"search {query}")
            return f"{query}:{len(self.log)}"

        @tool(determinism="deterministic", version="1")
        def rules(topic):
            self.log.append(f"rules {topic}")
            return f"rule {len(self.log)}"

        @tool(determinism="side-effect", version="1", stand_in=lambda text: f"would send {text}")
        def note(text):
            self.log.append(f"note {text}")
            return f"noted {len(self.log)}"

        @step
        def gather(ticket):
            self.log.append("gather")
            return [search(ticket), rules("parcel")]

        @step
        def answer(ticket, facts):
            self.log.append("answer")
            return f"{ticket}|{facts[0]}|{search('faq')}"

        @step
        def send(text):
            self.log.append("send")
            return note(text)

        @step
        def calm(text):
            self.log.append("calm")
            return text.upper()

        @workflow("desk")
        def run(ticket):
            mood = calm("quiet")
            return [mood, send(answer(ticket, gather(ticket)))]

        return run


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def parent(desk):
    recording = live_run(desk.run, {"ticket": "lost"}, dry=False, code_version=CODE, clock=Watch()).run
    desk.log.clear()
    return recording


def fork(desk, parent, *, change=None, refresh=(), at="", mode="auto", arm=None, sink=None, **options):
    change = change or refresh_change(refresh, at)
    options = replace(OPTIONS, **options)
    outcome = fork_run(parent, target=desk.run, change=change, at=at, mode=mode, arm=arm, sink=sink, options=options)
    assert outcome.status == "ok", (outcome.error, outcome.misses)
    return outcome


def states(outcome):
    return {d.address: d.state for d in outcome.diff.steps}


def called(log):
    return [one for one in log if one.startswith(("search", "rules", "note"))]


def test_expired_results_are_kept_and_listed_by_default(desk, parent):
    outcome = fork(desk, parent, change="output=quiet", at="calm", clock=Watch(3600))
    assert called(desk.log) == []
    assert outcome.expired == (
        {"tool": "search", "step": "gather/search", "age_s": 3600.0, "ttl_s": 60.0, "action": "kept"},
        {"tool": "search", "step": "answer/search", "age_s": 3600.0, "ttl_s": 60.0, "action": "kept"},
    )
    assert states(outcome)["gather"] == "reused"


def test_a_result_within_its_ttl_is_not_expired(desk, parent):
    outcome = fork(desk, parent, change="output=quiet", at="calm", clock=Watch(59), expired="refresh")
    assert (outcome.expired, called(desk.log)) == ((), [])
    assert fork(desk, parent, change="output=quiet", at="calm", clock=Watch(60)).expired != ()


def test_refresh_calls_expired_tools_anew_and_says_so(desk, parent):
    outcome = fork(desk, parent, change="output=quiet", at="calm", clock=Watch(90), expired="refresh")
    assert called(desk.log) == ["search lost", "search faq"]
    assert {(one["step"], one["action"], one["age_s"]) for one in outcome.expired} == {
        ("gather/search", "refreshed", 90.0),
        ("answer/search", "refreshed", 90.0),
    }
    words = states(outcome)
    assert [words[one] for one in ("gather", "gather/search", "gather/rules", "answer/search")] == [
        "run",
        "called",
        "answered",
        "called",
    ]
    made = [one for one in outcome.run.steps if one.name == "search"]
    assert all(one.reused_from is None for one in made)


def test_a_refreshed_result_is_new_in_the_forks_own_recording(desk, parent):
    sink = MemorySink()
    change = Change.parse("output=quiet", at="calm")
    first = fork(desk, parent, change=change, clock=Watch(90), expired="refresh", sink=sink)
    desk.log.clear()
    again = fork(desk, parent, change=change, clock=Watch(95), expired="refresh", arm=sink.recording())
    assert called(desk.log) == []
    assert again.output == first.output


def test_the_age_is_that_of_the_call_that_made_the_result(desk, tmp_path):
    with open_store(f"sqlite:///{tmp_path / 'g.db'}", durability="normal") as store:
        parent = live_run(desk.run, {"ticket": "lost"}, dry=False, code_version=CODE, clock=Watch(), sink=store).run
        child = fork(desk, parent, change="output=quiet", at="calm", clock=Watch(50), sink=store)
        stored = store.recording(child.run.run.id)
        desk.log.clear()
        outcome = fork(desk, stored, change="output=loud", at="calm", clock=Watch(70), sink=store)
        assert {one["age_s"] for one in outcome.expired} == {70.0}


def test_refreshing_a_tool_is_a_change_of_its_own(desk, parent):
    outcome = fork(desk, parent, refresh=("search",), at="gather", clock=Watch(5))
    assert called(desk.log) == ["search lost"]
    assert outcome.change == Change(kind="refresh", at="gather", value=["search"])
    assert outcome.run.run.change == {"kind": "refresh", "at": "gather", "name": "", "value": ["search"]}
    words = states(outcome)
    assert (words["gather/search"], words["gather/rules"], words["answer/search"]) == ("called", "answered", "answered")
    assert words["calm"] == "reused"
    assert outcome.diff.first_divergence == "gather"


def test_a_refresh_without_a_step_is_of_the_whole_run(desk, parent):
    fork(desk, parent, refresh=("search", "rules"), clock=Watch(5))
    assert called(desk.log) == ["search lost", "rules parcel", "search faq"]


def test_a_refresh_that_gives_the_same_stops_there(desk, parent):
    @tool(determinism="deterministic", version="1")
    def rules(topic):
        desk.log.append("rules anew")
        return topic

    @step
    def gather(ticket):
        return rules(ticket)

    @step
    def after(fact):
        desk.log.append("after")
        return fact

    run = workflow("same")(lambda ticket: after(gather(ticket)))
    same = live_run(run, {"ticket": "x"}, code_version=CODE).run
    desk.log.clear()
    outcome = fork_run(same, target=run, change=refresh_change(["rules"], "gather"), options=OPTIONS)
    assert desk.log.count("rules anew") == 1
    assert (states(outcome)["gather"], states(outcome)["after"]) == ("run", "reused")
    assert outcome.diff.output_equal
    assert outcome.diff.first_divergence is None


def test_a_plan_says_what_a_refresh_calls(desk, parent):
    plan = plan_fork(
        parent, Change(kind="refresh", at="answer", value=["search"]), options=ReplayOptions(code_version=CODE)
    )
    words = {one.address: one.word for one in plan.steps}
    assert (words["answer"], words["answer/search"], words["gather"]) == ("run", "called", "reused")
    assert desk.log == []


def test_what_an_earlier_fork_kept_or_made_up_is_called_so_when_it_answers(desk, parent):
    sink = MemorySink()
    change = Change.parse("output=Hello", at="answer")
    first = fork(desk, parent, change=change, sink=sink, clock=Watch(90))
    again = fork(desk, parent, change=change, arm=sink.recording(), clock=Watch(95))
    assert [one["answered_by"] for one in first.blocked] == ["stand-in"]
    assert again.blocked == first.blocked
    assert [one["action"] for one in (*first.expired, *again.expired)] == ["kept", "kept"]


def test_what_cannot_be_refreshed_is_named(desk, parent):
    with pytest.raises(ChangeError, match="calls no tool 'serch' at or below 'gather'; it calls: search, rules"):
        fork(desk, parent, refresh=("serch",), at="gather")
    with pytest.raises(ChangeError, match="'note' is a side effect"):
        fork(desk, parent, refresh=("note",), at="send")


def test_a_refresh_in_replay_mode_is_answered_by_its_arm_or_missing(desk, parent):
    sink = MemorySink()
    first = fork(desk, parent, refresh=("search",), at="gather", sink=sink)
    desk.log.clear()
    again = fork(desk, parent, refresh=("search",), at="gather", mode="replay", arm=sink.recording())
    assert (again.output, called(desk.log)) == (first.output, [])
    change = refresh_change(["search"], "gather")
    alone = fork_run(parent, target=desk.run, change=change, mode="replay", options=OPTIONS)
    assert (alone.status, called(desk.log)) == ("missing", [])


def test_every_side_effect_kept_dry_is_logged_with_what_answered(desk, parent):
    replayed = replay_run(parent, target=desk.run, options=OPTIONS)
    text = replayed.blocked[0]["arguments"]["text"]
    assert replayed.blocked == (
        {"tool": "note", "step": "send/note", "arguments": {"text": text}, "answered_by": "recording"},
    )
    # In a body that is skipped nothing is sent either.
    reused = fork(desk, parent, change="output=quiet", at="calm")
    assert states(reused)["send"] == "reused"
    assert reused.blocked == replayed.blocked
    changed = fork(desk, parent, change="output=Hello", at="answer")
    assert changed.blocked == (
        {"tool": "note", "step": "send/note", "arguments": {"text": "Hello"}, "answered_by": "stand-in"},
    )
    assert called(desk.log) == []


def test_a_blocked_effect_is_logged_too(desk):
    @tool(determinism="side-effect", version="1")
    def wire(amount):
        desk.log.append("wire")
        return "done"

    @step
    def price(text):
        return len(text)

    run = workflow("pay")(lambda text: wire(price(text)))
    parent = live_run(run, {"text": "abc"}, dry=False, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="output=7", at="price", options=OPTIONS)
    assert outcome.blocked == ({"tool": "wire", "step": "wire", "arguments": {"amount": 7}, "answered_by": "nothing"},)
    assert outcome.status == "missing"
    assert "'wire' is not executed here" in outcome.misses[0]
    assert desk.log == ["wire"]


def test_allowed_side_effects_are_executed_once_and_warned_of(desk, parent):
    sink = MemorySink()
    options = {"change": "output=Hello", "at": "answer", "allow_side_effects": True, "sink": sink}
    with pytest.warns(RuntimeWarning, match=f"executed in the fork of run {parent.run.id}, for real"):
        outcome = fork(desk, parent, **options)
    assert called(desk.log) == ["note Hello"]
    assert outcome.blocked == ()
    assert states(outcome)["send/note"] == "called"
    assert outcome.counts.tools_called == 1
    desk.log.clear()
    with pytest.warns(RuntimeWarning):
        again = fork(desk, parent, **{**options, "arm": sink.recording()})
    # A fork that is taken up again does not send twice.
    assert (called(desk.log), again.output) == ([], outcome.output)


def test_a_dry_earlier_attempt_does_not_stand_for_the_effect(desk, parent):
    sink = MemorySink()
    fork(desk, parent, change="output=Hello", at="answer", sink=sink)
    with pytest.warns(RuntimeWarning):
        fork(desk, parent, change="output=Hello", at="answer", allow_side_effects=True, arm=sink.recording())
    assert called(desk.log) == ["note Hello"]


def test_no_side_effect_is_executed_in_a_replay(desk, parent):
    with pytest.raises(UsageError, match="mode replay executes no side effects"):
        fork(desk, parent, change="output=Hello", at="answer", allow_side_effects=True, mode="replay")
    change = Change.parse("output=Hello", at="answer")
    for options, word in ((ReplayOptions(allow_side_effects=True), "side_effects"), (EXPIRED, "expired")):
        with pytest.raises(UsageError, match=f"a replay executes no tool .* leave .*{word}"):
            replay_run(parent, target=desk.run, options=options)
        with pytest.raises(UsageError, match=f"a control fork executes no tool .* leave .*{word}"):
            control_run(parent, target=desk.run, change=change, options=options)
    assert desk.log == []


def test_an_undeclared_tool_is_refused_by_name_and_step():
    @tool
    def anything(x):
        return x

    @step
    def inner(x):
        return anything(x)

    @step
    def outer(x):
        return inner(x)

    run = workflow("w")(lambda x: outer(x))
    parent = live_run(run, {"x": 1}, dry=False).run
    outcome = replay_run(replace(parent), target=run)
    assert outcome.status == "missing"
    assert "tool 'anything', called in step 'outer/inner', declares no determinism" in outcome.error
    root = workflow("r")(lambda x: anything(x))
    assert "called in the workflow itself" in replay_run(live_run(root, {"x": 1}, dry=False).run, target=root).error
