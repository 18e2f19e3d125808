"""The one sentence on top, and what the exit code means."""

from __future__ import annotations

from collections import Counter

from harness.experiment import ExperimentResult, Verdict
from harness.report._format import interval, number, one_line, plural, signed

_OUTCOMES = {
    0: "gate passed",
    1: "gate failed",
    2: "usage error",
    3: "inconclusive under --strict",
    4: "gate fails closed",
    130: "interrupted",
}


def outcome(result: ExperimentResult) -> str:
    """What the exit code means; a failed gate that was only to be reported says so."""
    if result.exit_code == 0 and any(not check.passed for check in result.checks):
        return "gate failed, reported only"
    if result.exit_code == 0 and not result.checks and not any(v.gating for v in result.verdicts.values()):
        return "no gate"
    if result.exit_code == 0 and result.verdict == "inconclusive":
        return "gate not failed"
    return _OUTCOMES.get(result.exit_code, f"exit code {result.exit_code}")


def headline(result: ExperimentResult) -> str:
    """The numbers that decided: the failed rule, else the scorer that gave the verdict, else the outputs."""
    failed = [check for check in result.checks if not check.passed]
    deciding = [
        (name, verdict)
        for name, verdict in sorted(result.verdicts.items(), key=lambda item: not item[1].gating)
        if verdict.word == result.verdict
    ]
    if result.verdict in {"improved", "regressed"} and deciding:
        return _and_more(_moved(*deciding[0]), len(deciding) - 1, "scorer")
    if failed:
        return _and_more(f"{failed[0].name}: {failed[0].reason}", len(failed) - 1, "rule")
    equal = _equal(result)
    if equal and (result.verdict == "equivalent" or not deciding):
        return equal
    differing = _differing(result)
    if differing:
        return differing
    if deciding:
        name, verdict = deciding[0]
        return _and_more(_moved(name, verdict), len(deciding) - 1, "scorer")
    return f"{plural(len(result.trials), 'trial')}, nothing to compare with"


def _differing(result: ExperimentResult) -> str:
    """How many outputs differ from the recording, and the step at which most of them first do."""
    trials = [trial for trial in result.trials if trial.equal is False]
    if not trials:
        return ""
    text = f"{len(trials)} of {plural(len(result.trials), 'output')} differ from the recording"
    steps = Counter(trial.outcome.diff.first_divergence for trial in trials if trial.outcome.diff.first_divergence)
    if not steps:
        return text
    step, count = steps.most_common(1)[0]
    return f"{text}, first at {one_line(step, 60)} in {count}; no test decides"


def _moved(name: str, verdict: Verdict) -> str:
    if verdict.difference is None or verdict.basis == "threshold":
        return f"{name}: {verdict.reason}"
    sides = f"{number(verdict.baseline)} to {number(verdict.candidate)}"
    parts = [f"{name} {sides}", f"difference {signed(verdict.difference)}"]
    if verdict.low is not None and verdict.high is not None:
        parts.append(f"interval {interval(verdict.low, verdict.high)}")
    if verdict.margin is not None:
        parts.append(f"margin {number(verdict.margin)}")
    return ", ".join(parts)


def _equal(result: ExperimentResult) -> str:
    compared = [trial for trial in result.trials if trial.equal is not None]
    if not compared or not all(trial.equal for trial in compared):
        return ""
    return f"{len(compared):,} of {plural(len(result.trials), 'output')} equal to the recording, byte for byte"


def _and_more(text: str, more: int, noun: str) -> str:
    return f"{text} (and {plural(more, f'further {noun}')})" if more > 0 else text
