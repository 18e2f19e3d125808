"""Starting and ending a step: what every kind of step function shares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.canonical import canonical_json, content_hash
from harness.errors import ChangeError
from harness.pipeline._environment import environment_of
from harness.pipeline._reuse import take_over
from harness.pipeline._snapshot import Snapshot, fixed, output_snapshot, restore, snapshot
from harness.record import Status, StepKind, StepRecord
from harness.session import Frame, RunState, StepAnswer, StepHandle, StepStart, call_frame, new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """What a decorator declares about a step."""

    name: str
    kind: StepKind
    signature: inspect.Signature
    function: Callable[..., Any] | None = None
    """The body; ``None`` for a ``with`` block, which has no function."""
    ignore: tuple[str, ...] = ()
    """Parameters left out of the content key: clocks, run ids."""
    skippable: bool = True
    """Whether a fork may skip the body; a ``with`` block's body always runs."""


@dataclass(slots=True)
class Begun:
    """A step that has started."""

    frame: Frame
    arguments: inspect.BoundArguments
    spec: StepSpec
    before: Snapshot | None
    """Snapshot of the arguments."""
    started: float
    answer: StepAnswer | None = None
    """The recorded step that proves the body may be skipped."""
    forced: tuple[Any] | None = None
    """The output that the fork's change dictates."""

    @property
    def skipped(self) -> bool:
        """Whether the body is not run."""
        return self.answer is not None or self.forced is not None


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """Arguments by name, defaults applied."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound


def begin(spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Begun:
    """Start a step under the current frame: apply a declared input change, snapshot, ask for reuse, record."""
    parent = call_frame()
    run = parent.run
    bound = bind(spec.signature, args, kwargs)
    scope = parent.scope
    occurrence = run.occurrence("step", scope, spec.name)
    forced = _apply_change(parent, spec, bound, scope, occurrence) if spec.skippable else None
    before = snapshot(bound.arguments, run, ordered=False)
    key = step_key(spec, bound, run, before)
    environment = _environment(spec, bound)
    answer = None
    if spec.skippable and run.plan.resolver is not None and before is not None:
        start = StepStart(name=spec.name, scope=scope, occurrence=occurrence, key=key, environment=environment)
        found = run.plan.resolver.reuse(start)
        # A dictated step is asked for too: it is a visit, and the next equal one takes the next recorded step.
        answer = found if forced is None else None
    record = StepRecord(
        id=new_id(),
        run_id=run.id,
        parent_id=parent.step.record.id,
        seq=run.next_seq(),
        name=spec.name,
        kind=spec.kind,
        scope=scope,
        occurrence=occurrence,
        key=key,
        status="running",
        version=environment,
        input_hash=before.hash if before else None,
        started_at=run.plan.clock.now(),
    )
    if answer is None:
        run.emit(record, blobs={before.hash: before.data} if before else None)
    inner = f"{scope}/{spec.name}" if scope else spec.name
    frame = Frame(run, StepHandle(record), inner, parent)
    if frame.step.lane != parent.step.lane:
        run.beside.add(record.id)
    return Begun(frame, bound, spec, before, run.plan.clock.monotonic(), answer, forced)


def _environment(spec: StepSpec, bound: inspect.BoundArguments) -> str | None:
    if spec.function is None or not spec.skippable:
        return None
    return environment_of(spec.function, bound.arguments.values()).digest


def step_key(spec: StepSpec, bound: inspect.BoundArguments, run: RunState, inputs: Snapshot | None) -> str:
    """Content key of a step: its name and its canonical inputs without the ignored ones."""
    if spec.ignore:
        counted = {name: value for name, value in bound.arguments.items() if name not in spec.ignore}
        inputs = snapshot(counted, run, ordered=False)
    digest = inputs.hash if inputs else "unserialisable"
    return content_hash(canonical_json({"step": spec.name, "inputs": digest}))


def _apply_change(
    parent: Frame, spec: StepSpec, bound: inspect.BoundArguments, scope: str, occurrence: int
) -> tuple[Any] | None:
    forced: tuple[Any] | None = None
    for change in parent.run.plan.changes:
        if change.kind not in {"input", "output"} or not change.addresses(scope, spec.name, occurrence):
            continue
        parent.run.apply(change)
        if change.kind == "output":
            forced = (change.value,)
        else:
            change_input(bound, change.name, change.value, spec.name)
    return forced


def change_input(bound: inspect.BoundArguments, name: str, value: Any, step: str) -> None:
    """Replace one argument, or all of them when no name is given.

    Raises:
        ChangeError: There is no such parameter.
    """
    values = {name: value} if name else value
    if not isinstance(values, Mapping):
        raise ChangeError(
            f"the new input of {step!r} must be an object with its parameters, or name one: input:NAME=VALUE"
        )
    for key, item in values.items():
        if key not in bound.arguments:
            known = ", ".join(bound.arguments) or "none"
            raise ChangeError(f"step {step!r} has no parameter {key!r}; it has: {known}")
        bound.arguments[key] = item


def end(begun: Begun, output: Any, *, reusable: bool = True) -> None:
    """Record a step that returned; not ``reusable`` is one whose output alone does not stand for its body."""
    frame, run = begun.frame, begun.frame.run
    after = output_snapshot(output, run)
    # A credential that was starred out of the output would reach whoever is given it as stars.
    starred = after is not None and after.masked and frame.step.record.kind != "tool"
    mutated = not reusable or starred or arguments_changed(begun) or _left_traces(begun)
    record = replace(
        frame.step.record,
        status="ok",
        output_hash=after.hash if after else None,
        output_order=after.order_hash if after else None,
        mutated=mutated,
        duration_ms=_elapsed(begun),
    )
    frame.step.record = record
    run.emit(record, blobs=after.blobs if after else None)


def arguments_changed(begun: Begun) -> bool:
    """Whether the body changed an argument."""
    arguments = begun.arguments.arguments
    if begun.before is not None and all(map(fixed, arguments.values())):
        return False
    again = snapshot(arguments, begun.frame.run, ordered=False)
    return (again.hash if again else None) != (begun.before.hash if begun.before else None)


def _left_traces(begun: Begun) -> bool:
    """Whether the body changed something outside itself that it reads: a global, a cache, a closure cell."""
    before = begun.frame.step.record.environment
    return before is not None and not begun.skipped and _environment(begun.spec, begun.arguments) != before


def fail(begun: Begun, error: BaseException) -> None:
    """Record a step that raised."""
    frame = begun.frame
    status: Status = "interrupted" if isinstance(error, GeneratorExit | KeyboardInterrupt) else "error"
    text = frame.run.masked_text(describe(error))
    record = replace(frame.step.record, status=status, error=text, duration_ms=_elapsed(begun))
    frame.step.record = record
    frame.run.emit(record)


def skip(begun: Begun) -> Any:
    """Record a step whose body is not run, and return its output."""
    if begun.forced is not None:
        end(begun, begun.forced[0])
        return begun.forced[0]
    if begun.answer is None:
        raise AssertionError("skip() is called only for skipped steps")
    data = begun.answer.output()
    if data is None or begun.before is None:
        raise AssertionError(f"step {begun.answer.step.address!r} was offered for reuse without its content")
    record = replace(
        begun.frame.step.record,
        status="ok",
        state="reused",
        output_hash=begun.answer.step.output_hash,
        output_order=begun.answer.step.output_order,
        reused_from=begun.answer.step.id,
        duration_ms=_elapsed(begun),
    )
    records, blobs = take_over(begun.frame, begun.answer)
    blobs[begun.before.hash] = begun.before.data
    begun.frame.run.emit(record, *records, blobs=blobs)
    return restore(data)


def describe(error: BaseException) -> str:
    """``Type: message`` of an error."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _elapsed(begun: Begun) -> float:
    return (begun.frame.run.plan.clock.monotonic() - begun.started) * 1000
