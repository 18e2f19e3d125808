"""Where answers come from: an index over the recordings of one run, in order of precedence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.record import MessageRecord, Recording, StepRecord, VolatileRecord
from harness.session._subtrees import Subtrees


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A model call that is about to be made."""

    scope: str
    method: str
    endpoint: str
    exact_key: str
    semantic_key: str
    occurrence: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call that is about to be made."""

    scope: str
    name: str
    key: str
    """Content key of tool name, version and bound arguments."""
    occurrence: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A recorded message and the recording that holds its content."""

    message: MessageRecord
    recording: Recording


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """A recorded step (or tool call) and the recording that holds its content."""

    step: StepRecord
    recording: Recording
    subtrees: Subtrees | None = None
    """Index of the recording, where many answers come from it."""

    def output(self) -> bytes | None:
        """The bytes of the recorded output, dicts in the order they had; ``None`` when it could not be serialised."""
        digest = self.step.output_order or self.step.output_hash
        return None if digest is None else self.recording.read(digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStart:
    """A step whose body is about to run."""

    name: str
    scope: str
    occurrence: int
    key: str
    environment: str | None
    """Digest of what the body hangs on besides its arguments; ``None`` where that cannot be told."""


class Resolver(Protocol):
    """Answers for one run; implemented by ``RecordedAnswers`` and by replay's fork resolver."""

    def message(self, call: Call) -> Answer | None:
        """The recorded response to a model call, or ``None``."""
        ...

    def recorded(self, call: Call) -> int:
        """How many recordings of this very request the scope holds, used or not."""
        ...

    def tool(self, call: ToolCall) -> StepAnswer | None:
        """The recorded result of a tool call, or ``None``."""
        ...

    def touches(self, call: ToolCall) -> bool:
        """Whether a change reaches into the recorded body of this tool call, so that its result does not hold."""
        ...

    def volatile(self, scope: str, name: str, occurrence: int) -> VolatileRecord | None:
        """The recorded volatile value, or ``None``."""
        ...

    def reuse(self, step: StepStart) -> StepAnswer | None:
        """The recorded step whose body may be skipped, or ``None`` to run it."""
        ...

    def passed(self, step: StepStart) -> StepAnswer | None:
        """The recorded step that one whose output is dictated stands for; it counts as a visit, like ``reuse``."""
        ...

    @property
    def recordings(self) -> Sequence[Recording]:
        """What is searched, in order; for explaining a miss."""
        ...


class RecordedAnswers:
    """Looks a call up by (scope, exact key, occurrence) in each recording in turn.

    Only finished, answered messages count: transport errors and the statuses that an SDK retries (408, 409, 429,
    5xx) are history. With ``errors`` (replay) a recorded final error is served like any answer.
    """

    def __init__(self, *recordings: Recording, errors: bool = True) -> None:
        self._layers = [_Layer(recording, errors=errors) for recording in recordings]

    @property
    def recordings(self) -> Sequence[Recording]:
        """The recordings, first one first."""
        return [layer.recording for layer in self._layers]

    def message(self, call: Call) -> Answer | None:
        """The first recording that holds this request at this occurrence answers."""
        for layer in self._layers:
            found = layer.messages.get((call.scope, call.exact_key), {}).get(call.occurrence)
            if found is not None:
                return Answer(found, layer.recording)
        return None

    def recorded(self, call: Call) -> int:
        """The largest number of occurrences that one recording holds."""
        key = (call.scope, call.exact_key)
        return max((len(layer.messages.get(key, ())) for layer in self._layers), default=0)

    def tool(self, call: ToolCall) -> StepAnswer | None:
        """The first recording that holds this tool call at this occurrence answers."""
        for layer in self._layers:
            found = layer.tools.get((call.scope, call.key, call.occurrence))
            if found is not None:
                return StepAnswer(found, layer.recording)
        return None

    def touches(self, call: ToolCall) -> bool:
        """Plain replay changes nothing."""
        del call
        return False

    def volatile(self, scope: str, name: str, occurrence: int) -> VolatileRecord | None:
        """The first recording that holds the value answers."""
        for layer in self._layers:
            found = layer.volatile.get((scope, name, occurrence))
            if found is not None:
                return found
        return None

    def reuse(self, step: StepStart) -> StepAnswer | None:
        """Plain replay runs every body."""
        del step
        return None

    def passed(self, step: StepStart) -> StepAnswer | None:
        """Plain replay dictates nothing."""
        del step
        return None


_RETRIED = frozenset({408, 409, 429}) | frozenset(range(500, 600))


class _Layer:
    """One recording, indexed."""

    def __init__(self, recording: Recording, *, errors: bool) -> None:
        self.recording = recording
        self.messages: defaultdict[tuple[str, str], dict[int, MessageRecord]] = defaultdict(dict)
        for message in recording.messages:
            if _answers(message, errors=errors):
                self.messages[message.scope, message.exact_key][message.occurrence] = message
        self.tools = {(step.scope, step.key, step.occurrence): step for step in _ordered_tools(recording.steps)}
        self.volatile = {(v.scope, v.name, v.occurrence): v for v in recording.volatile}


def _ordered_tools(steps: Iterable[StepRecord]) -> Iterable[StepRecord]:
    return (step for step in steps if step.kind == "tool" and step.status in {"ok", "error"})


def _answers(message: MessageRecord, *, errors: bool) -> bool:
    answer = message.answer
    if answer is None or message.status == "running":
        return False
    if errors:
        return True
    return message.status == "ok" and answer.status is not None and answer.status not in _RETRIED
