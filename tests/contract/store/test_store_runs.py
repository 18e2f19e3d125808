"""The list of runs: newest first, filtered, with what each of them did."""

from datetime import timedelta
from decimal import Decimal

from harness.record import RECORDED, Usage


def _write(store, *values, blobs=None):
    store.write(*values, blobs=blobs).result(30)


def test_runs_are_listed_newest_first_by_workflow_and_status(store, records):
    runs = [
        records.done(records.run(workflow="triage")),
        records.done(records.run(workflow="other"), status="error", error="ValueError: no"),
        records.done(records.run(workflow="triage"), status="error"),
    ]
    _write(store, *runs)
    ids = [run.id for run in reversed(runs)]
    assert [run.id for run in store.runs()] == ids
    assert [run.id for run in store.runs(limit=2)] == ids[:2]
    assert [run.id for run in store.runs(workflow="triage")] == [ids[0], ids[2]]
    assert [run.id for run in store.runs(workflow="triage", status="error")] == [ids[0]]
    assert [run.id for run in store.runs(status="ok")] == [ids[2]]
    assert store.runs(workflow="nothing") == []
    assert store.runs(status="running") == []


def test_open_runs_are_limited_after_the_dead_ones_are_told_apart(store, records):
    alive = [records.run(owner="elsewhere:1:1") for _ in range(3)]
    _write(store, *alive, records.done(records.run()))
    assert [run.id for run in store.runs(limit=2, status="running")] == [alive[2].id, alive[1].id]
    assert store.runs(status="abandoned") == []


def test_a_summary_says_what_the_run_was_and_did(store, records):
    parent = records.done(records.run())
    run = records.run(
        arm="fork:abc", trial=2, case="ada", experiment="e1", parent_run_id=parent.id, mode="auto", usable=False
    )
    run = records.done(run, status="error", error="ValueError: no")
    usages = [Usage(input_tokens=10, output_tokens=1), Usage(input_tokens=5), Usage()]
    messages = [
        records.message(run, b"{}", usage=usage, seq=number, cost=cost)
        for number, (usage, cost) in enumerate(zip(usages, [Decimal("0.5"), None, Decimal("0.25")], strict=True))
    ]
    _write(store, parent, run, records.step(run), records.step(run, seq=9), *messages, blobs=records.blobs(b"{}"))
    found, before = store.runs()
    assert (found.id, found.workflow, found.mode, found.arm, found.trial) == (run.id, "triage", "auto", "fork:abc", 2)
    assert (found.case, found.experiment, found.parent_run_id) == ("ada", "e1", parent.id)
    assert (found.status, found.error, found.usable, found.fidelity) == ("error", "ValueError: no", False, "wire")
    assert found.ended_at - found.started_at == timedelta(seconds=2)
    assert (found.steps, found.messages, found.unknown_usage) == (2, 3, 1)
    assert (found.input_tokens, found.output_tokens, found.cost) == (15, 1, Decimal("0.75"))
    assert (before.arm, before.trial, before.case, before.usable) == (RECORDED, 0, None, True)
    assert (before.steps, before.messages, before.unknown_usage) == (0, 0, 0)
    assert (before.input_tokens, before.output_tokens, before.cost) == (None, None, None)


def test_more_runs_than_fit_one_question_are_all_summed_up(store, records):
    runs = [records.done(records.run()) for _ in range(405)]
    store.write(*runs, *(records.step(run) for run in runs)).result(30)
    listed = store.runs(limit=405)
    assert [run.id for run in listed] == [run.id for run in reversed(runs)]
    assert {run.steps for run in listed} == {1}


def test_a_trial_is_asked_for_by_number(store, records):
    runs = [records.done(records.run(trial=number)) for number in (0, 1)]
    _write(store, *runs)
    assert store.recording("triage", trial=1).run.id == runs[1].id
    assert store.recording("triage").run.id == runs[0].id
    assert store.recording("triage", trial=2) is None
    assert store.recording(runs[1].id, trial=1).run.id == runs[1].id
    assert store.recording(runs[1].id, trial=2) is None


def test_steps_and_values_come_in_the_order_of_the_run(store, records):
    run = records.done(records.run())
    steps = [records.step(run, seq=number, name=f"s{number}") for number in (2, 0, 1)]
    _write(store, *steps)
    _write(store, run)
    assert [step.seq for step in store.recording(run.id).steps] == [0, 1, 2]


def test_a_run_that_died_is_read_as_interrupted_throughout(store, records):
    import os

    run = records.run(owner=f"{os.uname().nodename}:4194303:1")
    step = records.step(run, status="running")
    done = records.step(run, seq=1)
    message = records.message(run, b"{}", status="running", exchanges=())
    _write(store, run, step, done, message, blobs=records.blobs(b"{}"))
    found = store.recording(run.id)
    assert found.run.status == "interrupted"
    assert [step.status for step in found.steps] == ["interrupted", "ok"]
    assert [(m.status, m.exchanges) for m in found.messages] == [("interrupted", ())]
