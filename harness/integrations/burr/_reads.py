"""What an action reads beyond what it declares, and whether it is still the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.canonical import canonical_json, content_hash, from_canonical, tool_key
from harness.pipeline import Snapshot, snapshot
from harness.pipeline.adapter import ToolSpec
from harness.record import Recording, StepRecord
from harness.session import Frame, RunState, ToolCall, call_frame

BEYOND = "$also_read"
"""Input of a step that holds what its body read without declaring it."""


def values_of(state: Any) -> dict[str, Any]:
    """Everything a state holds, without counting as a read of it."""
    return dict(state._state)  # noqa: SLF001 - every public way is watched


def public(state: Any) -> dict[str, Any]:
    """The application's own values, without those that Burr keeps beside them."""
    return {name: value for name, value in values_of(state).items() if not name.startswith("__")}


@dataclass(slots=True, eq=False)
class Reads:
    """What a body read beyond what its action declares: values as they were when read first, and absent keys."""

    run: RunState
    declared: frozenset[str]
    values: dict[str, Any] = field(default_factory=dict)
    encoded: dict[str, Any] = field(default_factory=dict)
    """The same as JSON with tags, taken at the first read, since a body may change what it was given."""
    absent: set[str] = field(default_factory=set)
    keys: list[str] | None = None
    """The names of all values, where the body looked at them."""
    complete: bool = True
    """Everything read could be serialised."""
    closed: bool = False

    def note(self, name: str, values: Mapping[str, Any]) -> None:
        """Take down that a value was asked for."""
        if self.closed or name in self.declared or name in self.values or name in self.absent:
            return
        if name not in values:
            self.absent.add(name)
            return
        taken = snapshot(values[name], self.run, ordered=False)
        if taken is None:
            self.complete = False
            return
        self.encoded[name] = from_canonical(taken.data)
        self.values[name] = values[name]

    def note_keys(self, values: Mapping[str, Any]) -> None:
        """Take down that the names were asked for."""
        if not self.closed and self.keys is None:
            self.keys = sorted(values)

    def found(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What was read, as an input of the step, with these values; empty when the action declares all it reads."""
        parts = {"values": dict(values), "absent": sorted(self.absent), "keys": self.keys}
        return {name: part for name, part in parts.items() if part}

    def repeat(self, recorded: Mapping[str, Any], state: Any) -> bool:
        """Read the same as a recorded body did, and say whether it is the same; if not, nothing was read."""
        values = values_of(state)
        for name in recorded.get("values", ()):
            self.note(name, values)
        self.absent.update(name for name in recorded.get("absent", ()) if name not in values)
        if recorded.get("keys") is not None:
            self.note_keys(values)
        if self.complete and canonical_json(self.found(self.encoded)) == canonical_json(recorded):
            note = getattr(state, "note_read", None)
            if note is not None:
                # The state of a sub-application: its reads are reads of the action around it.
                for name in (*self.values, *self.absent):
                    note(name)
            return True
        self.values.clear()
        self.encoded.clear()
        self.absent.clear()
        self.keys, self.complete = None, True
        return False

    def whole(self, declared: Snapshot | None) -> Snapshot | None:
        """The step's input with what was read beyond the declaration; ``None`` when that is nothing."""
        found = self.found(self.encoded)
        if declared is None or not found:
            return None
        data = canonical_json({**from_canonical(declared.data), BEYOND: found})
        return Snapshot(data, content_hash(data), masked=declared.masked)

    def kept(self) -> bool:
        """Whether what was read beyond the declaration is told, and was left as it was."""
        again = snapshot(self.found(self.values), self.run, ordered=False)
        return self.complete and again is not None and again.data == canonical_json(self.found(self.encoded))


def read_beyond(step: StepRecord, recording: Recording) -> dict[str, Any] | None:
    """What a recorded body read beyond the declaration."""
    if step.input_hash is None:
        return None
    found = from_canonical(recording.read(step.input_hash))
    return found.get(BEYOND) if isinstance(found, dict) else None


def with_beyond(tool: ToolSpec, arguments: dict[str, Any], state: Any, reads: Reads) -> dict[str, Any]:
    """The arguments of a tool call.

    A recorded call with the same declared arguments answers only where all that it read besides is the same too;
    where it is not, that is made an argument, so that it is another call.
    """
    frame = call_frame()
    resolver, run = frame.run.plan.resolver, frame.run
    if resolver is None:
        return arguments
    mismatch: dict[str, Any] | None = None
    for given in (arguments, *_recorded_calls(tool, arguments, state, frame)):
        taken = snapshot(given, run, ordered=False)
        if taken is None:
            return arguments
        key = tool_key(tool.step.name, tool.version, from_canonical(taken.data))
        occurrence = run.occurrence("tool", frame.scope, key, count=0)
        found = resolver.tool(ToolCall(scope=frame.scope, name=tool.step.name, key=key, occurrence=occurrence))
        if found is None:
            continue
        recorded = read_beyond(found.step, found.recording)
        if recorded is None or BEYOND in given or reads.repeat(recorded, state):
            return given
        mismatch = {**arguments, BEYOND: _now(recorded, state)}
    return arguments if mismatch is None else mismatch


def _recorded_calls(tool: ToolSpec, arguments: dict[str, Any], state: Any, frame: Frame) -> Iterator[dict[str, Any]]:
    """The arguments as calls were recorded with whose further reads had become arguments."""
    resolver = frame.run.plan.resolver
    for recording in resolver.recordings if resolver is not None else ():
        for step in recording.steps:
            if (step.kind, step.name, step.scope) == ("tool", tool.step.name, frame.scope):
                recorded = read_beyond(step, recording)
                if recorded is not None:
                    yield {**arguments, BEYOND: _now(recorded, state)}


def _now(recorded: Mapping[str, Any], state: Any) -> dict[str, Any]:
    """What a recorded body read, as it is now."""
    values = values_of(state)
    names = [*recorded.get("values", ()), *recorded.get("absent", ())]
    parts = {
        "values": {name: values[name] for name in names if name in values},
        "absent": sorted(name for name in names if name not in values),
        "keys": sorted(values) if recorded.get("keys") is not None else None,
    }
    return {name: part for name, part in parts.items() if part}
