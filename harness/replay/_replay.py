"""Running a pipeline again with every answer from a recording, or afresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from harness.record import Recording
from harness.replay._arguments import recorded_input
from harness.replay._options import Place, ReplayOptions
from harness.replay._running import execute, loaded_target, parent_recording, run_plan
from harness.replay._values import RunOutcome
from harness.session import Clock, Mode, RecordedAnswers, Sink


def replay_run(
    run: Recording | str,
    *,
    target: Callable[..., Any] | None = None,
    mode: Mode | str = Mode.REPLAY,
    earlier: Sequence[Recording] = (),
    sink: Sink | None = None,
    options: ReplayOptions | None = None,
) -> RunOutcome:
    """Run the current code with every answer taken from a recording.

    Args:
        run: The recording, or what ``find_recording`` takes: a run id, a workflow's name, ``DATASET:CASE``.
        target: The pipeline; by default the loaded workflow of that name. Its input is the recording's.
        mode: ``replay`` (what is not recorded is missing) or ``auto`` (it is called and recorded).
        earlier: Failed attempts at this very run; what they were answered comes before the recording.
        sink: Where the new run is recorded; nowhere by default.
        options: Its circumstances: place, code version and clock.

    Returns:
        The outcome; what the pipeline raises is in it.

    Raises:
        UsageError: There is no such recording, it was imported, no such workflow is loaded, or ``options`` ask for
            what only a fork does.
    """
    options = options or ReplayOptions()
    options.require_no_fork("a replay")
    parent = parent_recording(run)
    target = target or loaded_target(parent)
    mode = Mode(mode)
    plan = replace(
        run_plan(mode, sink, options),
        resolver=RecordedAnswers(*earlier, parent, errors=mode is Mode.REPLAY),
        parent_run_id=parent.run.id,
        dry=True,
    )
    return execute(target, recorded_input(parent), plan, parent=parent)


def live_run(
    target: Callable[..., Any],
    inputs: Any,
    *,
    place: Place | None = None,
    sink: Sink | None = None,
    code_version: str | None = None,
    dry: bool = True,
    parent: Recording | None = None,
    clock: Clock | None = None,
) -> RunOutcome:
    """Run a pipeline afresh against the provider and record it.

    Args:
        target: The pipeline.
        inputs: Its input: an object with its parameters, or its single argument.
        place: Case, trial and experiment of the run.
        sink: Where the run is recorded; nowhere by default.
        code_version: Version of the code, kept with the run.
        dry: Whether side effects are kept dry.
        parent: An earlier run to compare with; answers nothing.
        clock: Time of the run, by which shared tool results expire too; the machine's by default.
    """
    options = ReplayOptions(place=place or Place(), code_version=code_version, clock=clock)
    return execute(target, inputs, replace(run_plan(Mode.LIVE, sink, options), dry=dry), parent=parent)
