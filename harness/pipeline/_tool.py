"""``tool``: a function that touches the world, with its determinism declared."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar, overload

from harness.canonical import canonical_json, content_hash, from_canonical, tool_key
from harness.errors import RecordingMissing, SideEffectBlocked, ToolUndeclared, UsageError
from harness.pipeline._begin import Begun, StepSpec, bind, describe, end, fail
from harness.pipeline._codec import NotReusable
from harness.pipeline._snapshot import plain, restore, snapshot
from harness.record import Determinism, StepRecord
from harness.session import Frame, Mode, StepAnswer, StepHandle, ToolCall, call_frame, entered, new_id

P = ParamSpec("P")
R = TypeVar("R")

_UNSET: Any = object()
_RECEIVERS = {"self", "cls"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a tool declares."""

    step: StepSpec
    determinism: Determinism | None
    ttl: float | None
    version: str
    stand_in: Any
    """Value, or function of the same parameters, returned when a side effect is kept dry."""


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    determinism: Determinism | None = None,
    ttl: float | None = None,
    version: str | None = None,
    stand_in: Any = _UNSET,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    determinism: Determinism | None = None,
    ttl: float | None = None,
    version: str | None = None,
    stand_in: Any = _UNSET,
) -> Any:
    """Record a function as a tool call and say how it may be repeated.

    In live runs it is called for real. In replay, fork and experiments ``deterministic`` and ``time-bound`` tools
    are answered from the recording, and a ``side-effect`` is kept dry: equal arguments give the recorded result,
    others the stand-in.

    Args:
        function: The function, plain or async, when the decorator is used bare.
        name: Name of the tool; the function's own by default.
        determinism: ``deterministic``, ``time-bound`` or ``side-effect``; a replay refuses a tool without one.
        ttl: Seconds for which a time-bound result counts as fresh.
        version: Changes the content key when you change what the tool does; by default a hash of its source.
        stand_in: Value, or function of the same parameters, for a side effect that is not executed.

    Raises:
        UsageError: The function is a generator.
    """

    def decorate(target: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise UsageError(
                f"tool {target.__qualname__!r} is a generator, which no single recorded result can stand for; "
                "return a list, or make it a step"
            )
        spec = ToolSpec(
            step=StepSpec(name=name or target.__name__, kind="tool", signature=inspect.signature(target)),
            determinism=determinism,
            ttl=ttl,
            version=version or source_version(target),
            stand_in=stand_in,
        )
        return _wrap(target, spec)

    return decorate if function is None else decorate(function)


def source_version(target: Callable[..., Any]) -> str:
    """Twelve hex digits over the source without comments and layout; over the name where there is no source."""
    try:
        text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(target))))
    except (OSError, TypeError, SyntaxError):
        text = f"{target.__module__}:{target.__qualname__}"
    return content_hash(text.encode())[:12]


def _wrap(target: Callable[..., Any], spec: ToolSpec) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(target):

        @functools.wraps(target)
        async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
            begun, answered = _begin(spec, args, kwargs)
            if answered:
                return answered[0]
            try:
                with entered(begun.frame):
                    output = await target(*begun.arguments.args, **begun.arguments.kwargs)
            except BaseException as error:
                fail(begun, error)
                raise
            end(begun, output)
            return output

        return async_wrapper

    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        begun, answered = _begin(spec, args, kwargs)
        if answered:
            return answered[0]
        try:
            with entered(begun.frame):
                output = target(*begun.arguments.args, **begun.arguments.kwargs)
        except BaseException as error:
            fail(begun, error)
            raise
        end(begun, output)
        return output

    return wrapper


def _begin(spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Begun, tuple[Any] | None]:
    """Start a tool call; the second value holds the result when the body is not to run."""
    parent = call_frame()
    run, scope = parent.run, parent.scope
    bound = bind(spec.step.signature, args, kwargs)
    before = snapshot(bound.arguments, run, ordered=False)
    if before is None:
        before = snapshot(_without_receiver(bound.arguments), run, ordered=False)
    key = _key(spec, before.data if before else None)
    call = ToolCall(scope=scope, name=spec.step.name, key=key, occurrence=run.occurrence("tool", scope, key))
    record = StepRecord(
        id=new_id(),
        run_id=run.id,
        parent_id=parent.step.record.id,
        seq=run.next_seq(),
        name=spec.step.name,
        kind="tool",
        scope=scope,
        occurrence=call.occurrence,
        key=key,
        status="running",
        state="called",
        determinism=spec.determinism,
        ttl=spec.ttl,
        version=spec.version,
        input_hash=before.hash if before else None,
        started_at=run.plan.clock.now(),
    )
    inner = f"{scope}/{spec.step.name}" if scope else spec.step.name
    begun = Begun(Frame(run, StepHandle(record), inner, parent), bound, before, run.plan.clock.monotonic())
    # Whoever answers it, a recording made of this run needs the arguments.
    run.emit(record, blobs={before.hash: before.data} if before else None)
    return begun, _without_body(spec, begun, call)


def _without_receiver(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a method without the object that it is called on."""
    return {name: value for place, (name, value) in enumerate(arguments.items()) if place or name not in _RECEIVERS}


def _key(spec: ToolSpec, arguments: bytes | None) -> str:
    if arguments is None:
        return content_hash(canonical_json({"tool": spec.step.name, "arguments": "unserialisable"}))
    return tool_key(spec.step.name, spec.version, from_canonical(arguments))


def _without_body(spec: ToolSpec, begun: Begun, call: ToolCall) -> tuple[Any] | None:
    """What the call gives without touching the world, or ``None`` when the tool is to be called."""
    run = begun.frame.run
    plan = run.plan
    if not plan.dry and plan.mode in {Mode.LIVE, Mode.OFF}:
        return None
    if spec.determinism is None:
        raise _stop(begun, ToolUndeclared, _undeclared(spec))
    touched = plan.resolver is not None and plan.resolver.touches(call)
    # Two calls whose arguments are unknown must never be taken for the same.
    known = begun.before is not None
    found = plan.resolver.tool(call) if plan.resolver is not None and known and not touched else None
    if spec.determinism == "side-effect" and plan.dry:
        return _dry(spec, begun, found, touched=touched)
    if touched:
        # What it was recorded to return came of calls that the change alters; those are made again inside.
        return None
    if found is not None:
        return (_recorded(begun, found, "answered"),)
    if plan.mode is Mode.REPLAY:
        raise _stop(begun, RecordingMissing, _missing(spec, begun, call))
    return None


def _undeclared(spec: ToolSpec) -> str:
    return (
        f"tool {spec.step.name!r} declares no determinism, so a replay cannot tell whether to run it; write "
        '@harness.tool(determinism="deterministic"), "time-bound" or "side-effect"'
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
    arguments = plain(begun.before.data) if begun.before else None
    entry = {"tool": spec.step.name, "arguments": arguments}
    if found is not None:
        output = _recorded(begun, found, "dry", log={**entry, "answered_by": "recording"})
        return (output,)
    if spec.stand_in is _UNSET:
        why, advice = "was not recorded with these arguments", ", or record a run that makes this call"
        if touched:
            why, advice = "was recorded with calls inside it that the change alters", ""
        text = (
            f"side effect {spec.step.name!r} is not executed here, {why} and has no stand-in; "
            f"declare @harness.tool(stand_in=…){advice}"
        )
        raise _stop(begun, SideEffectBlocked, text)
    bound = begun.arguments
    output = spec.stand_in(*bound.args, **bound.kwargs) if callable(spec.stand_in) else spec.stand_in
    begun.frame.step.record = replace(begun.frame.step.record, state="dry")
    end(begun, output)
    begun.frame.run.blocked.append({**entry, "answered_by": "stand-in"})
    return (output,)


def _recorded(begun: Begun, found: StepAnswer, state: Any, log: dict[str, Any] | None = None) -> Any:
    """Give the recorded result, or raise the recorded error."""
    if log is not None:
        begun.frame.run.blocked.append(log)
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
