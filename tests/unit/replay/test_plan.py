"""What a plan says beforehand, beside what the fork then does."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from harness.errors import ChangeError
from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, plan_fork
from harness.session import Change

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)
ALLOWED = {
    "reused": {"reused"},
    "run": {"run"},
    "run or reused": {"run", "reused", "removed"},
    "answered": {"answered"},
    "answered or called": {"answered", "called", "removed"},
    "dry": {"dry", "removed"},
    "not run": {"removed"},
}


@step
def note(x):
    return x


def words(plan):
    return [(one.address, one.word) for one in plan.steps]


def reason(plan, address):
    return next(one.reason for one in plan.steps if one.address == address)


def agrees(plan, outcome):
    """Every planned word beside what the fork did; steps are told apart by their address and kind."""
    did = {(one.scope, one.name, one.occurrence, one.kind, one.key): one.state for one in outcome.diff.steps}
    for one in plan.steps:
        state = did.get((one.scope, one.name, one.occurrence, one.kind, one.key))
        if one.word == "not run" and state == "answered":
            continue  # the fork step itself, whose output was given
        if state is not None and state != "added":
            assert state in ALLOWED[one.word], (one.address, one.word, state)


@pytest.mark.parametrize(
    "change",
    [
        Change(kind="prompt", at="draft", name="opening", value="Hi {who}"),
        Change(kind="output", at="classify", value=["x"]),
        Change(kind="input", at="draft#1", name="ticket", value="other"),
        Change(kind="input", at="shop", name="ticket", value="other"),
    ],
    ids=lambda change: f"{change.kind}-{change.at}",
)
def test_a_plan_runs_nothing_and_the_fork_does_what_it_said(shop, change):
    parent = live_run(shop.run, {"ticket": "t"}, code_version=CODE).run
    shop.done.clear()
    plan = plan_fork(parent, change, options=OPTIONS, target=shop.run)
    assert shop.done == []
    assert plan.code == "same"
    outcome = fork_run(parent, target=shop.run, change=change, mode="auto", options=OPTIONS)
    assert outcome.status == "ok"
    agrees(plan, outcome)
    assert len([one for one in outcome.run.steps if one.parent_id]) > 0


@pytest.mark.parametrize(
    "change",
    [
        Change(kind="model", at="draft", value="m-2"),
        Change(kind="model", at="desk", value="m-2"),
        Change(kind="param", at="check", name="temperature", value=1),
        Change(kind="prompt", at="draft", name="opening", value="Hi {who}"),
    ],
    ids=lambda change: f"{change.kind}-{change.at}",
)
def test_no_more_is_called_than_the_plan_said(provider, change):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    before = len(provider.server.requests)
    plan = plan_fork(parent, change, options=OPTIONS, target=provider.run)
    assert len(provider.server.requests) == before
    outcome = fork_run(parent, target=provider.run, change=change, options=OPTIONS)
    agrees(plan, outcome)
    assert plan.certain.calls <= outcome.counts.provider_calls <= plan.at_most.calls
    assert plan.answered.calls == 3 - plan.at_most.calls
    assert plan.at_most.unknown_usage == 0


def test_a_change_that_addresses_nothing_is_refused(shop):
    parent = live_run(shop.run, {"ticket": "t"}, code_version=CODE).run
    with pytest.raises(ChangeError, match="has no step 'nowhere'"):
        plan_fork(parent, Change(kind="output", at="nowhere", value=1))


def test_the_steps_before_the_fork_are_reused_and_those_behind_it_may_be(shop):
    parent = live_run(shop.run, {"ticket": "t"}, code_version=CODE).run
    change = Change(kind="input", at="draft#1", name="ticket", value="x")
    plan = plan_fork(parent, change, options=OPTIONS)
    assert words(plan) == [
        ("classify", "reused"),
        ("classify/look", "answered"),
        ("classify/polish", "reused"),
        ("classify/send", "dry"),
        ("draft", "reused"),
        ("draft/look", "answered"),
        ("draft#1", "run"),
        ("draft/look#1", "answered or called"),
        ("send", "dry"),
    ]
    assert reason(plan, "draft#1") == "the fork step"
    assert "draft#1" in reason(plan, "draft/look#1")
    assert reason(plan, "classify/polish") == "inside 'classify', which is skipped whole"


def test_the_estimate_counts_what_is_called_anew_and_what_may_be(provider):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    plan = plan_fork(parent, Change(kind="model", at="draft", value="m-2"), options=OPTIONS)
    assert (plan.certain.calls, plan.at_most.calls, plan.answered.calls) == (1, 2, 1)
    used = [message.usage.total for message in parent.messages]
    assert (plan.answered.tokens, plan.certain.tokens, plan.at_most.tokens) == (used[0], used[1], used[1] + used[2])
    # No recording shows what the other model costs.
    assert plan.certain.cost is None
    by_name = {one.name: one for one in plan.steps}
    assert (by_name["draft"].certain, by_name["check"].possible, by_name["look"].estimate.calls) == (1, 1, 0)
    same = plan_fork(parent, Change(kind="model", at="draft", value="m"), options=OPTIONS)
    assert (same.certain.calls, same.at_most.calls) == (0, 0)


def test_a_dictated_output_makes_none_of_its_steps_calls(provider):
    parent = live_run(provider.run, {"ticket": "t"}, code_version=CODE).run
    plan = plan_fork(parent, Change(kind="output", at="draft", value="x"), options=OPTIONS)
    assert (plan.certain.calls, plan.at_most.calls, plan.answered.calls) == (0, 1, 1)
    assert dict(words(plan))["draft"] == "not run"


def test_without_the_recorded_code_every_body_runs(shop):
    parent = live_run(shop.run, {"ticket": "t"}, code_version=CODE).run
    change = Change(kind="output", at="draft", value=0)
    plan = plan_fork(parent, change, options=ReplayOptions(code_version="d" * 64))
    assert plan.code == "changed"
    assert "reused" not in plan.words
    assert reason(plan, "classify") == "the code has changed since it was recorded"
    assert plan_fork(replace(parent, run=replace(parent.run, code_version=None)), change).code == "unknown"


def test_each_missing_proof_is_named():
    class Thing:
        pass

    @step
    def spoils(items):
        items.append(1)
        return 1

    @step
    def opaque():
        return Thing()

    @step
    def raises():
        raise ValueError("broken")

    @step
    def numbers():
        yield 1

    @workflow("w")
    def run():
        spoils([])
        opaque()
        with contextlib.suppress(ValueError):
            raises()
        list(numbers())
        return note(1)

    parent = live_run(run, {}, code_version=CODE).run
    plan = plan_fork(parent, Change(kind="output", at="note", value=0), options=OPTIONS)
    assert "changed an argument" in reason(plan, "spoils")
    assert "could not be serialised" in reason(plan, "opaque") or "does not decode" in reason(plan, "opaque")
    assert "ValueError: broken" in reason(plan, "raises")
    assert {one.word for one in plan.steps if one.name != "note" and one.name != "numbers"} == {"run"}
    agrees(plan, fork_run(parent, target=run, change="output=0", at="note", options=OPTIONS))


def test_a_parallel_step_that_began_before_the_fork_step_is_reused():
    @step
    async def slow(x):
        await asyncio.sleep(0.02)
        return note(x)

    @step
    async def quick(x):
        return x

    @workflow("w")
    async def run():
        return await asyncio.gather(slow(1), quick(2))

    parent = live_run(run, {}, code_version=CODE).run
    change = Change(kind="input", at="quick", name="x", value=3)
    plan = plan_fork(parent, change, options=OPTIONS)
    assert dict(words(plan)) == {"slow": "reused", "slow/note": "reused", "quick": "run"}
    agrees(plan, fork_run(parent, target=run, change=change, options=OPTIONS))


def test_an_undeclared_tool_is_said_to_stop_the_fork():
    @tool
    def bare(x):
        return x

    @workflow("w")
    def run():
        return note(bare(1))

    parent = live_run(run, {}, code_version=CODE, dry=False).run
    plan = plan_fork(parent, Change(kind="output", at="note", value=0), options=OPTIONS)
    assert "declares no determinism" in reason(plan, "bare")


def test_a_run_of_500_steps_is_planned():
    @workflow("w")
    def run():
        return [note(f"{k} {'x' * 200}") for k in range(500)][-1]

    parent = live_run(run, {}, code_version=CODE).run
    change = Change(kind="output", at="note#499", value=0)
    plan = plan_fork(parent, change, options=OPTIONS)
    addresses = ["note", *(f"note#{k}" for k in range(1, 500))]
    assert words(plan) == [*((one, "reused") for one in addresses[:-1]), (addresses[-1], "not run")]
    assert (plan.parent, plan.change, plan.code) == (parent.run.id, change, "same")
    assert (plan.certain.calls, plan.at_most.calls, plan.control.calls) == (0, 0, 0)
    outcome = fork_run(parent, target=run, change=change, options=OPTIONS)
    agrees(plan, outcome)
    assert (outcome.output, outcome.counts.steps_reused, outcome.counts.steps_run) == (0, 499, 0)
