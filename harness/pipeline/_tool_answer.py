"""A tool call that is not to touch the world: what answers it, what is kept dry, what is refused."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, replace
from typing import Any

from harness.canonical import canonical_json
from harness.errors import RecordingMissing, SideEffectBlocked, ToolUndeclared
from harness.pipeline._begin import Begun, StepSpec, describe, end, fail
from harness.pipeline._codec import NotReusable
from harness.pipeline._snapshot import plain, restore
from harness.record import Determinism, StepState
from harness.session import Mode, StepAnswer, ToolCall

UNSET: Any = object()
"""No stand-in was declared; ``None`` would be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a tool declares."""

    step: StepSpec
    determinism: Determinism | None
    ttl: float | None
    version: str
    stand_in: Any
    """Value, or function of the same parameters, returned when a side effect is kept dry."""
    cache: bool = False
    """Whether live runs may share a result through the store."""
    home: str = ""
    """Module and name of the function: two tools of one name share no results."""


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
        run.blocked.append({**entry, "answered_by": "recording"})
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
    bound = begun.arguments
    try:
        output = spec.stand_in(*bound.args, **bound.kwargs) if callable(spec.stand_in) else spec.stand_in
    except BaseException as error:
        fail(begun, error)
        raise
    end(begun, output)
    return (output,)


def _recorded(begun: Begun, found: StepAnswer, state: StepState) -> Any:
    """Give the recorded result, or raise the recorded error."""
    begun.frame.step.record = replace(begun.frame.step.record, state=state, reused_from=found.step.id)
    if found.step.status == "error":
        error = _error(found.step.error or "")
        fail(begun, error)
        raise error
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


def _error(text: str) -> Exception:
    """The recorded error again: the builtin exception of that name, else a RuntimeError with the whole text."""
    name, _, message = text.partition(": ")
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            if kind is KeyError:
                # Its text is the repr of the key.
                return KeyError(ast.literal_eval(message))
            return kind(message)
        except (TypeError, ValueError, SyntaxError):
            pass
    return RuntimeError(text)


def _stop(begun: Begun, kind: type[BaseException], text: str) -> BaseException:
    begun.frame.run.misses.append(text)
    error = kind(text)
    begun.frame.step.record = replace(begun.frame.step.record, state="called", error=describe(error))
    fail(begun, error)
    return error
