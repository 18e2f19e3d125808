"""The accepted baseline: a configuration's own scores and output hashes, per case and trial, kept in git."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from harness.dataset import GoldenDataset
from harness.errors import DatasetError, UsageError
from harness.experiment._encoding import scores_from_list, scores_to_list
from harness.experiment._evaluators import LoadedEvaluator
from harness.experiment._identity import hashes_of
from harness.experiment._summary import summarise
from harness.experiment._values import ExperimentResult, TrialHashes
from harness.score import Score, TrialScores

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A baseline as an experiment compares with it."""

    trials: Mapping[tuple[str, int], Mapping[str, Score]] = field(default_factory=dict)
    """Scores by case and trial, then by name."""
    hashes: Mapping[tuple[str, int], TrialHashes] | None = None
    """What its trials gave, by case and trial; ``None`` when there is no baseline."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """Summary scores over the cases in question."""
    notes: tuple[str, ...] = ()


def read_baseline(dataset: GoldenDataset, evaluators: Sequence[LoadedEvaluator], cases: Collection[str]) -> Baseline:
    """The accepted baseline over some cases, scored by the same versions of the evaluators.

    Scores of an evaluator whose version has changed since are left out, with a note.

    Raises:
        DatasetError: baseline.json is not what ``accept`` writes.
    """
    data = dataset.read_baseline()
    if data is None:
        return Baseline()
    stored = _stored(data, dataset)
    versions = {evaluator.name: evaluator.version for evaluator in evaluators}
    known = {case.id: case for case in dataset.cases if case.id in cases}
    trials: dict[tuple[str, int], Mapping[str, Score]] = {}
    units = []
    changed: set[str] = set()
    for (case, trial), scores in stored.items():
        if case not in known:
            continue
        changed |= {s.evaluator for s in scores if versions.get(s.evaluator, s.version) != s.version}
        same = tuple(s for s in scores if versions.get(s.evaluator) == s.version)
        trials[case, trial] = {score.name: score for score in same}
        units.append(
            TrialScores(case=case, trial=trial, group=known[case].group, labels=known[case].labels, scores=same)
        )
    usable = [evaluator for evaluator in evaluators if evaluator.name not in changed]
    summary = {score.name: score for score in summarise(units, usable)} if units else {}
    notes = [_changed_note(evaluator) for evaluator in sorted(changed)]
    hashes = _hashes(data, dataset)
    if data.get("version") != dataset.version:
        notes.append(
            f"the baseline was accepted for version {data.get('version')} of {dataset.name!r}, this is version "
            f"{dataset.version}; run `goldfork baseline accept` to renew it"
        )
        # Another version may expect something else of the same output, so equal outputs prove no equal score.
        hashes = {}
    return Baseline(trials=trials, hashes=hashes, scores=summary, notes=tuple(notes))


def _changed_note(evaluator: str) -> str:
    return (
        f"evaluator {evaluator!r} has changed since the baseline was accepted, so its scores are not compared; "
        "run `goldfork baseline accept` to renew it"
    )


def _stored(data: Mapping[str, Any], dataset: GoldenDataset) -> dict[tuple[str, int], tuple[Score, ...]]:
    try:
        if data["format"] != FORMAT:
            raise DatasetError(
                f"baseline.json of {dataset.name!r} has format {data['format']!r}, this Goldfork reads {FORMAT}"
            )
        return {
            (case, trial["trial"]): scores_from_list(trial["scores"])
            for case, trials in data["cases"].items()
            for trial in trials
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise _malformed(dataset, error) from error


def _malformed(dataset: GoldenDataset, error: Exception) -> DatasetError:
    reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return DatasetError(
        f"baseline.json of {dataset.name!r} is malformed ({reason}); restore it from git, "
        "or write it again with `goldfork baseline accept`"
    )


def _hashes(data: Mapping[str, Any], dataset: GoldenDataset) -> dict[tuple[str, int], TrialHashes]:
    read = TypeAdapter(TrialHashes).validate_python
    try:
        return {
            (case, trial["trial"]): read(
                {"output": trial.get("output_hash"), "steps": trial.get("steps", {}), "trace": trial.get("trace")}
            )
            for case, trials in data["cases"].items()
            for trial in trials
        }
    except ValidationError as error:
        raise _malformed(dataset, error) from error


def accept(result: ExperimentResult, dataset: GoldenDataset) -> dict[str, Any]:
    """Make a finished experiment the baseline of its dataset, and return what was written.

    Raises:
        UsageError: It is partial, it is of another version of the dataset, or trials of it have no output.
    """
    if (result.version, result.digest) != (dataset.version, dataset.digest):
        raise UsageError(
            f"experiment {result.id} is of version {result.version} of {result.dataset!r}, the folder holds "
            f"version {dataset.version}; run `goldfork eval {dataset.path}` again and accept that one"
        )
    left_out = sorted({case.id for case in dataset.cases} - {trial.case for trial in result.trials})
    if left_out:
        raise UsageError(
            f"experiment {result.id} lacks {len(left_out)} of the dataset's cases ({left_out[0]!r} for one); "
            "a baseline covers all of them"
        )
    failed = [trial for trial in result.trials if trial.outcome.status != "ok"]
    if failed:
        raise UsageError(
            f"experiment {result.id}: case {failed[0].case!r}, trial {failed[0].trial} has no output "
            f"({len(failed)} of {len(result.trials)} trials); a baseline needs all of them"
        )
    data = _baseline_dict(result)
    dataset.write_baseline(data)
    return data


def _baseline_dict(result: ExperimentResult) -> dict[str, Any]:
    cases: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for trial in result.trials:
        hashes = hashes_of(trial.outcome)
        cases[trial.case].append(
            {
                "trial": trial.trial,
                "output_hash": trial.outcome.run.run.output_hash,
                "steps": dict(hashes.steps),
                "trace": hashes.trace,
                "scores": scores_to_list(trial.scores),
            }
        )
    return {
        "format": FORMAT,
        "experiment": result.id,
        "dataset": result.dataset,
        "version": result.version,
        "digest": result.digest,
        "target": result.target,
        "change": result.change.as_dict() if result.change else None,
        "mode": result.mode,
        "fresh": result.mode == "live",
        "measured_at": result.ended_at.isoformat(),
        "commit": commit_of(Path(result.dataset_path)),
        "scores": {score.name: score.value for score in result.scores if score.status == "scored"},
        "cases": dict(cases),
    }


def commit_of(folder: Path) -> str | None:
    """The git commit that a folder is at, ``None`` outside git."""
    try:
        found = subprocess.run(  # noqa: S603 - a fixed command
            ["git", "-C", str(folder), "rev-parse", "HEAD"],  # noqa: S607 - git from the user's path
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
