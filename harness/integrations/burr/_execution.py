"""One action being executed as a step or a tool call: begun, answered or watched, ended."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from burr.core.action import Action
from burr.core.state import State

from harness.integrations.burr._declared import injected, step_spec, tool_spec
from harness.integrations.burr._reads import Reads, public, read_beyond, values_of, with_beyond
from harness.integrations.burr._state import Outcome, Watched
from harness.pipeline.adapter import (
    Begun,
    ToolSpec,
    before_body,
    begin,
    drive,
    drive_async,
    end,
    fail,
    open_tool,
    skip,
)
from harness.record import StepRecord
from harness.session import Frame, call_frame, current, entered

_lock = threading.Lock()
_running: dict[str, Execution] = {}
"""Actions whose bodies run, by step id."""


class Execution:
    """One execution of an action.

    Args:
        action: The action.
        state: The whole state that Burr has when it starts.
        inputs: What Burr calls it with, the injected ones too.
        stand_ins: What side effects give while they are kept dry, by action.
        frame: Where the application runs, for bodies that begin later; the caller's by default.
    """

    def __init__(
        self,
        action: Action,
        state: Any,
        *,
        inputs: Mapping[str, Any],
        stand_ins: Mapping[str, Any],
        frame: Frame | None = None,
    ) -> None:
        self._action = action
        self._before = state
        self.stand_ins = stand_ins
        self._intent: Future[None] | None = None
        self._given: Outcome | None = None
        self._children: dict[tuple[str, str], str] = {}
        self.open = True
        self._tool = tool_spec(action, stand_ins)
        self._names = _names(action, state, inputs)
        around = frame or call_frame()
        self.reads = Reads(around.run, frozenset(name for kind, name in self._names.values() if kind == "state"))
        arguments = {given: (state if kind == "state" else inputs)[name] for given, (kind, name) in self._names.items()}
        with entered(around):
            self._begun = self._as_step(arguments) if self._tool is None else self._as_tool(self._tool, arguments)
        changed: dict[str, dict[str, Any]] = {"state": {}, "input": {}}
        for given, (kind, name) in self._names.items():
            changed[kind][name] = self._begun.arguments.arguments[given]
        self.state = Watched(state, self.reads, _differing(changed["state"], state))
        self.inputs = {**inputs, **changed["input"]}
        for name, value in inputs.items():
            if name.endswith("__context") and value is not None:
                self.inputs[name] = replace(
                    value, parallel_executor_factory=self._carrying(value.parallel_executor_factory)
                )

    @property
    def frame(self) -> Frame:
        """Where the body runs."""
        return self._begun.frame

    @property
    def given(self) -> Outcome | None:
        """The outcome, when the body is not to be run."""
        return self._given

    @property
    def changed(self) -> dict[str, Any]:
        """State values that a declared change replaces."""
        return {name: values_of(self.state)[name] for name in self.state._own}  # noqa: SLF001 - of this package

    def _as_step(self, arguments: dict[str, Any]) -> Begun:
        begun = begin(step_spec(self._action), (), arguments)
        if not begun.skipped:
            return begun
        recorded = None if begun.answer is None else read_beyond(begun.answer.step, begun.answer.recording)
        if recorded is None or self.reads.repeat(recorded, self._before):
            whole = self.reads.whole(begun.before)
            if whole is not None:
                begun.before = whole
                self._record(begun, input_hash=whole.hash)
            self._given, self.open = Outcome.read(skip(begun)), False
        else:
            # Not announced yet, since it was to be skipped.
            begun.answer = None
            before = begun.before
            begun.frame.run.emit(begun.frame.step.record, blobs={before.hash: before.data} if before else None)
        return begun

    def _as_tool(self, tool: ToolSpec, arguments: dict[str, Any]) -> Begun:
        opened = open_tool(tool, (), with_beyond(tool, arguments, self._before, self.reads))
        begun, self._intent = opened.begun, opened.intent
        if opened.given is None:
            return begun
        self._given, self.open = Outcome.read(opened.given[0]), False
        whole = self.reads.whole(begun.before)
        if whole is not None:
            run = begun.frame.run
            self._record(begun, input_hash=whole.hash)
            run.steps[:] = [step for step in run.steps if step.id != begun.frame.step.record.id]
            run.emit(begun.frame.step.record, blobs=whole.blobs)
        return begun

    def ready(self) -> None:
        """Wait until it is on the disk that a side effect is about to happen.

        Raises:
            StoreError: It could not be stored, and the plan says ``raise``.
        """
        with self._abandoned():
            drive(before_body(self._begun, self._intent, None))

    async def ready_async(self) -> None:
        """As ``ready``, without blocking the event loop."""
        with self._abandoned():
            await drive_async(before_body(self._begun, self._intent, None))

    @contextlib.contextmanager
    def _abandoned(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.abandon(error)
            raise

    @staticmethod
    def _record(begun: Begun, **changes: Any) -> None:
        handle = begun.frame.step
        record: StepRecord = replace(handle.record, **changes)
        handle.record = record

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Where the body runs; an error ends the execution."""
        with self._abandoned(), self.known(), entered(self._begun.frame):
            yield

    @contextlib.contextmanager
    def known(self) -> Iterator[None]:
        """While the body runs, applications that it runs are found to be part of it."""
        step_id = self._begun.frame.step.record.id
        with _lock:
            _running[step_id] = self
        try:
            yield
        finally:
            with _lock:
                _running.pop(step_id, None)

    def finish(self, after: Any, result: Any, items: tuple[Any, ...] = ()) -> Any:
        """Record what the body made; returns the new state without the watch."""
        plain = State(values_of(after), self._before.typing_system)
        if not self.open:
            return plain
        self.open, self.reads.closed = False, True
        outcome = Outcome.between(self._before, plain, self._action.writes, result, items)
        reusable = self.reads.kept() and not outcome.aliased(plain)
        whole = self.reads.whole(self._begun.before)
        if whole is not None:
            self._record(self._begun, input_hash=whole.hash)
            self._begun.frame.run.emit(self._begun.frame.step.record, blobs=whole.blobs)
        end(self._begun, outcome.written(), reusable=reusable)
        return plain

    def abandon(self, error: BaseException) -> None:
        """Record that the body failed, or gave nothing that Burr can use."""
        if self.open:
            self.open, self.reads.closed = False, True
            fail(self._begun, error)

    def scope_of(self, scope: str, app_id: str) -> str:
        """The scope of a sub-application: numbered in the order in which the action made or started them."""
        with _lock:
            label = self._children.setdefault((scope, app_id), f"[{self._number(scope)}]")
        return f"{scope}/{label}" if scope else label

    def _number(self, scope: str) -> int:
        return sum(known == scope for known, _ in self._children)

    def _carrying(self, factory: Any) -> Any:
        def made() -> Executor:
            inner = factory()
            # Another process, or another machine, has no place in this run.
            return _Carrying(inner, self._begun.frame) if isinstance(inner, ThreadPoolExecutor) else inner

        return made


class _Carrying(Executor):
    """A thread pool whose work knows which action it belongs to."""

    def __init__(self, inner: ThreadPoolExecutor, frame: Frame) -> None:
        self._inner = inner
        self._frame = frame

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        frame = current() or self._frame

        def carried() -> Any:
            with entered(frame):
                return fn(*args, **kwargs)

        return self._inner.submit(carried)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._inner.shutdown(wait, cancel_futures=cancel_futures)


def enclosing(frame: Frame | None) -> Execution | None:
    """The action in whose body a frame lies."""
    while frame is not None:
        found = _running.get(frame.step.record.id)
        if found is not None:
            return found
        frame = frame.outer
    return None


def placed(app_id: str) -> Frame | None:
    """Where an application's actions belong: inside the action that runs it, under a label of its own."""
    frame = current()
    around = enclosing(frame)
    if frame is None or around is None:
        return frame
    return replace(frame, scope=around.scope_of(frame.scope, app_id))


def announce(app_id: str) -> None:
    """Number a sub-application when its task is made: they start in any order."""
    placed(app_id)


def _names(action: Action, state: Any, inputs: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Names of the step's arguments, and where each comes from."""
    present = public(state)
    if isinstance(state, Watched):
        for name in action.reads:
            state.note_read(name)
    names = {name: ("state", name) for name in action.reads if name in present}
    for name in inputs:
        if not injected(name):
            names[f"inputs.{name}" if name in names else name] = ("input", name)
    return names


def _differing(values: Mapping[str, Any], state: Any) -> dict[str, Any]:
    before = public(state)
    return {name: value for name, value in values.items() if before[name] is not value}
