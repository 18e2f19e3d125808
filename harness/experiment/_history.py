"""Experiments in the store: begun, trial by trial, finished, and read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import TypeAdapter

from harness.dataset import Case, GoldenDataset
from harness.errors import DatasetError, UsageError
from harness.experiment._encoding import (
    score_to_dict,
    scores_from_list,
    scores_to_list,
    trial_from_dict,
    trial_to_dict,
)
from harness.experiment._options import EvalOptions
from harness.experiment._values import ControlTrial, ExperimentResult, GateCheck, TrialResult, Verdict
from harness.record import RECORDED, Recording
from harness.score import Score
from harness.session import Change
from harness.store import Store

Status = Literal["running", "ok", "error", "interrupted"]
_VERDICTS = TypeAdapter(dict[str, Verdict])
_CHECKS = TypeAdapter(tuple[GateCheck, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentLine:
    """One line of a list of experiments."""

    id: str
    dataset: str
    version: int
    target: str
    mode: str
    change: Change | None
    status: Status
    """``running`` may also be a process that was killed; anything but ``ok`` can be resumed."""
    verdict: str | None
    exit_code: int | None
    started_at: datetime
    ended_at: datetime | None


def begin(
    store: Store,
    experiment: str,
    identity: Mapping[str, Any],
    started_at: datetime,
    *,
    cases: Iterable[Case] = (),
) -> None:
    """Enter a new experiment and the cases that it runs, for readers that have no dataset at hand.

    Args:
        store: Where to.
        experiment: Its id.
        identity: What a resumed one must agree with.
        started_at: Now.
        cases: A case may come more than once.
    """
    row = {
        "id": experiment,
        "status": "running",
        "started_at": started_at,
        "identity": dict(identity),
        **{name: identity[name] for name in ("dataset", "version", "digest", "target", "mode", "change")},
        "code_version": identity["code_version"],
    }
    version = {"dataset": identity["dataset"], "version": identity["version"]}
    told = {case.id: {**version, "case": case.id, **_case_row(case)} for case in cases}
    store.save_together({"experiments": [row], "cases": told.values()})


def keep_trial(store: Store, experiment: str, trial: TrialResult) -> None:
    """Commit one finished trial with its scores, all of it or nothing."""
    arm = trial.outcome.run.run.arm
    place = {"experiment": experiment, "case": trial.case, "arm": arm, "trial": trial.trial}
    record = trial.outcome.run.run
    row = {
        **place,
        "run_id": record.id,
        "status": trial.outcome.status,
        "output_hash": record.output_hash,
        "equal": trial.equal,
        "error": trial.outcome.error,
        "result": trial_to_dict(trial),
    }
    scores = [{**place, **_score_row(score)} for score in trial.scores]
    controls = [_control_row(place, control) for control in trial.controls]
    for control in trial.controls:
        scores += [{**place, "arm": control.arm, **_score_row(score)} for score in control.scores]
    # What an effect is measured from; only there where there are controls.
    scores += [{**place, "arm": RECORDED, **_score_row(score)} for score in trial.recorded_scores.values()]
    store.save_together({"scores": scores, "trials": [row, *controls]})


def finish(store: Store, result: ExperimentResult, status: Status) -> None:
    """Commit what the experiment as a whole came to, all of it or nothing."""
    row = _row(store, result.id) | {
        "status": status,
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "ended_at": result.ended_at,
        "result": {
            "dataset_path": result.dataset_path,
            "scores": scores_to_list(result.scores),
            "baseline_scores": scores_to_list(result.baseline_scores.values()),
            "verdicts": _VERDICTS.dump_python(dict(result.verdicts), mode="json"),
            "checks": _CHECKS.dump_python(result.checks, mode="json"),
            "notes": list(result.notes),
        },
    }
    scores = [{"experiment": result.id, "case": "", **_score_row(score)} for score in result.scores]
    store.save_together({"scores": scores, "experiments": [row]})


def mark(store: Store, experiment: str, status: Status, ended_at: datetime) -> None:
    """Commit that an experiment ended without a result."""
    store.save("experiments", [_row(store, experiment) | {"status": status, "ended_at": ended_at}])


def experiments(store: Store) -> list[ExperimentLine]:
    """All experiments, newest first."""
    rows = sorted(store.load("experiments"), key=lambda row: str(row["id"]), reverse=True)
    return [_line(row) for row in rows]


def find(store: Store, ref: str) -> ExperimentLine:
    """The experiment with this id or unique beginning of one; ``latest`` is the newest.

    Raises:
        UsageError: There is none, or several begin so.
    """
    known = experiments(store)
    if ref == "latest" and known:
        return known[0]
    found = [line for line in known if line.id == ref] or [line for line in known if line.id.startswith(ref)]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} experiments begin with" if found else "there is no experiment"
    raise UsageError(f"{what} {ref!r}; `goldfork experiment list` shows what the store holds")


def options_of(store: Store, experiment: str) -> EvalOptions:
    """The options that an experiment was started with, for resuming it."""
    identity = _row(store, experiment)["identity"]
    return EvalOptions(
        target=identity["target"],
        mode=identity["mode"],
        change=Change.from_dict(identity["change"]) if identity["change"] else None,
        trials=identity["trials"],
        controls=identity.get("controls", 0),
        expired=identity.get("expired", "keep"),
        allow_side_effects=identity.get("allow_side_effects", False),
        allow_undeclared=identity.get("allow_undeclared", False),
        cases=tuple(identity["cases"]),
        save_recordings=identity["save_recordings"],
        resume=experiment,
    )


def agree(store: Store, experiment: str, identity: Mapping[str, Any]) -> datetime:
    """Check that an unfinished experiment can go on as it began, and return when it began.

    Raises:
        UsageError: It is complete, or dataset, evaluators, code or options differ from those it began with.
    """
    row = _row(store, experiment)
    if row["status"] == "ok":
        raise UsageError(f"experiment {experiment} is complete; see `goldfork experiment show {experiment}`")
    for name, before in row["identity"].items():
        if identity.get(name) != before:
            raise UsageError(
                f"experiment {experiment} cannot be resumed: its {name.replace('_', ' ')} was "
                f"{_short(before)} and is now {_short(identity.get(name))}; start a new one without --resume"
            )
    store.save("experiments", [row | {"status": "running"}])
    started: datetime = row["started_at"]
    return started


def trials_of(store: Store, experiment: str, dataset: GoldenDataset | None) -> tuple[TrialResult, ...]:
    """The finished trials of an experiment, in order of case, then trial."""
    # Control forks have rows of their own for readers of the tables; here they come with their trial.
    rows = [row for row in store.load("trials", experiment=experiment) if row.get("result") is not None]
    rows.sort(key=lambda row: (row["case"], row["trial"]))
    return tuple(trial_from_dict(row["result"], run=_run(store, row), parent=_parent(dataset, row)) for row in rows)


def load_experiment(store: Store, ref: str) -> ExperimentResult:
    """A finished or interrupted experiment as it was reported.

    Raises:
        UsageError: There is none, or it ended without a result.
    """
    line = find(store, ref)
    row = _row(store, line.id)
    result = row.get("result")
    if result is None:
        raise UsageError(
            f"experiment {line.id} has no result yet (it is {line.status!r}); "
            f"finish it with `goldfork eval PATH --resume {line.id}`"
        )
    return ExperimentResult(
        id=line.id,
        dataset=line.dataset,
        dataset_path=result["dataset_path"],
        version=line.version,
        digest=row["digest"],
        target=line.target,
        mode=line.mode,
        change=line.change,
        started_at=line.started_at,
        ended_at=line.ended_at or line.started_at,
        trials=trials_of(store, line.id, _dataset(result["dataset_path"])),
        scores=scores_from_list(result["scores"]),
        baseline_scores={score.name: score for score in scores_from_list(result["baseline_scores"])},
        verdicts=_VERDICTS.validate_python(result["verdicts"]),
        checks=_CHECKS.validate_python(result["checks"]),
        verdict=row["verdict"],
        exit_code=row["exit_code"],
        notes=tuple(result["notes"]),
    )


def _row(store: Store, experiment: str) -> dict[str, Any]:
    rows = store.load("experiments", id=experiment)
    if not rows:
        raise UsageError(
            f"there is no experiment {experiment!r}; `goldfork experiment list` shows what the store holds"
        )
    return rows[0]


def _line(row: Mapping[str, Any]) -> ExperimentLine:
    same = {
        name: row[name] for name in ("id", "dataset", "version", "target", "mode", "status", "verdict", "exit_code")
    }
    change = Change.from_dict(row["change"]) if row["change"] else None
    return ExperimentLine(**same, change=change, started_at=row["started_at"], ended_at=row["ended_at"])


def _case_row(case: Case) -> dict[str, Any]:
    run = case.provenance.get("run")
    return {
        "split": case.split,
        "group": case.group,
        "tags": list(case.tags),
        "run_id": run if isinstance(run, str) else None,
        "expected_output": case.expected_output,
    }


def _control_row(place: Mapping[str, Any], control: ControlTrial) -> dict[str, Any]:
    """A control fork in the table of trials, under its own arm."""
    return {
        **place,
        "arm": control.arm,
        "run_id": control.run,
        "status": control.status,
        "output_hash": control.output_hash,
        "equal": control.equal,
        "error": control.error,
    }


def _score_row(score: Score) -> dict[str, Any]:
    return {"evaluator": score.evaluator, **score_to_dict(score)}


def _run(store: Store, row: Mapping[str, Any]) -> Recording:
    """The trial's run, with its content where the store still has it."""
    found = next(iter(store.recordings([row["run_id"]])), None)
    if found is not None:
        return found
    record = store.run(row["run_id"])
    if record is None:
        raise UsageError(f"run {row['run_id']} of case {row['case']!r} is no longer in the store")
    return Recording(run=record, steps=(), messages=(), volatile=(), read=store.read)


def _parent(dataset: GoldenDataset | None, row: Mapping[str, Any]) -> Recording | None:
    """What it was replayed from; a dataset that has moved on may hold it no more."""
    try:
        return dataset.recording(row["case"], arm=RECORDED, trial=row["trial"]) if dataset else None
    except DatasetError:
        return None


def _dataset(path: str) -> GoldenDataset | None:
    try:
        return GoldenDataset.load(path)
    except DatasetError:
        return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
