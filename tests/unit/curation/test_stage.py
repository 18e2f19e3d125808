"""From a run to a staged case, proved by a replay."""

from __future__ import annotations

import dataclasses

import pytest

from harness.curation import Draft, stage
from harness.dataset import GoldenDataset
from harness.errors import DatasetError, DatasetMissing, TargetError
from harness.pipeline import snapshot
from harness.replay import fork_run, live_run, replay_run


def test_a_run_becomes_a_proven_staged_case(pipeline, runs, recorded, dataset) -> None:
    staged = stage(runs, recorded, dataset, draft=Draft(id="parcel", tags=("slow",), split="dev"))
    case = GoldenDataset.load(dataset.path).case("parcel")
    assert (staged.proven, staged.reason, staged.case) == (True, "", case)
    assert (case.input, case.approver, case.tags, case.split) == ({"ticket": "parcel"}, None, ("slow",), "dev")
    assert case.expected_output["reply"].endswith(": PARCEL")
    assert case.provenance["run"] == recorded
    assert case.provenance["proven"] is True
    recording = dataset.recording("parcel")
    assert replay_run(recording, target=pipeline.answer).diff.output_equal


def test_the_newest_run_of_a_workflow_and_an_id_of_its_own(runs, recorded, dataset) -> None:
    assert stage(runs, "curation-test", dataset).case.id == f"curation-test-{recorded[-8:]}"


@pytest.mark.parametrize("expected", [{"reply": "right"}, None, ""])
def test_the_expectation_may_be_another_than_the_output(runs, recorded, dataset, expected) -> None:
    staged = stage(runs, recorded, dataset, draft=Draft(id="a", expected_output=expected))
    assert staged.case.expected_output == expected
    assert staged.proven


def test_code_that_gives_another_output_is_no_proof(pipeline, runs, recorded, dataset) -> None:
    pipeline.BROKEN = True
    try:
        staged = stage(runs, recorded, dataset, draft=Draft(id="a"))
    finally:
        pipeline.BROKEN = False
    assert staged.reason == "its replay gave another output, from step 'draft' on"
    assert dataset.case("a").provenance["proven"] is False
    assert stage(runs, recorded, dataset, draft=Draft(id="a")).proven, "a staged case may be staged again"
    assert "unproven_because" not in dataset.case("a").provenance


def test_a_run_that_lacks_a_recorded_value_is_no_proof(runs, recorded, dataset) -> None:
    whole = runs.kept[recorded]
    runs.add(dataclasses.replace(whole, volatile=()))
    assert not stage(runs, recorded, dataset, draft=Draft(id="a")).proven


def test_a_run_that_failed_is_a_case_that_fails_the_same_way(pipeline, runs, dataset) -> None:
    failed = runs.add(live_run(pipeline.answer, {"ticket": "bad"}).run)
    staged = stage(runs, failed, dataset, draft=Draft(id="bad"))
    assert (staged.proven, staged.case.expected_output) == (True, None)


def test_an_imported_run_is_marked_unproven(runs, recorded, dataset) -> None:
    whole = runs.kept[recorded]
    runs.add(dataclasses.replace(whole, run=dataclasses.replace(whole.run, fidelity="imported")))
    staged = stage(runs, recorded, dataset, draft=Draft(id="a"))
    assert not staged.proven
    assert "goldfork dataset rerecord" in staged.reason


def test_a_dataset_without_target_leaves_the_case_unproven(runs, recorded, tmp_path) -> None:
    made = GoldenDataset.create(tmp_path / "x", target="")
    assert stage(runs, recorded, made).reason == "dataset.toml names no target to replay it with"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"status": "running"}, "is running"),
        ({"status": "interrupted"}, "is interrupted"),
        ({"usable": False}, "not stored completely"),
        ({"input_hash": None}, "no input that can be read again"),
    ],
)
def test_a_run_that_cannot_be_replayed_is_refused(runs, recorded, dataset, fields, says) -> None:
    whole = runs.kept[recorded]
    runs.add(dataclasses.replace(whole, run=dataclasses.replace(whole.run, **fields)))
    with pytest.raises(DatasetError, match=says):
        stage(runs, recorded, dataset)
    assert dataset.staged == ()


def test_an_approved_case_is_never_overwritten(runs, recorded, dataset) -> None:
    stage(runs, recorded, dataset, draft=Draft(id="a"))
    dataset.snapshot(approve="ann")
    with pytest.raises(DatasetError, match="is approved by 'ann'"):
        stage(runs, recorded, dataset, draft=Draft(id="a"))


def test_nothing_is_written_for_a_bad_request(runs, recorded, dataset, tmp_path) -> None:
    with pytest.raises(DatasetMissing, match="no run 'absent'"):
        stage(runs, "absent", dataset)
    with pytest.raises(DatasetError, match="is not a name") as caught:
        stage(runs, recorded, dataset, draft=Draft(id="../x"))
    assert "\n" not in str(caught.value)
    broken = GoldenDataset.create(tmp_path / "broken", target="no.such.module:f")
    with pytest.raises(TargetError):
        stage(runs, recorded, broken)
    assert (dataset.staged, broken.staged) == ((), ())


def test_nothing_in_a_case_is_ever_unpickled(runs, recorded, dataset) -> None:
    pickled = b"\x80\x04\x95cos\nsystem\n(S'x'\ntR."
    hostile = snapshot({"state": pickled})
    whole = runs.kept[recorded]
    run = dataclasses.replace(whole.run, input_hash=hostile.hash)
    runs.add(dataclasses.replace(whole, run=run, read=lambda d: hostile.data if d == hostile.hash else whole.read(d)))
    assert stage(runs, recorded, dataset, draft=Draft(id="a")).case.input == {"state": pickled.hex()}


def test_a_fork_becomes_a_case_that_the_changed_code_proves(pipeline, runs, recorded, dataset) -> None:
    fork = fork_run(
        runs.kept[recorded], target=pipeline.answer, change='output="something else"', at="draft", mode="replay"
    )
    fork_id = runs.add(fork.run)
    assert not stage(runs, fork_id, dataset, draft=Draft(id="a")).proven
    pipeline.BROKEN = True
    try:
        staged = stage(runs, fork_id, dataset, draft=Draft(id="a"))
    finally:
        pipeline.BROKEN = False
    assert staged.proven
    assert staged.case.expected_output == {"reply": "something else"}
    assert staged.case.provenance["parent_run"] == recorded
    assert staged.case.provenance["change"]["at"] == "draft"
