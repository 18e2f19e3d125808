"""The accepted baseline: written from an experiment, read over the cases in question."""

from datetime import UTC, datetime

import pytest

from harness.dataset import Case, GoldenDataset
from harness.errors import DatasetError, UsageError
from harness.experiment import ExperimentResult, LoadedEvaluator, accept
from harness.experiment._baseline import read_baseline
from harness.experiment._identity import hashes_of
from harness.score import Score

HASHES = '{"format": 1, "cases": {"a": [{"trial": 0, "scores": [], "steps": [1]}]}}'
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def loaded(version="1"):
    return LoadedEvaluator(name="x", version=version, step=None, asks=("output",), call=len, subject=None)


@pytest.fixture
def dataset(tmp_path):
    made = GoldenDataset.create(tmp_path / "toy", target="toy:run")
    for name in ("a", "b"):
        made.put_case(Case(id=name, input={"text": name}, approver="me"))
    made.snapshot()
    return GoldenDataset.load(tmp_path / "toy")


def experiment(dataset, *trials, **changes):
    given = {
        "id": "e1",
        "dataset": dataset.name,
        "dataset_path": str(dataset.path),
        "version": dataset.version,
        "digest": dataset.digest,
        "target": "toy:run",
        "mode": "replay",
        "change": None,
        "started_at": NOON,
        "ended_at": NOON,
        "trials": trials,
        "scores": (Score(name="x", value=0.5),),
    }
    return ExperimentResult(**{**given, **changes})


@pytest.fixture
def accepted(dataset, make_trial):
    accept(experiment(dataset, make_trial("a", values={"x": 1.0}), make_trial("b", values={"x": 0.0})), dataset)
    return dataset


def test_what_is_accepted_comes_back_per_trial_and_in_total(accepted):
    found = read_baseline(accepted, [loaded()], {"a", "b"})
    assert found.trials["a", 0]["x"].value == 1.0
    assert (found.scores["x"].value, found.scores["x"].n) == (0.5, 2)


def test_what_it_gave_comes_back_by_hash(accepted, make_trial):
    found = read_baseline(accepted, [loaded()], {"a", "b"})
    assert found.hashes["a", 0] == hashes_of(make_trial("a").outcome)
    assert found.hashes["a", 0].output is not None


def test_hashes_of_another_version_are_not_compared(accepted):
    accepted.put_case(Case(id="c", input={"text": "c"}, approver="me"))
    accepted.snapshot()
    assert read_baseline(GoldenDataset.load(accepted.path), [loaded()], {"a"}).hashes == {}


def test_a_filtered_experiment_is_compared_with_the_same_cases(accepted):
    assert read_baseline(accepted, [loaded()], {"a"}).scores["x"].value == 1.0


def test_scores_of_another_evaluator_version_are_not_compared(accepted):
    found = read_baseline(accepted, [loaded(version="2")], {"a", "b"})
    assert found.scores == {}
    assert found.trials["a", 0] == {}
    assert "'x' has changed since the baseline" in found.notes[0]


def test_a_baseline_of_an_older_version_says_so(accepted):
    accepted.put_case(Case(id="c", input={"text": "c"}, approver="me"))
    accepted.snapshot()
    found = read_baseline(GoldenDataset.load(accepted.path), [loaded()], {"a", "b", "c"})
    assert found.scores["x"].n == 2
    assert "accepted for version 1 of 'toy', this is version 2" in found.notes[0]


def test_the_file_says_what_it_is(accepted):
    data = accepted.read_baseline()
    assert (data["experiment"], data["mode"], data["fresh"]) == ("e1", "replay", False)
    assert len(data["cases"]["a"][0]["output_hash"]) == 64
    assert data["scores"] == {"x": 0.5}


def test_accepting_leaves_the_version_as_it_was(accepted):
    assert accepted.verify() == ()


def test_without_a_baseline_there_is_nothing_to_compare_with(dataset):
    found = read_baseline(dataset, [loaded()], {"a"})
    assert (found.trials, found.hashes, found.scores, found.notes) == ({}, None, {}, ())


def test_a_partial_or_failed_experiment_is_no_baseline(dataset, make_trial):
    with pytest.raises(UsageError, match="lacks 1 of the dataset's cases"):
        accept(experiment(dataset, make_trial("a")), dataset)
    with pytest.raises(UsageError, match="case 'b', trial 0 has no output"):
        accept(experiment(dataset, make_trial("a"), make_trial("b", error="KeyError: 1")), dataset)
    assert dataset.read_baseline() is None


def test_an_experiment_of_another_version_is_no_baseline(dataset, make_trial):
    old = experiment(dataset, make_trial("a"), make_trial("b"), version=0, digest="")
    with pytest.raises(UsageError, match="is of version 0"):
        accept(old, dataset)


@pytest.mark.parametrize(
    "text", ['{"format": 9, "cases": {}}', '{"cases": {}}', '{"format": 1, "cases": [1]}', "[]", HASHES]
)
def test_a_damaged_file_is_one_sentence(accepted, text):
    (accepted.path / "baseline.json").write_text(text)
    with pytest.raises(DatasetError, match=r"baseline\.json of 'toy'"):
        read_baseline(accepted, [loaded()], {"a"})
