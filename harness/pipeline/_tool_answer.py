"""A tool call that is not to touch the world: what answers it, what is kept dry, what is refused."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any

from harness.canonical import canonical_json
from harness.errors import RecordingMissing, SideEffectBlocked, ToolUndeclared
from harness.pipeline._begin import Begun, StepSpec, describe, end, fail
from harness.pipeline._codec import NotReusable
from harness.pipeline._handed import another
from harness.pipeline._raised import raised_again
from harness.pipeline._snapshot import Snapshot, plain, restore
from harness.record import Determinism, StepState
from harness.session import MUTATIONS, Mode, StepAnswer, ToolCall

UNSET: Any = object()
"""No stand-in was declared; ``None`` would be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a tool declares."""

    step: StepSpec
    determinism: Determinism | None
    ttl: float | None
    version: str
    """Empty where none is declared, until the call."""
    stand_in: Any
    """Value, or function of the same parameters, returned when a side effect is kept dry; of an async tool the function
    may be async."""
    cache: bool = False
    """Whether live runs may share a result through the store."""
    home: str = ""
    """Module and name of the function: two tools of one name share no results."""


class StoodIn:
    """What an async stand-in will give, which only an async tool can wait for."""

    def __init__(self, begun: Begun, result: Awaitable[Any]) -> None:
        self._begun, self._result = begun, result

    async def output(self) -> Any:
        """Wait for it and record it."""
        try:
            output = await self._result
        except BaseException as error:
            fail(self._begun, error)
            raise
        end(self._begun, output)
        return output


def is_called(stand_in: Any) -> bool:
    """Whether a stand-in is a function to be called; a class, or an object that can be called, is a value."""
    # A partial of a class makes an object as the class does, so it is called for what it says: a function.
    return inspect.isroutine(stand_in) or isinstance(stand_in, functools.partial)


def without_body(spec: ToolSpec, begun: Begun, call: ToolCall) -> tuple[Any] | None:
    """What the call gives without touching the world, or ``None`` when the tool is to be called."""
    plan = begun.frame.run.plan
    if not plan.dry and plan.mode in {Mode.LIVE, Mode.OFF}:
        return None
    if spec.determinism is None:
        raise _stop(begun, ToolUndeclared, _undeclared(begun))
    touched = plan.resolver is not None and plan.resolver.touches(call)
    # Two calls whose arguments are unknown must never be taken for the same.
    known = begun.before is not None
    found = plan.resolver.tool(call) if plan.resolver is not None and known and not touched else None
    if spec.determinism == "side-effect" and plan.dry:
        if not plan.allow_side_effects:
            return _dry(spec, begun, found, touched=touched)
        if found is None and any(run_id != plan.parent_run_id for run_id in _cut_short(begun, call)):
            raise _stop(begun, SideEffectBlocked, _perhaps_done(spec))
        found = found if _executed_before(begun, found) else None
    if touched:
        # What it was recorded to return came of calls that the change alters; those are made again inside.
        return None
    if found is not None:
        return (_recorded(begun, found, "answered"),)
    if plan.mode is Mode.REPLAY:
        raise _stop(begun, RecordingMissing, _missing(spec, begun, call))
    return None


def _executed_before(begun: Begun, found: StepAnswer | None) -> bool:
    """Whether an earlier attempt at this very fork executed the effect, which must not happen twice."""
    if found is None or found.recording.run.id == begun.frame.run.plan.parent_run_id:
        return False
    return found.step.state in {"called", "answered"}


def _cut_short(begun: Begun, call: ToolCall) -> list[str]:
    """Ids of the runs in which this very call was cancelled before it gave anything."""
    resolver = begun.frame.run.plan.resolver
    return [
        step.run_id
        for recording in (resolver.recordings if resolver else ())
        for step in recording.steps
        if (step.kind, step.status) == ("tool", "interrupted")
        and (step.scope, step.key, step.occurrence) == (call.scope, call.key, call.occurrence)
    ]


def _perhaps_done(spec: ToolSpec) -> str:
    return (
        f"side effect {spec.step.name!r} was cancelled while an earlier attempt at this fork executed it, so it may "
        "have happened; look at what it does, and fork the run anew"
    )


def _undeclared(begun: Begun) -> str:
    record = begun.frame.step.record
    step = f"step {record.scope!r}" if record.scope else "the workflow itself"
    return (
        f"tool {record.name!r}, called in {step}, declares no determinism, so a replay cannot tell whether to run it; "
        'write @harness.tool(determinism="deterministic"), "time-bound" or "side-effect"'
    )


def _missing(spec: ToolSpec, begun: Begun, call: ToolCall) -> str:
    arguments = plain(begun.before.data) if begun.before else "(unserialisable)"
    shown = canonical_json(arguments).decode()[:200]
    others = {
        step.version
        for recording in (begun.frame.run.plan.resolver.recordings if begun.frame.run.plan.resolver else ())
        for step in recording.steps
        if step.kind == "tool" and step.name == call.name and step.scope == call.scope
    }
    if begun.before is None:
        why = "they cannot be serialised, so no recorded call can be told to be the same (register_codec helps)"
    elif _cut_short(begun, call):
        why = "its recorded call was cancelled before it gave a result, which is no answer"
    elif not others:
        why = "the recording holds no call of this tool here"
    elif spec.version not in others:
        why = f"its version is {spec.version!r}, the recording holds {', '.join(sorted(map(str, others)))}"
    else:
        why = "the recording holds it with other arguments, or fewer times"
    where = f"{call.scope}/{call.name}" if call.scope else call.name
    return f"tool {where!r} was not recorded with arguments {shown}: {why}; use --mode auto to call it"


def _dry(spec: ToolSpec, begun: Begun, found: StepAnswer | None, *, touched: bool) -> tuple[Any]:
    run, record = begun.frame.run, begun.frame.step.record
    arguments = plain(begun.before.data) if begun.before else None
    entry = {"tool": record.name, "step": record.address, "arguments": arguments}
    if found is not None:
        # An earlier attempt that was kept dry too holds what the stand-in gave, and no result of the effect.
        stood_in = found.step.state == "dry" and found.step.reused_from is None
        run.blocked.append({**entry, "answered_by": "stand-in" if stood_in else "recording"})
        return (_recorded(begun, found, "dry"),)
    if spec.stand_in is UNSET:
        run.blocked.append({**entry, "answered_by": "nothing"})
        why, advice = "was not recorded with these arguments", ", or record a run that makes this call"
        if touched:
            why, advice = "was recorded with calls inside it that the change alters", ""
        text = (
            f"side effect {spec.step.name!r} is not executed here, {why} and has no stand-in; "
            f"declare @harness.tool(stand_in=…){advice}"
        )
        raise _stop(begun, SideEffectBlocked, text)
    run.blocked.append({**entry, "answered_by": "stand-in"})
    begun.frame.step.record = replace(record, state="dry")
    return (_stood_in(begun, spec.stand_in),)


def _stood_in(begun: Begun, stand_in: Any) -> Any:
    bound = begun.arguments
    try:
        output = stand_in(*bound.args, **bound.kwargs) if is_called(stand_in) else another(stand_in)
    except BaseException as error:
        fail(begun, error)
        raise
    if is_called(stand_in) and inspect.iscoroutine(output):
        return StoodIn(begun, output)
    end(begun, output)
    return output


def _recorded(begun: Begun, found: StepAnswer, state: StepState) -> Any:
    """Give the recorded result, or raise the recorded error."""
    begun.frame.step.record = replace(begun.frame.step.record, state=state, reused_from=found.step.id)
    if found.step.status == "error":
        raise _raised(begun, found)
    if found.step.mutated:
        raise _stop(begun, RecordingMissing, _changed_argument(found))
    data = found.output()
    if data is None:
        text = f"tool {found.step.address!r} returned a value that could not be recorded"
        raise _stop(begun, RecordingMissing, text)
    try:
        output = restore(data)
    except NotReusable as error:
        text = (
            f"tool {found.step.address!r} returned a value that its recording cannot give back ({error}); "
            "return plain values or teach Goldfork the type with register_codec()"
        )
        raise _stop(begun, RecordingMissing, text) from error
    end(begun, output)
    return output


def _changed_argument(found: StepAnswer) -> str:
    told = found.recording.run.metadata.get(MUTATIONS)
    rows = [row for row in told if isinstance(row, dict)] if isinstance(told, list | tuple) else []
    names = [row.get("argument") for row in rows if row.get("step") == found.step.address]
    named = ", ".join(dict.fromkeys(repr(name) for name in names if isinstance(name, str)))
    what = f"its argument {named}" if named else "one of its arguments"
    return (
        f"tool {found.step.address!r} changed {what} when it was recorded, which its recorded result does not repeat; "
        "have it return a new value instead, and record the run again"
    )


def _raised(begun: Begun, found: StepAnswer) -> BaseException:
    """The recorded error again, recorded as raised; where it cannot be made again, the miss that says so."""
    step = found.step
    if step.output_hash is None:
        # A recording of an earlier version holds the text alone.
        error = _error(step.error or "")
        if error is None:
            name = (step.error or "").partition(":")[0]
            text = (
                f"tool {step.address!r} raised {name} when it was recorded, of which its recording holds the text alone"
            )
            return _stop(begun, RecordingMissing, f"{text}; record the run again")
        fail(begun, error)
        return error
    data = found.recording.read(step.output_hash)
    try:
        error = raised_again(data)
    except NotReusable as reason:
        text = (
            f"tool {step.address!r} raised an error when it was recorded that cannot be raised again ({reason}); "
            "raise one of a class at the top of a module that is loaded here, with plain values in it"
        )
        return _stop(begun, RecordingMissing, text)
    fail(begun, error, raised=Snapshot(data, step.output_hash))
    return error


def _error(text: str) -> Exception | None:
    """The built-in exception that a text names, with its message."""
    name, _, message = text.partition(": ")
    kind = getattr(builtins, name, None)
    # The text of a system error is made of what it holds apart: number, words and file.
    if not isinstance(kind, type) or not issubclass(kind, Exception) or issubclass(kind, OSError | ImportError):
        return None
    try:
        # Its text is the repr of the key.
        return KeyError(ast.literal_eval(message)) if kind is KeyError else kind(message)
    except (TypeError, ValueError, SyntaxError):
        return None


def _stop(begun: Begun, kind: type[BaseException], text: str) -> BaseException:
    begun.frame.run.misses.append(text)
    error = kind(text)
    begun.frame.step.record = replace(begun.frame.step.record, state="called", error=describe(error))
    fail(begun, error)
    return error
