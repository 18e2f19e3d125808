"""What a trial is of, and what all trials of an experiment share."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.dataset import Case, GoldenDataset
from harness.experiment._evaluators import LoadedEvaluator
from harness.experiment._options import EvalOptions
from harness.experiment._pace import Pace
from harness.experiment._values import TrialHashes
from harness.replay import Meaning, NullReplay, meaning_by
from harness.score import Score
from harness.session import Sink


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done: one case, one repetition."""

    case: Case
    trial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all trials of an experiment share."""

    id: str
    dataset: GoldenDataset
    options: EvalOptions
    target: Callable[..., Any]
    evaluators: tuple[LoadedEvaluator, ...]
    sink: Sink
    code_version: str | None
    """Digest of the code under evaluation; a fork skips a step only if it equals the recording's."""
    baseline: Mapping[tuple[str, int], Mapping[str, Score]]
    """Accepted scores by case and trial, then by name."""
    baseline_hashes: Mapping[tuple[str, int], TrialHashes] | None
    """What the accepted baseline's trials gave, ``None`` without a baseline."""
    pace: Pace
    meaning: Meaning = field(default_factory=functools.partial(meaning_by, ""))
    """What measures how far two outputs are apart in meaning."""
    nulls: Mapping[tuple[str, int], NullReplay] = field(default_factory=dict)
    """What the current code gives without the change, by case and trial; only of trials that are forked."""
    saving: threading.Lock = field(default_factory=threading.Lock)
    """Held while a case file is rewritten, which trials of one case would do at the same time."""
