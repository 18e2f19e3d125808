"""``install``: applications record themselves without an edit; tags; runs repeated as they were recorded."""

import asyncio
import gc
import threading

import pytest

pytest.importorskip("burr")

from burr.core import Application, ApplicationBuilder, State, action, application, default, expr
from burr.core.action import streaming_action
from burr.tracking import LocalTrackingClient

import harness
from harness.errors import UsageError
from harness.integrations import burr as goldfork_burr
from harness.replay import content, live_run, replay_run
from harness.session import Mode, RunPlan, planned, recording_of
from harness.testing import MemorySink


@pytest.fixture
def live():
    """A block whose runs are recorded and kept."""
    with planned(RunPlan(mode=Mode.LIVE, sink=MemorySink(), keep=True)) as runs:
        yield runs


@pytest.fixture
def build(world):
    @action(reads=["question"], writes=["draft"])
    def draft(state: State, style: str = "plain") -> State:
        world.ran.append("draft")
        return state.update(draft=world.ask(f"draft {state['question']} {style}"))

    @action(reads=["draft"], writes=["draft", "rounds"])
    def improve(state: State) -> State:
        world.ran.append("improve")
        return state.update(draft=world.ask(f"improve {state['draft']}")).increment(rounds=1)

    @streaming_action(reads=["draft"], writes=["reply"])
    def reply(state: State):
        world.ran.append("reply")
        parts = []
        for part in world.stream(f"reply {state['draft']}"):
            parts.append(part)
            yield {"part": part}, None
        yield {"reply": "".join(parts)}, state.update(reply="".join(parts))

    def build():
        return (
            ApplicationBuilder()
            .with_actions(draft=draft, improve=improve, reply=reply)
            .with_transitions(("draft", "improve"), ("improve", "improve", expr("rounds < 2")), ("improve", "reply"))
            .with_state(question="why", rounds=0)
            .with_identifiers(app_id="app-1", partition_key="user-7")
            .with_entrypoint("draft")
            .build()
        )

    return build


def test_a_call_of_an_application_is_a_run_and_can_be_repeated(world, build, live, fork):
    with goldfork_burr.install(workflow="answers"):
        app = build()
        app.run(halt_before=["reply"], inputs={"style": "short"})
        _, stream = app.stream_result(halt_after=["reply"])
        parts = list(stream)
        final = stream.get()
    assert parts
    assert final[0] == {"reply": app.state["reply"]}
    first, second = live
    assert [(run.record.workflow, run.record.status) for run in live] == [("answers", "ok")] * 2
    assert first.record.metadata == {"session_id": "app-1", "user_id": "user-7"}
    assert [step.name for step in recording_of(first).steps[1:]] == ["draft", "improve", "improve"]
    assert [step.name for step in recording_of(second).steps[1:]] == ["reply"]
    stored = recording_of(second)
    assert content(stored, stored.run.input_hash)["burr"] == {
        "method": "stream_result", "halt_after": ["reply"], "position": "improve", "sequence_id": 2,
        "state": {"question": "why", "rounds": 2, "draft": app.state["draft"]},
    }  # fmt: skip
    calls = world.server.calls
    pipeline = goldfork_burr.target(build)
    for run in live:
        again = replay_run(recording_of(run), target=pipeline)
        assert (again.status, again.diff.first_divergence, again.diff.output_equal) == ("ok", None, True)
        assert world.server.calls == calls
    forked = fork(recording_of(first), target=pipeline, change="input:draft=Else", at="improve#1")
    assert world.ran == ["improve"]
    assert [(step.address, step.state) for step in forked.diff.steps] == [
        ("draft", "reused"), ("improve", "reused"), ("improve#1", "run")
    ]  # fmt: skip


def test_inside_a_workflow_actions_are_its_steps(world, build, fork):
    @harness.workflow("around")
    def around():
        app = build()
        app.run(halt_before=["reply"])
        return app.state["draft"]

    with goldfork_burr.install():
        recorded = live_run(around, {})
        forked = fork(recorded.run, target=around, change="input:draft=Else", at="improve#1")
    assert [step.name for step in recorded.run.steps] == ["around", "draft", "improve", "improve"]
    assert world.ran == ["improve"]
    assert forked.output == world.digest("improve Else")


@pytest.mark.parametrize("method", ["iterate", "stream_iterate"])
def test_a_run_lasts_as_long_as_its_generator(build, live, method):
    with goldfork_burr.install():
        for chosen, stream in (item[:2] for item in getattr(build(), method)(halt_after=["reply"])):
            assert live[0].record.status == "running"
            if chosen.name == "reply" and method == "stream_iterate":
                assert list(stream)
        left = getattr(build(), method)(halt_after=["reply"])
        next(left)
        left.close()
    assert [run.record.status for run in live] == ["ok", "interrupted"]
    assert [run.record.workflow for run in live] == ["burr:draft"] * 2


def test_async_calls_of_one_loop_are_runs_of_their_own(world, live):
    @action(reads=["question"], writes=["reply"])
    async def reply(state: State) -> State:
        return state.update(reply=await world.ask_async(state["question"]))

    def build(question):
        return (
            ApplicationBuilder()
            .with_actions(reply=reply)
            .with_state(question=question)
            .with_entrypoint("reply")
            .build()
        )

    async def both():
        return await asyncio.gather(*(build(name).arun(halt_after=["reply"]) for name in ("one", "two")))

    with goldfork_burr.install():
        results = asyncio.run(both())
    assert [state["reply"] for _, _, state in results] == [world.digest("one"), world.digest("two")]
    assert [len(run.messages) for run in live] == [1, 1]
    assert {run.record.status for run in live} == {"ok"}


def test_burr_is_left_as_it_was(build, live):
    before = {name: getattr(Application, name) for name in ("run", "_step", "stream_result")}
    runner = application._run_single_step_action
    with goldfork_burr.install():
        assert application._run_single_step_action is not runner
        with goldfork_burr.install():
            pass
        assert application._run_single_step_action is not runner
    assert application._run_single_step_action is runner
    assert {name: getattr(Application, name) for name in before} == before
    build().run(halt_before=["reply"])
    assert live[0].record.workflow == "implicit"
    assert len(live) == 1


def test_an_unread_stream_leaves_no_finished_step(build, live):
    with goldfork_burr.install():
        app = build()
        app.run(halt_before=["reply"])
        _, stream = app.stream_result(halt_after=["reply"])
        for _ in stream:
            break
        del stream
        gc.collect()
    assert [step.status for step in live[1].steps if step.name == "reply"] == ["interrupted"]


def tagged(world, *tags, writes="found"):
    @action(reads=["query"], writes=[writes], tags=list(tags))
    def search(state: State) -> State:
        world.ran.append("search")
        return state.update(**{writes: len(world.ran)})

    @action(reads=[], writes=["query"])
    def ask(state: State, query: str) -> State:
        return state.update(query=query)

    def build():
        return (
            ApplicationBuilder()
            .with_actions(ask=ask, search=search)
            .with_transitions(("ask", "search", default))
            .with_state(query="")
            .with_entrypoint("ask")
            .build()
        )

    return build


def test_tags_make_an_action_a_tool(world, fork):
    pipeline = goldfork_burr.target(tagged(world, "determinism:time-bound", "ttl:300", "version:7", "other"))
    recorded = live_run(pipeline, {"query": "tea"})
    step = recorded.run.steps[-1]
    assert (step.kind, step.determinism, step.ttl, step.version) == ("tool", "time-bound", 300.0, "7")
    again = replay_run(recorded.run, target=pipeline)
    assert (again.counts.tools_answered, again.output, world.ran) == (1, recorded.output, ["search"])
    elsewhere = replay_run(recorded.run, target=goldfork_burr.target(tagged(world, "determinism:time-bound")))
    assert elsewhere.status == "missing"
    assert "its version is" in elsewhere.misses[0]
    forked = fork(recorded.run, target=pipeline, change="input:query=coffee", at="ask")
    assert (forked.counts.tools_called, forked.output) == (1, {"query": "coffee", "found": 1})


@pytest.mark.parametrize("tag", ["determinism:sometimes", "ttl:soon"])
def test_a_tag_that_means_nothing_is_refused(world, tag):
    pipeline = goldfork_burr.target(tagged(world, "determinism:deterministic", tag))
    outcome = live_run(pipeline, {"query": "tea"})
    assert outcome.error.startswith(f"{UsageError.__name__}: action 'search' has the tag {tag}; write")


def test_two_forks_at_once_keep_apart(world, fork):
    pipeline = goldfork_burr.target(tagged(world, "determinism:deterministic"))
    recorded = live_run(pipeline, {"query": "tea"})
    outcomes = {}

    def changed(query):
        outcomes[query] = fork(recorded.run, target=pipeline, change=f"input:query={query}", at="ask")

    threads = [threading.Thread(target=changed, args=(name,)) for name in ("milk", "juice", "water")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {query: outcome.output["query"] for query, outcome in outcomes.items()} == {
        "milk": "milk", "juice": "juice", "water": "water"
    }  # fmt: skip
    assert recorded.output["query"] == "tea"


def test_that_a_side_effect_is_about_to_happen_is_stored_before_it_happens(world):
    sink = MemorySink()
    seen = []

    @action(reads=[], writes=["sent"], tags=["determinism:side-effect"])
    def send(state: State) -> State:
        seen.extend((record.name, record.status) for record in sink.log if getattr(record, "kind", "") == "tool")
        return state.update(sent=True)

    def build():
        return ApplicationBuilder().with_actions(send=send).with_entrypoint("send").build()

    assert live_run(goldfork_burr.target(build), {}, sink=sink, dry=False).error is None
    assert seen == [("send", "running")]
    seen.clear()
    full = MemorySink(fail=OSError("disk full"))
    outcome = live_run(goldfork_burr.target(build), {}, sink=full, dry=False)
    assert outcome.error.startswith("StoreError: side effect 'send' is not executed")
    assert seen == []


def test_a_tracker_names_the_runs_and_is_left_out_of_replays(world, build, live, tmp_path):
    def tracked():
        graph = build().graph
        made = ApplicationBuilder().with_actions(*graph.actions).with_transitions(("draft", "improve"))
        tracker = LocalTrackingClient(project="support", storage_dir=str(tmp_path))
        return made.with_state(question="why", rounds=0).with_entrypoint("draft").with_tracker(tracker).build()

    with goldfork_burr.install():
        tracked().run(halt_after=["improve"])
    assert live[0].record.workflow == "support"
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    again = replay_run(recording_of(live[0]), target=goldfork_burr.target(tracked))
    assert (again.status, again.diff.first_divergence) == ("ok", None)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before != []
