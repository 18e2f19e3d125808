"""``tool``: a function that touches the world, with its determinism declared."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar, get_args, overload

from harness.canonical import canonical_json, content_hash, from_canonical, tool_key
from harness.errors import UsageError
from harness.pipeline._begin import Begun, StepSpec, bind, end, fail, signature_of
from harness.pipeline._dictated import dictated, versioned
from harness.pipeline._snapshot import snapshot
from harness.pipeline._tool_answer import UNSET, StoodIn, ToolSpec, is_called, without_body
from harness.pipeline._tool_cache import SharedCall, before_body, drive, drive_async, shared_call
from harness.pipeline._tool_version import source_version
from harness.record import Determinism, StepRecord
from harness.session import Frame, Mode, StepHandle, ToolCall, call_frame, entered, new_id

P = ParamSpec("P")
R = TypeVar("R")

_RECEIVERS = {"self", "cls"}


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
    stand_in: Any = UNSET,
    cache: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    determinism: Determinism | None = None,
    ttl: float | None = None,
    version: str | None = None,
    stand_in: Any = UNSET,
    cache: bool = False,
) -> Any:
    """Record a function as a tool call and say how it may be repeated.

    In live runs it is called for real, unless it says ``cache=True`` and the store holds a result that still counts.
    In replay, fork and experiments ``deterministic`` and ``time-bound`` tools are answered from the recording, and a
    ``side-effect`` is kept dry: equal arguments give the recorded result, others the stand-in.

    Args:
        function: The function, plain or async, when the decorator is used bare.
        name: Name of the tool; the function's own by default.
        determinism: ``deterministic``, ``time-bound`` or ``side-effect``; a replay refuses a tool without one.
        ttl: Seconds for which a time-bound result counts as fresh.
        version: Changes the content key when you change what the tool does; by default a hash of its source and of the
            application's functions, classes and upper-case constants that it uses.
        stand_in: Value, or function of the same parameters, for a side effect that is not executed. A class, or an
            object that can be called, is a value.
        cache: Share results between live runs through the store: a deterministic tool's for as long as its version
            stands, a time-bound one's until ``ttl`` has passed. Concurrent equal calls are made once.

    Raises:
        UsageError: The function is a generator, its determinism is none of the three, or its results cannot be shared.
    """

    def decorate(target: Callable[..., Any]) -> Callable[..., Any]:
        signature = signature_of(target, "tool")
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise UsageError(
                f"tool {target.__qualname__!r} is a generator, which no single recorded result can stand for; "
                "return a list, or make it a step"
            )
        _require_known(target, determinism, ttl)
        if is_called(stand_in) and inspect.iscoroutinefunction(stand_in) and not inspect.iscoroutinefunction(target):
            raise UsageError(
                f"tool {target.__qualname__!r} is a plain function and its stand-in an async one, which nobody would "
                "wait for; write both in the same way"
            )
        if cache:
            _require_shareable(target, determinism, ttl)
        spec = ToolSpec(
            step=StepSpec(name=name or target.__name__, kind="tool", signature=signature),
            determinism=determinism,
            ttl=ttl,
            version=version or "",
            stand_in=stand_in,
            cache=cache,
            home=f"{target.__module__}:{target.__qualname__}",
        )
        return _wrap(target, spec)

    return decorate if function is None else decorate(function)


def _require_known(target: Callable[..., Any], determinism: str | None, ttl: Any) -> None:
    if determinism is not None and determinism not in get_args(Determinism):
        known = ", ".join(get_args(Determinism))
        raise UsageError(f"tool {target.__qualname__!r} says determinism={determinism!r}; write one of {known}")
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0):
        raise UsageError(f"tool {target.__qualname__!r} says ttl={ttl!r}; write a number of seconds above 0")


def _settled(spec: ToolSpec, target: Callable[..., Any]) -> ToolSpec:
    """With a version: its helpers may be written below the tool, so that only a call can tell."""
    return spec if spec.version else replace(spec, version=source_version(target))


def _require_shareable(target: Callable[..., Any], determinism: Determinism | None, ttl: float | None) -> None:
    name = target.__qualname__
    if determinism == "side-effect":
        raise UsageError(
            f"tool {name!r} is a side effect, and one that is answered from a cache does not happen; "
            "leave out cache=True"
        )
    if determinism is None:
        raise UsageError(
            f"tool {name!r} says cache=True and no determinism; "
            'write determinism="deterministic", or "time-bound" with ttl='
        )
    if determinism == "time-bound" and ttl is None:
        raise UsageError(f"tool {name!r} is time-bound and says cache=True; write ttl= for how long a result holds")


def _wrap(target: Callable[..., Any], spec: ToolSpec) -> Callable[..., Any]:
    # The wrappers hold these two and nothing else: what a step hangs on is read off their closures.
    if inspect.iscoroutinefunction(target):

        @functools.wraps(target)
        async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
            opened = open_tool(_settled(spec, target), args, kwargs)
            try:
                given = opened.given or await drive_async(before_body(opened.begun, opened.intent, opened.shared))
                if given is not None:
                    return await given[0].output() if isinstance(given[0], StoodIn) else given[0]
                with entered(opened.begun.frame):
                    output = await target(*opened.begun.arguments.args, **opened.begun.arguments.kwargs)
                if opened.shared is not None:
                    await drive_async(opened.shared.keep(output))
            except BaseException as error:
                opened.fail(error)
                raise
            end(opened.begun, output)
            return output

        return async_wrapper

    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        opened = open_tool(_settled(spec, target), args, kwargs)
        try:
            given = opened.given or drive(before_body(opened.begun, opened.intent, opened.shared))
            if given is not None:
                return given[0]
            with entered(opened.begun.frame):
                output = target(*opened.begun.arguments.args, **opened.begun.arguments.kwargs)
            if opened.shared is not None:
                drive(opened.shared.keep(output))
        except BaseException as error:
            opened.fail(error)
            raise
        end(opened.begun, output)
        return output

    return wrapper


@dataclass(slots=True, kw_only=True)
class OpenedTool:
    """A tool call that has started."""

    begun: Begun
    given: tuple[Any] | None
    """The result, when the body is not to run."""
    intent: Future[None] | None
    """The commit of a side effect's row, to be waited for before it happens."""
    shared: SharedCall | None
    """The call's place in the tool cache."""

    def fail(self, error: BaseException) -> None:
        """Record the error; who waits for a shared result sees from it that none will come."""
        # A call that was answered, also by a recorded error, has been recorded already.
        if self.begun.frame.step.record.status == "running":
            fail(self.begun, error)


def open_tool(spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpenedTool:
    """Start a tool call: record it, and find out whether the body is to run."""
    parent = call_frame(f"tool {spec.step.name!r}")
    run, scope = parent.run, parent.scope
    spec = versioned(spec, parent)
    bound = bind(spec.step.signature, args, kwargs)
    before = snapshot(bound.arguments, run, ordered=False)
    # A call on an unknown object is told apart by its place in the run, never across runs.
    whole = before is not None and not before.masked
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
    begun = Begun(Frame(run, StepHandle(record), inner, parent), bound, spec.step, before, run.plan.clock.monotonic())
    # Whoever answers it, a recording made of this run needs the arguments.
    written = run.emit(record, blobs={before.hash: before.data} if before else None)
    change = run.plan.change
    if change is not None and change.kind == "refresh" and record.name in change.value and parent.within(change):
        # Called now, or by an earlier attempt at this fork, which answers.
        run.apply(change)
    given = dictated(begun, parent) or without_body(spec, begun, call)
    if given is not None:
        return OpenedTool(begun=begun, given=given, intent=None, shared=None)
    intent = written if spec.determinism == "side-effect" and run.plan.mode is not Mode.OFF else None
    shared = shared_call(spec, begun) if spec.cache and whole and run.plan.mode is Mode.LIVE else None
    return OpenedTool(begun=begun, given=None, intent=intent, shared=shared)


def _without_receiver(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a method without the object that it is called on."""
    return {name: value for place, (name, value) in enumerate(arguments.items()) if place or name not in _RECEIVERS}


def _key(spec: ToolSpec, arguments: bytes | None) -> str:
    if arguments is None:
        return content_hash(canonical_json({"tool": spec.step.name, "arguments": "unserialisable"}))
    return tool_key(spec.step.name, spec.version, from_canonical(arguments))
