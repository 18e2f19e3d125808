"""Trials made by hand."""

from datetime import UTC, datetime

import pytest

from harness.canonical import canonical_json, content_hash
from harness.experiment import TrialResult
from harness.record import Recording, RunRecord
from harness.replay import Counts, RunDiff, RunOutcome
from harness.score import Score

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def make_trial():
    """A factory of trials: ``values`` by scorer; ``before`` is the recorded output."""

    def make(
        case="a", trial=0, *, output="same", before="same", values=None, scores=None, error=None, misses=(), group=None
    ):
        failed = error is not None or bool(misses)
        run = RunRecord(
            id=f"run-{case}-{trial}",
            workflow="toy",
            status="error" if failed else "ok",
            mode="replay",
            started_at=NOON,
            output_hash=None if failed else content_hash(canonical_json(output)),
        )
        recording = Recording(run=run, steps=(), messages=(), volatile=(), read=lambda digest: b"")
        diff = RunDiff(
            steps=(), first_divergence=None if output == before else "toy", output_equal=output == before, output=()
        )
        outcome = RunOutcome(
            run=recording,
            parent=None,
            output=None if failed else output,
            error=error,
            misses=tuple(misses),
            blocked=(),
            change=None,
            counts=Counts(tokens_saved=10),
            diff=diff,
        )
        if scores is None:
            scores = [
                Score(name=name, value=value, evaluator=name, version="1") for name, value in (values or {}).items()
            ]
        return TrialResult(
            case=case,
            trial=trial,
            split="test",
            group=group,
            tags=(),
            input={"text": case},
            expected_output=None,
            outcome=outcome,
            recorded_output_hash=content_hash(canonical_json(before)),
            scores=tuple(scores),
        )

    return make
