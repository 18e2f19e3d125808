"""Starting and ending a step: what every kind of step function shares."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.canonical import canonical_json, content_hash, from_canonical
from harness.errors import ChangeError, UsageError
from harness.pipeline._environment import Environment, environment_of
from harness.pipeline._handed import handed_over
from harness.pipeline._mutated import changed_arguments, note_mutation
from harness.pipeline._raised import raised_snapshot
from harness.pipeline._reuse import pass_over, take_over
from harness.pipeline._sharing import is_shared
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


def signature_of(target: Callable[..., Any], what: str) -> inspect.Signature:
    """The parameters of a function that becomes a step or a tool.

    Raises:
        UsageError: It is none that was written in Python, so that it has no name or tells no parameters.
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        signature = None
    if signature is None or not hasattr(target, "__qualname__"):
        raise UsageError(f"{what}() takes a function, and {target!r} is none that it can read; write one that calls it")
    return signature


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """Arguments by name, defaults applied."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound


def begin(spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Begun:
    """Start a step under the current frame: apply a declared input change, snapshot, ask for reuse, record."""
    parent = call_frame(f"step {spec.name!r}")
    run = parent.run
    bound = bind(spec.signature, args, kwargs)
    scope = parent.scope
    occurrence = run.occurrence("step", scope, spec.name)
    forced = _apply_change(parent, spec, bound, scope, occurrence) if spec.skippable else None
    before = snapshot(bound.arguments, run, ordered=False)
    key = step_key(spec, bound, run, before)
    environment = _environment(spec, bound).digest
    answer = None
    if spec.skippable and run.plan.resolver is not None and before is not None:
        start = StepStart(name=spec.name, scope=scope, occurrence=occurrence, key=key, environment=environment)
        if forced is None:
            answer = run.plan.resolver.reuse(start)
        elif (stands_for := run.plan.resolver.passed(start)) is not None:
            pass_over(run, stands_for)
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


def _environment(spec: StepSpec, bound: inspect.BoundArguments) -> Environment:
    if spec.function is None or not spec.skippable:
        return Environment(None)
    return environment_of(spec.function, bound.arguments.values())


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
            forced = (handed_over(change.value),)
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
        bound.arguments[key] = handed_over(item)


def end(begun: Begun, output: Any, *, reusable: bool = True) -> None:
    """Record a step that returned; not ``reusable`` is one whose output alone does not stand for its body."""
    frame, run = begun.frame, begun.frame.run
    after = output_snapshot(output, run)
    # A credential that was starred out of the output would reach whoever is given it as stars.
    tool = frame.step.record.kind == "tool"
    starred = after is not None and after.masked
    mutated = _changed_something(begun, output) or not reusable or (not tool and (starred or frame.step.annotated))
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
    """Whether the body changed an argument; each one is noted with the run."""
    arguments, run = begun.arguments.arguments, begun.frame.run
    if begun.before is not None and all(map(fixed, arguments.values())):
        return False
    if begun.before is not None and begun.spec.kind == "tool":
        # Of a method's the object it is called on may be left out.
        arguments = {name: arguments[name] for name in from_canonical(begun.before.data)}
    again = snapshot(arguments, run, ordered=False)
    if (again.hash if again else None) == (begun.before.hash if begun.before else None):
        return False
    if begun.before is not None:
        for finding in changed_arguments(arguments, begun.before, again, run):
            note_mutation(run, begun.frame.step.record.address, finding)
    return True


def _changed_something(begun: Begun, output: Any) -> bool:
    """Whether the body changed an argument or something outside itself that it reads, or handed such a thing out."""
    changed = arguments_changed(begun)
    record = begun.frame.step.record
    before = record.environment
    if before is None or begun.skipped:
        return changed
    now = _environment(begun.spec, begun.arguments)
    if now.digest != before:
        note_mutation(
            begun.frame.run, record.address, {"argument": None, "path": None, "before": before, "after": now.digest}
        )
        return True
    return changed or is_shared(output, begun.arguments.arguments.values(), now.reached)


def fail(begun: Begun, error: BaseException, *, raised: Snapshot | None = None) -> None:
    """Record a step that raised, a tool with the error itself: ``raised``, where it came from a recording."""
    frame = begun.frame
    left = isinstance(error, GeneratorExit | KeyboardInterrupt | asyncio.CancelledError)
    status: Status = "interrupted" if left else "error"
    text = frame.run.masked_text(describe(error))
    if raised is None and frame.step.record.kind == "tool" and not left:
        raised = raised_snapshot(error, frame.run)
    record = replace(
        frame.step.record,
        status=status,
        error=text,
        output_hash=raised.hash if raised else None,
        duration_ms=_elapsed(begun),
    )
    frame.step.record = record
    frame.run.emit(record, blobs=raised.blobs if raised else None)


def skip(begun: Begun) -> Any:
    """Record a step whose body is not run, and return its output."""
    if begun.forced is not None:
        begun.frame.step.record = replace(begun.frame.step.record, state="answered")
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
