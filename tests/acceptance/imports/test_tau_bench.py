"""Public agent trajectories through the double: each becomes a run, each run a case, and none of them replays."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness.curation import Draft, choose, rerecord, stage, worn_cases
from harness.dataset import GoldenDataset
from harness.errors import UsageError
from harness.pipeline import plain
from harness.record import view_response
from harness.replay import fork_run, replay_run
from harness.session import require_usable

MODULE = "imports_airline"
SOURCE = """
import harness


@harness.workflow("airline")
def fly(instruction):
    return instruction.upper()
"""


def _folder():
    for parent in Path(__file__).resolve().parents:
        for found in (parent.parent / "shared" / "data" / "tau-bench", parent / "shared" / "data" / "tau-bench"):
            if found.is_dir():
                return found
    return None


@pytest.fixture(scope="module")
def trajectories():
    folder = _folder()
    if folder is None:
        pytest.skip("the public trajectories are not here")
    with gzip.open(folder / "gpt-4o-airline.json.gz") as packed:
        return json.load(packed)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("airline")
    (folder / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield importlib.import_module(MODULE).fly
    sys.path.remove(str(folder))
    del sys.modules[MODULE]


def spans_of(one, span):
    """A trajectory as an agent's tracer would send it."""
    instruction = one["info"]["task"]["instruction"]
    said = [message for message in one["traj"] if message["role"] == "assistant"]
    more = {"langfuse.trace.name": "airline", "langfuse.trace.tags": [f"trial-{one['trial']}"]}
    count = len(one["traj"])
    yield span(
        "root", type="agent", name="fly", start=0, end=10 * count, input={"instruction": instruction},
        output=said[-1]["content"] or "", more=more,
    )  # fmt: skip
    calls = {}
    for number, message in enumerate(one["traj"]):
        at = {"start": 10 * number, "end": 10 * number + 9, "parent": "root", "more": more}
        if message["role"] == "assistant":
            calls |= {call["id"]: call["function"] for call in message.get("tool_calls") or ()}
            at["more"] = {**more, "langfuse.observation.model.name": "gpt-4o"}
            yield span(f"g{number}", type="generation", name="agent", input=one["traj"][:number], output=message, **at)
        elif message["role"] == "tool":
            asked = json.loads(calls[message["tool_call_id"]]["arguments"])
            output = message["content"]
            yield span(f"c{number}", type="tool", name=message["name"], input=asked, output=output, **at)


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_each_trajectory_is_a_run_and_a_case_whose_replay_names_the_command(
    desk, span, trajectories, target, tmp_path, count
):
    wanted = {}
    trajectories = trajectories[:count]
    for number, one in enumerate(trajectories):
        wanted[desk.post(f"t{number}", *spans_of(one, span))] = one
    result = desk.load()
    assert (len(result.imported), result.left_out) == (len(trajectories), [])
    assert desk.store.check().ok
    dataset = GoldenDataset.create(tmp_path / "airline", target=f"{MODULE}:fly")
    for identifier in result.imported:
        recording = desk.store.recording(identifier)
        one = wanted[recording.run.metadata["trace"]]
        _same(recording, one)
        staged = stage(desk.store, identifier, dataset)
        assert not staged.proven
        assert "goldfork dataset rerecord" in staged.reason
        assert staged.case.input == {"instruction": one["info"]["task"]["instruction"]}
        for attempt in (
            lambda run=recording: require_usable(run),
            lambda run=recording: replay_run(run, target=target),
            lambda run=recording: fork_run(run, target=target, change="model=x", at="fly"),
        ):
            with pytest.raises(UsageError, match="goldfork dataset rerecord"):
                attempt()
    assert len(dataset.staged) == len(trajectories)
    dataset.snapshot(approve="ann")
    assert dataset.verify() == ()
    assert len(worn_cases(dataset)) == len(trajectories)
    _renew_some(dataset, target)


def _same(recording, one):
    """Every turn is there, in order, with what it said."""
    roles = Counter(message["role"] for message in one["traj"])
    tools = [step for step in recording.steps if step.kind == "tool"]
    assert (len(recording.messages), len(tools)) == (roles["assistant"], roles["tool"])
    said = [message for message in one["traj"] if message["role"] == "assistant"]
    for message, expected in zip(recording.messages, said, strict=True):
        view = view_response(message.endpoint, message.answer, recording.read(message.answer.body_hash))
        assert view.text == expected["content"]
        names = [call["function"]["name"] for call in expected.get("tool_calls") or ()]
        assert [call.name for call in view.tool_calls] == names
        assert (message.model, message.usage.total, message.cost) == ("gpt-4o", None, None)
    given = [message["content"] for message in one["traj"] if message["role"] == "tool"]
    for step, expected in zip(tools, given, strict=True):
        value = plain(recording.read(step.output_hash))
        assert value == expected or value == json.loads(expected)


def _renew_some(dataset, target):
    chosen = choose(dataset, imported=True)[:3]
    expected = {case_id: dataset.case(case_id).expected_output for case_id in chosen}
    assert [one.case for one in rerecord(dataset, chosen).renewed] == list(chosen)
    for case_id in chosen:
        assert dataset.case(case_id).expected_output == expected[case_id]
        assert replay_run(dataset.recording(case_id), target=target).diff.output_equal
    assert dataset.snapshot() == 2


def test_one_of_them_through_the_draft_keeps_what_is_said_of_it(desk, span, trajectories, tmp_path):
    desk.post("t0", *spans_of(trajectories[0], span))
    run = desk.load().imported[0]
    dataset = GoldenDataset.create(tmp_path / "airline", target="")
    case = stage(desk.store, run, dataset, draft=Draft(id="first", expected_output={"reward": 0.0})).case
    assert (case.expected_output, case.tags) == ({"reward": 0.0}, ("trial-0",))
