"""Scoring one trial: calling an evaluator under its own arm, and turning what happens into scores."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.dataset import Case, GoldenDataset
from harness.errors import (
    DatasetMissing,
    EvaluatorError,
    RecordingMissing,
    SideEffectBlocked,
    StatefulFork,
    ToolUndeclared,
)
from harness.experiment._evaluators import LoadedEvaluator
from harness.experiment._executor import in_thread
from harness.experiment._options import EvalOptions
from harness.experiment._pace import Pace, TooLong
from harness.experiment._pricing import Prices, priced_run
from harness.pipeline import plain
from harness.record import MessageRecord, Recording, StepRecord
from harness.replay import Counts, RunOutcome, count_attempts
from harness.score import EvaluatorContext, Score, to_scores
from harness.session import Mode, RecordedAnswers, RunPlan, RunState, Sink, planned, recording_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What one evaluator made of one trial."""

    scores: tuple[Score, ...]
    recording: Recording | None = None
    """Its own calls, when a new one was among them; ``None`` when there is nothing to keep."""
    arm: str = ""
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Scores trials of one experiment."""

    dataset: GoldenDataset
    options: EvalOptions
    experiment: str
    sink: Sink
    pace: Pace
    produced: str | None = None
    """The arm of the run whose output is scored; ``None`` for the recorded output."""

    async def score(self, evaluator: LoadedEvaluator, case: Case, trial: int, outcome: RunOutcome) -> Scored:
        """Call one evaluator for one trial; whatever goes wrong in it becomes a failed score with the reason."""
        if outcome.status != "ok":
            why = outcome.misses[0] if outcome.misses else outcome.error
            return Scored(scores=_failed(evaluator, f"the run gave no output: {why}"))
        try:
            context = _context(evaluator, case, trial, outcome)
        except (EvaluatorError, DatasetMissing) as error:
            return Scored(scores=_failed(evaluator, str(error)))
        plan = self._plan(evaluator, case, trial)
        attempts: list[list[RunState]] = []
        scores = await self._attempts(evaluator, context, plan, attempts)
        counts = _counts(attempts, self.dataset.prices)
        runs = [run for attempt in attempts for run in attempt]
        return Scored(scores=scores, recording=_fresh(runs), arm=plan.arm, counts=counts)

    async def _attempts(
        self, evaluator: LoadedEvaluator, context: EvaluatorContext, plan: RunPlan, attempts: list[list[RunState]]
    ) -> tuple[Score, ...]:
        """Call it, again when its provider refused and said when to come back; ``attempts`` receives their runs."""
        for attempt in itertools.count(1):
            await self.pace.ready(evaluator.name)
            opened: list[RunState] = []
            scores = await _scores(evaluator, context, plan, opened)
            attempts.append(opened)
            messages = [message for run in opened for message in run.messages]
            self.pace.note(evaluator.name, messages)
            try:
                failed = all(score.status == "failed" for score in scores)
                if not failed or not self.pace.again(messages, attempt):
                    return scores
            except TooLong as reason:
                return tuple(replace(score, reason=f"{score.reason}; {reason}") for score in scores)
            own = (recording_of(run) for run in opened[::-1])
            known = plan.resolver.recordings if plan.resolver is not None else ()
            plan = replace(plan, mode=Mode.AUTO, resolver=RecordedAnswers(*own, *known, errors=False))
        raise AssertionError("counting does not end")

    def _plan(self, evaluator: LoadedEvaluator, case: Case, trial: int) -> RunPlan:
        """Its calls are answered from its own recordings: those on this fork's output, then those on the recorded."""
        mode = Mode(self.options.mode)
        arms = [evaluator.arm] if self.produced is None else [f"{evaluator.arm}+{self.produced}", evaluator.arm]
        found = [self.dataset.recording(case.id, arm=arm, trial=trial) for arm in arms] if mode is not Mode.LIVE else []
        return RunPlan(
            mode=mode,
            sink=self.sink,
            resolver=RecordedAnswers(*(one for one in found if one is not None), errors=mode is Mode.REPLAY),
            arm=arms[0],
            trial=trial,
            case=case.id,
            experiment=self.experiment,
            dry=True,
            on_store_error="raise",
            name=f"evaluator:{evaluator.name}",
            keep=True,
        )


async def _scores(
    evaluator: LoadedEvaluator, context: EvaluatorContext, plan: RunPlan, runs: list[RunState]
) -> tuple[Score, ...]:
    """One call, turned into scores; whatever goes wrong in it becomes a failed score with the reason."""
    try:
        result = await _call(evaluator, context, plan, runs)
        missed = next((miss for run in runs for miss in run.misses), None)
        if missed is not None:
            return _failed(evaluator, _missing(missed))
        return _distinct(to_scores(result, name=evaluator.name, evaluator=evaluator.name, version=evaluator.version))
    except RecordingMissing as error:
        return _failed(evaluator, _missing(str(error)))
    except (ToolUndeclared, SideEffectBlocked, StatefulFork) as error:
        return _failed(evaluator, str(error))
    except Exception as error:  # noqa: BLE001 - a plugin's crash is a failed score, never the end of the experiment
        return _failed(evaluator, f"{type(error).__name__}: {error}")


def _distinct(scores: tuple[Score, ...]) -> tuple[Score, ...]:
    names = [score.name for score in scores]
    for name in names:
        if names.count(name) > 1:
            raise EvaluatorError(f"it yielded two scores named {name!r}; give each a name of its own")
    return scores


async def _call(evaluator: LoadedEvaluator, context: EvaluatorContext, plan: RunPlan, runs: list[RunState]) -> Any:
    """Call it: on the event loop when it is async, else in a thread. ``runs`` receives the runs it opens."""
    arguments = evaluator.arguments(context)

    def blocking() -> Any:
        with planned(plan) as opened:
            try:
                return evaluator.call(**arguments)
            finally:
                runs.extend(opened)

    if not _is_async(evaluator.call):
        return await in_thread(blocking)
    with planned(plan) as opened:
        try:
            return await evaluator.call(**arguments)
        finally:
            runs.extend(opened)


def _is_async(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


def _context(evaluator: LoadedEvaluator, case: Case, trial: int, outcome: RunOutcome) -> EvaluatorContext:
    step = None if evaluator.step is None else find_step(outcome.run, evaluator.step)
    return EvaluatorContext(
        input=case.input,
        output=outcome.output if step is None else _output_of(step, outcome.run),
        expected_output=case.expected_output,
        metadata=case.metadata,
        case=case,
        run=outcome.run,
        step=step,
        trial=trial,
    )


def find_step(run: Recording, name: str) -> StepRecord:
    """The step with this address, or the only one of this name.

    Raises:
        EvaluatorError: There is none, or the name stands for several.
    """
    exact = [step for step in run.steps if step.address == name]
    found = exact or [step for step in run.steps if step.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise EvaluatorError(f"step {name!r} stands for {', '.join(step.address for step in found)}; name one of them")
    known = ", ".join(sorted({step.name for step in run.steps if step.parent_id is not None})) or "none"
    raise EvaluatorError(f"the run has no step {name!r}; its steps are {known}")


def _output_of(step: StepRecord, run: Recording) -> Any:
    if step.status != "ok":
        raise EvaluatorError(f"step {step.address!r} gave no output: {step.error}")
    if step.output_hash is None:
        raise EvaluatorError(f"the output of step {step.address!r} could not be serialised")
    return plain(run.read(step.output_hash))


def _failed(evaluator: LoadedEvaluator, reason: str) -> tuple[Score, ...]:
    score = Score(
        name=evaluator.name, status="failed", reason=reason, evaluator=evaluator.name, version=evaluator.version
    )
    return (score,)


def _missing(reason: str) -> str:
    return f"its own model call is not recorded: {reason}"


def newly_answered(messages: Iterable[MessageRecord]) -> bool:
    """Whether a provider (or a local model) gave one of the answers just now."""
    return any(message.cache_state == "live" and message.status == "ok" for message in messages)


def _fresh(runs: Sequence[RunState]) -> Recording | None:
    """The recording of the evaluator's last run, which holds all its answers, when one of them is new."""
    new = any(newly_answered(run.messages) for run in runs)
    return recording_of(runs[-1]) if new else None


def _counts(attempts: Sequence[Sequence[RunState]], prices: Prices) -> Counts:
    """What its model calls cost and saved; steps and tools of an evaluator are no steps of the run."""
    if not attempts:
        return Counts()
    total = count_attempts([[priced_run(recording_of(run), prices) for run in attempt] for attempt in attempts])
    return replace(total, steps_reused=0, steps_run=0, tools_answered=0, tools_called=0, tools_dry=0)
