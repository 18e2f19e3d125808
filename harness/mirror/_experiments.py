"""Experiments of ours as experiments of Langfuse, which hold one item for each case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.errors import GoldforkError
from harness.mirror._dictionary import bounded
from harness.record import RECORDED
from harness.redact import Redactor
from harness.session import Change

_LONGEST_ARM: Final = 80


def experiment_id(experiment: Mapping[str, Any], *, arm: str = RECORDED, trial: int = 0) -> str:
    """The experiment that a trial stands in, redacted the same way wherever it is named; see ``suffix``.

    Args:
        experiment: Its row of the experiments table.
        arm: Of the trial.
        trial: Which repetition, from 0.
    """
    return f"{Redactor().text(str(experiment['id']))}{suffix(experiment, arm=arm, trial=trial)}"


def suffix(experiment: Mapping[str, Any], *, arm: str, trial: int) -> str:
    """What tells the experiment of an arm and a trial from that of the first trials.

    One item shows one run: controls, evaluators' own runs and repetitions would overwrite each other.
    """
    own = "" if arm == own_arm(experiment) else f"-{bounded(Redactor().text(arm), _LONGEST_ARM)}"
    return f"{own}-t{trial}" if trial else own


def own_arm(experiment: Mapping[str, Any]) -> str:
    """The arm that an experiment is about: the fork of its change, else the target as it is."""
    change = experiment.get("change")
    if not change:
        return RECORDED
    try:
        return Change.from_dict(change).arm
    except (GoldforkError, KeyError, TypeError):
        # Written by another version.
        return RECORDED
