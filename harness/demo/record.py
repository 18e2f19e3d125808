"""Recording the demo afresh: every case against an OpenAI-compatible endpoint, then the fork, then the scores.

Each stage keeps what is there, so that an interrupted recording goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import resources

from harness.dataset import GoldenDataset
from harness.errors import UsageError
from harness.experiment import EvalOptions, ExperimentResult, Progress, run_experiment
from harness.record import RECORDED
from harness.replay import Place, code_version, live_run, load_target
from harness.session import Change
from harness.store import Store

__all__ = ["record_fork", "record_runs", "record_scores", "shorter_draft", "unrecorded"]

Say = Callable[[str], None]
"""Receives one line of progress."""

# One at a time: a local model has one core, and a hosted one is not asked for much.
_AUTO = EvalOptions(mode="auto", concurrency=1, save_recordings=True, report_only=True)


def shorter_draft() -> Change:
    """The change that the shipped fork arm was recorded with: a prompt that asks for a single plain sentence."""
    text = resources.files("harness.demo").joinpath("data", "draft_short.txt").read_text(encoding="utf-8")
    return Change(kind="prompt", at="draft", name="draft", value=text)


def unrecorded(dataset: GoldenDataset) -> None:
    """Take the recordings out of every case, and the labels, which belong to recorded outputs."""
    for case in dataset.cases:
        dataset.put_case(case.model_copy(update={"recordings": (), "labels": {}}))


def record_runs(dataset: GoldenDataset, store: Store, *, say: Say) -> None:
    """Run every case that has no recording yet, side effects included, and keep its recording.

    Raises:
        UsageError: A case fails; what was recorded before it stays.
    """
    target = load_target(dataset.target)
    version = code_version(dataset.code)
    for case in dataset.cases:
        if any(ref.arm == RECORDED for ref in case.recordings):
            continue
        outcome = live_run(target, case.input, place=Place(case=case.id), sink=store, code_version=version, dry=False)
        if outcome.status != "ok":
            raise UsageError(f"case {case.id!r} could not be recorded: {outcome.error}; run the command again")
        dataset.put_recording(case.id, outcome.run)
        say(f"recorded {case.id} in {outcome.duration_ms / 1000:.0f} s")


def record_fork(dataset: GoldenDataset, store: Store, *, say: Say) -> None:
    """Fork every case with ``shorter_draft`` and keep what the provider answered; nothing is scored yet."""
    _experiment(dataset, store, replace(_AUTO, change=shorter_draft(), evaluators=()), say)


def record_scores(dataset: GoldenDataset, store: Store, *, say: Say) -> tuple[ExperimentResult, ExperimentResult]:
    """Score the recorded runs and the fork with the dataset's evaluators and keep their model calls."""
    recorded = _experiment(dataset, store, _AUTO, say)
    return recorded, _experiment(dataset, store, replace(_AUTO, change=shorter_draft()), say)


def _experiment(dataset: GoldenDataset, store: Store, options: EvalOptions, say: Say) -> ExperimentResult:
    def tell(progress: Progress) -> None:
        if progress.last is not None:
            say(f"{progress.done} of {progress.total}: {progress.last.case}")

    return run_experiment(dataset, options, store=store, progress=tell)
