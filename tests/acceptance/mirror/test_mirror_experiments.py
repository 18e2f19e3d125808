"""Experiments at the other end: an item for every arm and trial of a case, with what the case expects."""

import dataclasses
import json
from datetime import timedelta

import pytest

from harness.dataset import Case
from harness.experiment._history import begin
from harness.session import Change

CHANGE = Change(kind="model", at="draft", value="m-2")
CASE = Case(id="late", input={"text": "late"}, expected_output={"reply": "soon", "to": "jo.doe@example.org"})
ARMS = (
    # arm, trial, what its experiment is called beside the id
    (CHANGE.arm, 0, ""),
    (CHANGE.arm, 1, "-t1"),
    ("control:1@draft", 0, "-control:1@draft"),
    ("control:1@draft", 1, "-control:1@draft-t1"),
    ("evaluator:judge@1", 0, "-evaluator:judge@1"),
    ("recorded", 0, "-recorded"),
)


def fill(fleet, store, change, arms):
    """An experiment with one case, and a run of it for each arm and trial."""
    names = ("digest", "target", "mode", "code_version")
    identity = {"dataset": "support", "version": 3, **dict.fromkeys(names), "change": change and change.as_dict()}
    begin(store, fleet.EXPERIMENT, identity, fleet.START, cases=[CASE, CASE])
    for number, (arm, trial, _) in enumerate(arms):
        made, blobs = fleet.records(number)
        run = dataclasses.replace(made[0], experiment=fleet.EXPERIMENT, case=CASE.id, arm=arm, trial=trial)
        store.write(*made[1:], run, blobs=blobs).result()
        key = {"experiment": fleet.EXPERIMENT, "case": CASE.id, "arm": arm, "trial": trial}
        score = {**key, "evaluator": "exact", "name": "exact", "status": "scored", "value": number}
        store.save_together({"scores": [score], "trials": [{**key, "run_id": run.id, "status": "ok"}]})
    whole = {"experiment": fleet.EXPERIMENT, "evaluator": "exact", "name": "exact", "status": "scored", "value": 0.5}
    store.save("scores", [whole, {**whole, "arm": "control:1@draft", "value": 0.25}])


def read(project, what, fields, **more):
    since = "2026-11-01T00:00:00Z"
    answer = project.get(f"/api/public/{what}", {"fromStartTime": since, "fields": fields, "limit": "100", **more})
    return answer["data"]


@pytest.mark.parametrize("change", [CHANGE, None])
def test_no_arm_and_no_trial_of_a_case_hides_another(fleet, store, server, sender, clock, change):
    plain = [("recorded", 0, ""), ("recorded", 2, "-t2"), (CHANGE.arm, 0, f"-{CHANGE.arm}")]
    arms = ARMS if change else plain
    fill(fleet, store, change, arms)
    assert fleet.drive(sender, clock)
    items = read(sender.project, "experiment-items", "core,io,itemMetadata,scores")
    seen = {(item["experimentId"], item["traceId"]): item for item in items}
    ids = [fleet.EXPERIMENT + end for _, _, end in arms]
    runs = [fleet.trace_id(fleet.fixed_id("run", number)) for number in range(len(arms))]
    assert set(seen) == set(zip(ids, runs, strict=True))
    for number, (arm, _, _) in enumerate(arms):
        item = seen[ids[number], runs[number]]
        assert item["experimentName"] == ids[number]
        assert item["experimentItemMetadata"]["arm"] == arm
        assert [score["value"] for score in item["scores"]] == [number]
        expected = None if arm.startswith("evaluator:") else {"reply": "soon", "to": "⟦mail#1⟧"}
        assert expected == (item["expectedOutput"] and json.loads(item["expectedOutput"]))
    whole = {score["datasetRunId"]: score["value"] for score in server.scores() if score["datasetRunId"]}
    assert whole == {fleet.EXPERIMENT: 0.5, f"{fleet.EXPERIMENT}-control:1@draft": 0.25}


def test_what_a_case_expects_stands_on_its_item_alone_and_is_redacted(fleet, store, server, sender, clock):
    fill(fleet, store, None, [("recorded", 0, "")])
    assert fleet.drive(sender, clock)
    key = "langfuse.experiment.item.expected_output"
    told = {row.span_id: row.attributes[key] for row in server.rows if key in row.attributes}
    assert list(told) == [fleet.span_id("step", fleet.fixed_id("step", 0, 0))]
    assert all(b"jo.doe@example.org" not in request.body for request in server.requests)
    later = fleet.START + timedelta(days=1)
    assert read(sender.project, "experiments", "core", toStartTime=later.isoformat())[0]["itemCount"] == 1
