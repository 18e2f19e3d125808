"""``install``: Burr's own functions record, answer and skip while a block runs."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from burr.core import application, parallelism, persistence
from burr.core.application import Application
from burr.lifecycle.internal import LifecycleAdapterSet

from harness import gateway
from harness.errors import UsageError
from harness.integrations.burr._action import Observed
from harness.integrations.burr._application import Recorded, calls, steps, stream_calls
from harness.integrations.burr._execution import announce, enclosing, placed
from harness.integrations.burr._persisted import building, hooks, loading, loading_async, saving, saving_async
from harness.session import current

SUPPORTED = ((0, 43), (0, 44))
"""Releases of apache-burr that the patched functions are tested with: from, and below."""

_CALLS = ("run", "arun", "iterate", "aiterate", "stream_iterate", "astream_iterate", "step", "astep")
_STREAMS = ("_run_single_step_streaming_action", "_run_multi_step_streaming_action")
_pending: contextvars.ContextVar[Observed | None] = contextvars.ContextVar("goldfork_burr_action", default=None)
"""The action whose first half has just run."""

_here: contextvars.ContextVar[Recorded | None] = contextvars.ContextVar("goldfork_burr_install", default=None)
"""The innermost block of this task or thread."""

_lock = threading.Lock()
_installed: list[Recorded] = []
_undo: list[Callable[[], None]] = []


@contextlib.contextmanager
def install(*, workflow: str | None = None, stand_ins: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Make every Burr application of the process record itself while the block runs, without an edit to it.

    Its model calls are tapped as in ``harness.install()``.

    A call of an application outside any run is a run, an action that it executes a step. An action with the tag
    ``determinism:deterministic``, ``determinism:time-bound`` (with ``ttl:SECONDS``) or ``determinism:side-effect`` is a
    tool call. Blocks may be nested; the innermost names and stand-ins hold.

    Args:
        workflow: Name of the runs; by default the tracker's project, else ``burr:`` and the entry action.
        stand_ins: By action, what a side effect that is kept dry leaves in the state.

    Raises:
        UsageError: The installed Burr is a release that this is not tested with.
    """
    _require_supported()
    entry = Recorded(workflow=workflow, stand_ins=dict(stand_ins or {}))
    with _lock:
        if not _installed:
            _patch_all()
        _installed.append(entry)
    token = _here.set(entry)
    try:
        with gateway.install():
            yield
    finally:
        _here.reset(token)
        with _lock:
            _installed.remove(entry)
            if not _installed:
                while _undo:
                    _undo.pop()()


def _require_supported() -> None:
    low, high = SUPPORTED
    wanted = f"apache-burr>={low[0]}.{low[1]},<{high[0]}.{high[1]}"
    try:
        found = version("apache-burr")
    except PackageNotFoundError as error:
        raise UsageError(f"Burr is installed under another name than apache-burr; install {wanted}") from error
    if not low <= tuple(int(part) for part in found.split(".")[:2]) < high:
        raise UsageError(f"apache-burr {found} is not supported; install {wanted}")


def _patch(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, wrapper(original))
    _undo.append(functools.partial(setattr, owner, name, original))


def _patch_all() -> None:
    for name in _CALLS:
        _patch(Application, name, lambda original, name=name: _latest(calls, original, name))  # type: ignore[misc]  # bound
    for name in ("stream_result", "astream_result"):
        _patch(Application, name, lambda original, name=name: _latest(stream_calls, original, name))  # type: ignore[misc]  # bound
    for name in ("_step", "_astep"):
        _patch(Application, name, steps)
    _patch(application, "_run_single_step_action", _single_step)
    _patch(application, "_arun_single_step_action", _single_step_async)
    _patch(application, "_run_function", _first_half)
    _patch(application, "_arun_function", _first_half_async)
    _patch(application, "_run_reducer", _second_half)
    for name in _STREAMS:
        _patch(application, name, _stream)
        _patch(application, name.replace("_run", "_arun", 1), _stream)
    _patch(parallelism.SubGraphTask, "__init__", _task)
    for name in ("call_all_lifecycle_hooks_sync", "call_all_lifecycle_hooks_async"):
        _patch(LifecycleAdapterSet, name, hooks)
    _patch(persistence.PersisterHook, "post_run_step", saving)
    _patch(persistence.PersisterHookAsync, "post_run_step", saving_async)
    _patch(application.ApplicationBuilder, "_build_common", building)
    _patch(application.ApplicationBuilder, "_load_from_sync_persister", loading)
    _patch(application.ApplicationBuilder, "_load_from_async_persister", loading_async)


def _latest(make: Callable[..., Callable[..., Any]], original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A method that follows the innermost ``install()``."""

    @functools.wraps(original)
    def method(app: Application[Any], *args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            # Inside a run; its steps are found by the runners.
            return original(app, *args, **kwargs)
        return make(original, name, _innermost())(app, *args, **kwargs)

    return method


def _innermost() -> Recorded:
    here = _here.get()
    if here is not None:
        return here
    with _lock:
        return _installed[-1] if _installed else Recorded(workflow=None, stand_ins={})


def _observed(action: Any, state: Any, **place: Any) -> Observed:
    # A pool's thread is in no block, but in an action that is.
    around = enclosing(current()) if _here.get() is None else None
    stand_ins = _innermost().stand_ins if around is None else around.stand_ins
    return Observed(action, state, stand_ins=stand_ins, **place)


def _concerned() -> bool:
    """Actions that run outside any run are run by Burr's private functions alone, which nobody asked to record."""
    return current() is not None


def _single_step(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(action: Any, state: Any, inputs: Any) -> Any:
        return original(_observed(action, state) if _concerned() else action, state, inputs)

    return run


def _single_step_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def run(action: Any, state: Any, inputs: Any) -> Any:
        return await original(_observed(action, state) if _concerned() else action, state, inputs)

    return run


def _first_half(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(function: Any, state: Any, inputs: Any, name: str) -> Any:
        if not _concerned():
            return original(function, state, inputs, name=name)
        observed = _observed(function, state)
        try:
            result = original(observed, state, inputs, name=name)
        except BaseException as error:
            observed.abandon(error)
            raise
        _pending.set(observed)
        return result

    return run


def _first_half_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def run(function: Any, state: Any, inputs: Any, name: str) -> Any:
        if not _concerned():
            return await original(function, state, inputs=inputs, name=name)
        observed = _observed(function, state)
        try:
            result = await original(observed, state, inputs=inputs, name=name)
        except BaseException as error:
            observed.abandon(error)
            raise
        _pending.set(observed)
        return result

    return run


def _second_half(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(reducer: Any, state: Any, result: Any, name: str) -> Any:
        observed = _pending.get()
        if observed is None or observed.action is not reducer:
            return original(reducer, state, result, name)
        _pending.set(None)
        return original(observed, state, result, name)

    return run


def _stream(original: Callable[..., Any]) -> Callable[..., Any]:
    """The four streaming runners: plain or async, in one step or two."""

    @functools.wraps(original)
    def run(action: Any, state: Any, **rest: Any) -> Any:
        if not _concerned():
            return original(action=action, state=state, **rest)
        return original(action=_observed(action, state, frame=placed(rest["app_id"])), state=state, **rest)

    return run


def _task(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(task: Any, *args: Any, **kwargs: Any) -> None:
        original(task, *args, **kwargs)
        announce(task.application_id)

    return init
