"""Persisted states: forks from any sequence with one value changed, and replays that leave the database alone."""

import sqlite3

import pytest

pytest.importorskip("burr")

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister

from harness.errors import ChangeError, UsageError
from harness.integrations import burr as goldfork_burr
from harness.replay import live_run, replay_run


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "states.db")


@pytest.fixture
def persister(path):
    with SQLitePersister.from_values(path, connect_kwargs={"check_same_thread": False}) as persister:
        persister.initialize()
        yield persister


@pytest.fixture
def builder(world):
    def step(name, reads, write):
        @action(reads=reads, writes=[write])
        def body(state: State) -> State:
            world.ran.append(name)
            return state.update(**{write: world.ask(f"{name} {[state[key] for key in reads]}")})

        return body

    def builder():
        return (
            ApplicationBuilder()
            .with_actions(
                plan=step("plan", ["topic"], "plan"),
                write=step("write", ["plan", "tone"], "draft"),
                check=step("check", ["draft"], "verdict"),
            )
            .with_transitions(("plan", "write"), ("write", "check"))
        )

    return builder


def rows(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(
            "SELECT app_id, sequence_id, position, state FROM burr_state ORDER BY 1, 2"
        ).fetchall()
    finally:
        connection.close()


def first(builder, persister, app_id="app-1"):
    made = builder().with_state(topic="tea", tone="dry").with_entrypoint("plan").with_state_persister(persister)
    return made.with_identifiers(app_id=app_id).build()


def test_a_fork_from_any_sequence_runs_what_comes_after_it_with_one_value_changed(world, builder, persister, path):
    first(builder, persister).run(halt_after=["check"])
    original = rows(path)
    order = ["plan", "write", "check"]
    for sequence, value in enumerate(("plan", "draft")):
        world.ran.clear()
        app = goldfork_burr.fork_from(
            builder(), persister, app_id="app-1", sequence_id=sequence, entrypoint="plan", override={value: "else"}
        ).build()
        _, _, state = app.run(halt_after=["check"])
        assert world.ran == order[sequence + 1 :]
        assert state[value] == "else" if value == "draft" else state["draft"] == world.digest("write ['else', 'dry']")
        assert app.parent_pointer.sequence_id == sequence
    assert rows(path) == original


def test_the_same_change_made_both_ways_gives_the_same(world, builder, persister, fork):
    pipeline = goldfork_burr.target(lambda: first(builder, persister))
    recorded = live_run(pipeline, {}, dry=False)
    forked = fork(recorded.run, target=pipeline, change="input:plan=else", at="write")
    app = goldfork_burr.fork_from(
        builder(), persister, app_id="app-1", sequence_id=0, entrypoint="plan", override={"plan": "else"}
    ).build()
    _, _, state = app.run(halt_after=["check"])
    assert forked.output == {name: value for name, value in state.get_all().items() if not name.startswith("__")}
    assert [(step.name, step.state) for step in forked.diff.steps] == [
        ("plan", "reused"), ("write", "run"), ("check", "run")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"app_id": "app-2"}, UsageError, "the persister holds no app 'app-2'"),
        ({"partition_key": "p"}, UsageError, "the persister holds no app 'app-1' of partition 'p'"),
        ({"sequence_id": 9}, UsageError, "holds no sequence 9 of app 'app-1'; its last one is 2"),
        ({"override": {"plam": 1}}, ChangeError, "no state value 'plam'; it has: plan, tone, topic"),
        ({"override": {"plan": 1, "tone": 2}}, ChangeError, "a fork changes one state value, not 'plan', 'tone'"),
    ],
)
def test_a_fork_from_what_is_not_there_is_refused(builder, persister, wrong, kind, message):
    first(builder, persister).run(halt_after=["check"])
    asked = {"app_id": "app-1", "sequence_id": 0, "entrypoint": "plan", **wrong}
    with pytest.raises(kind, match=message):
        goldfork_burr.fork_from(builder(), persister, **asked)


def test_a_replay_and_a_fork_write_nothing_into_the_database(world, builder, persister, path, fork):
    pipeline = goldfork_burr.target(lambda: first(builder, persister))
    recorded = live_run(pipeline, {}, dry=False)
    before = rows(path)
    assert [row[1:3] for row in before] == [(0, "plan"), (1, "write"), (2, "check")]
    assert replay_run(recorded.run, target=pipeline).status == "ok"
    assert fork(recorded.run, target=pipeline, change="input:plan=else", at="write").error is None
    assert rows(path) == before


def test_a_run_that_started_from_a_persisted_state_is_replayed_from_its_recording(world, builder, persister, path):
    first(builder, persister).run(halt_after=["plan"])

    def resumed():
        made = builder().initialize_from(
            persister, resume_at_next_action=True, default_state={"topic": "x", "tone": "y"}, default_entrypoint="plan"
        )
        return made.with_state_persister(persister).with_identifiers(app_id="app-1").build()

    pipeline = goldfork_burr.target(resumed)
    world.ran.clear()
    recorded = live_run(pipeline, {}, dry=False)
    assert world.ran == ["write", "check"]
    # By now the database holds the end, and then nothing at all.
    for change in ("SELECT 1", "DELETE FROM burr_state"):
        persister.connection.execute(change)
        persister.connection.commit()
        again = replay_run(recorded.run, target=pipeline)
        assert (again.status, again.output) == ("ok", recorded.output)
        assert [step.name for step in again.run.steps[1:]] == ["load_state", "write", "check"]


def test_a_fork_of_a_persisted_state_is_replayed_without_the_database(world, builder, persister):
    first(builder, persister).run(halt_after=["check"])

    def forked():
        made = goldfork_burr.fork_from(
            builder(), persister, app_id="app-1", sequence_id=0, entrypoint="plan", override={"plan": "else"}
        )
        return made.build()

    pipeline = goldfork_burr.target(forked)
    recorded = live_run(pipeline, {})
    persister.connection.execute("DELETE FROM burr_state")
    persister.connection.commit()
    again = replay_run(recorded.run, target=pipeline)
    assert (again.status, again.output) == ("ok", recorded.output)
    assert recorded.output["draft"] == world.digest("write ['else', 'dry']")


def test_async_persisters_are_left_alone_too(world, builder, path):
    async def application():
        async with await AsyncSQLitePersister.from_values(path) as persister:
            await persister.initialize()
            made = builder().initialize_from(
                persister,
                resume_at_next_action=True,
                default_state={"topic": "tea", "tone": "dry"},
                default_entrypoint="plan",
            )
            app = await made.with_state_persister(persister).with_identifiers(app_id="app-1").abuild()
            _, _, state = await app.arun(halt_after=["check"])
            return state["verdict"]

    pipeline = goldfork_burr.target(application)
    recorded = live_run(pipeline, {}, dry=False)
    assert recorded.error is None
    before = rows(path)
    assert len(before) == 3
    again = replay_run(recorded.run, target=pipeline)
    assert (again.status, again.output, rows(path)) == ("ok", recorded.output, before)
