"""The application's own hooks and trackers happen in production, not in a replay, a fork or a dry run."""

import gc

import pytest
from burr.core import ApplicationBuilder, State, action
from burr.lifecycle import PostRunStepHook, PreRunStepHookAsync
from burr.tracking import LocalTrackingClient

from harness.integrations.burr import target
from harness.replay import fork_run, live_run, replay_run


class Mailer(PostRunStepHook, PreRunStepHookAsync):
    def __init__(self):
        self.mailed = []

    def post_run_step(self, *, action, **_):
        self.mailed.append(action.name)

    async def pre_run_step(self, *, action, **_):
        self.mailed.append(f"before {action.name}")


class Meter(Mailer):
    """Says of itself that it may run anywhere."""

    __goldfork_dry__ = True


@action(reads=["n"], writes=["n"])
def count(state):
    return state.update(n=state["n"] + 1)


@action(reads=["n"], writes=["out"])
async def tell(state):
    return state.update(out=f"{state['n']} in all")


def build(*hooks, tracker=None):
    builder = ApplicationBuilder().with_actions(count, tell).with_transitions(("count", "tell"))
    builder = builder.with_state(State({"n": 1})).with_entrypoint("count").with_hooks(*hooks)
    return (builder.with_tracker(tracker) if tracker else builder).build()


def of(make):
    async def run():
        *_, state = await make().arun(halt_after=["tell"])
        return state["out"]

    return target(run)


@pytest.mark.parametrize(("kind", "runs"), [(Mailer, False), (Meter, True)])
def test_hooks_stay_undone_unless_their_class_says_otherwise(kind, runs):
    hook = kind()
    run = of(lambda: build(hook))
    parent = live_run(run, {}, dry=False)
    all_of_them = ["before count", "count", "before tell", "tell"]
    assert (parent.output, hook.mailed) == ("2 in all", all_of_them)
    for again in (
        lambda: replay_run(parent.run, target=run),
        lambda: live_run(run, {}),
    ):
        hook.mailed.clear()
        assert again().output == "2 in all"
        assert hook.mailed == (all_of_them if runs else [])
    hook.mailed.clear()
    fork = fork_run(parent.run, target=run, change='output={"n": 7}', at="count")
    assert fork.output == "7 in all"
    assert bool(hook.mailed) is runs


# Burr leaves its logs open.
@pytest.mark.filterwarnings("ignore:Exception ignored in.*FileIO:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_an_application_that_was_built_before_is_not_tracked(tmp_path):
    tracker = LocalTrackingClient(project="shop", storage_dir=str(tmp_path))
    built = [build(tracker=tracker) for _ in range(2)]
    run = of(built.pop)
    parent = live_run(run, {}, dry=False)
    written = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert written
    assert replay_run(parent.run, target=run).output == "2 in all"
    assert {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()} == written
    del built, run, parent, tracker
    gc.collect()
