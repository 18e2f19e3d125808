"""The frozen values that travel between the layers: a run, its steps, its messages.

Content (request bodies, responses, snapshots) is referred to by SHA-256 and read through ``Recording.read``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Protocol

from harness.canonical import RULES

Hash = str
"""A SHA-256 digest, 64 lower-case hex digits."""

StepKind = Literal["agent", "tool", "job"]
Determinism = Literal["deterministic", "time-bound", "side-effect"]
Status = Literal["running", "ok", "error", "interrupted"]
CacheState = Literal["live", "recorded", "renamed"]
"""Where a message's response came from: the provider, the recording, the recording with ids renamed."""
StepState = Literal["run", "reused", "answered", "called", "dry"]
"""What became of a step: body run or skipped; for tools: answered from the recording, called, kept dry. A step that is
no tool is answered where a fork's change gives its output."""

LOCAL = "local"
"""The provider of a call that this process answered itself; it costs nothing."""

RECORDED = "recorded"
"""The arm of the original run; a fork's arm is ``fork:<change digest>``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one message as the provider reported them; ``None`` is unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total(self) -> int | None:
        """Input plus output tokens, or ``None`` when either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One execution of a workflow."""

    id: str
    workflow: str
    status: Status
    mode: str
    arm: str = RECORDED
    trial: int = 0
    case: str | None = None
    experiment: str | None = None
    owner: str = ""
    """``host:pid:start`` of the process that runs it; tells an abandoned run from a running one."""
    started_at: datetime
    ended_at: datetime | None = None
    input_hash: Hash | None = None
    input_order: Hash | None = None
    """Of the input with its dicts in the order they had; ``None`` when that is the sorted order of the snapshot."""
    output_hash: Hash | None = None
    error: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parent_run_id: str | None = None
    fork_step: str | None = None
    change: Mapping[str, Any] | None = None
    code_version: str | None = None
    fidelity: Literal["wire", "imported"] = "wire"
    usable: bool = True
    """False when something could not be stored, so the run cannot serve as a recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One unit of work in a run."""

    id: str
    run_id: str
    parent_id: str | None
    seq: int
    """Order of start within the run; steps and messages share one sequence."""
    name: str
    kind: StepKind
    scope: str
    """Names of the enclosing steps, ``/``-joined, without this step's own name; empty at the root."""
    occurrence: int
    """How many steps of this name started before it in this scope."""
    key: str
    """Content key: step name (or tool name and version) and canonical inputs."""
    status: Status
    state: StepState = "run"
    determinism: Determinism | None = None
    ttl: float | None = None
    version: str | None = None
    """Of a tool: its version tag. Of other steps: digest of what the body hangs on besides its arguments (code,
    helpers, globals, closures), ``None`` where that cannot be told."""
    input_hash: Hash | None = None
    output_hash: Hash | None = None
    """Snapshot hashes; ``None`` when the value could not be serialised. A tool that raised has its error for output."""
    output_order: Hash | None = None
    """Of the output with its dicts in the order they had; ``None`` when that is the sorted order of the snapshot."""
    mutated: bool = False
    """An argument was changed by the body, or a credential starred out of the output: the step is never skipped."""
    reused_from: str | None = None
    error: str | None = None
    started_at: datetime
    duration_ms: float = 0.0

    @property
    def environment(self) -> str | None:
        """Digest of what the body hangs on besides its arguments; ``None`` for tools, and where it cannot be told."""
        return None if self.kind == "tool" else self.version

    @property
    def address(self) -> str:
        """``scope/name#occurrence``: what the step is called in diffs and on the command line."""
        path = f"{self.scope}/{self.name}" if self.scope else self.name
        return f"{path}#{self.occurrence}" if self.occurrence else path


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One HTTP attempt: what came back, as received."""

    status: int | None
    """HTTP status, ``None`` when the transport failed before one arrived."""
    headers: tuple[tuple[str, str], ...] = ()
    body_hash: Hash | None = None
    """Of the body bytes as received (still content-encoded)."""
    chunks: tuple[tuple[int, float], ...] = ()
    """For a stream: (end offset in bytes, milliseconds since the request) of each chunk."""
    error: str | None = None
    """Type and message of a transport error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """One model interaction: a request and its response."""

    id: str
    run_id: str
    step_id: str | None
    seq: int
    scope: str
    """Names of the enclosing steps, ``/``-joined, the message's own step included."""
    method: str
    endpoint: str
    """Path below the API root, e.g. ``/chat/completions``."""
    provider: str
    """Host and port the call went to; never part of a key."""
    exact_key: str
    semantic_key: str
    occurrence: int
    request_hash: Hash
    request_type: str = "application/json"
    exchanges: tuple[Exchange, ...] = ()
    """Attempts in order; the last one is the answer."""
    streamed: bool = False
    status: Status
    cache_state: CacheState = "live"
    replay_of: str | None = None
    model: str | None = None
    model_served: str | None = None
    system_fingerprint: str | None = None
    prompt_name: str | None = None
    prompt_version: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    """Scalar request parameters (temperature, seed, max_tokens, …) as sent."""
    usage: Usage = Usage()
    cost: Decimal | None = None
    currency: str = "USD"
    """Of the cost."""
    finish_reasons: tuple[str, ...] = ()
    latency_ms: float | None = None
    first_chunk_ms: float | None = None
    error: str | None = None
    started_at: datetime

    @property
    def answer(self) -> Exchange | None:
        """The final attempt, which replay serves; ``None`` before anything came back."""
        return self.exchanges[-1] if self.exchanges else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """A piece of a running stream, flushed so that a killed process loses at most a quarter of a second."""

    message_id: str
    index: int
    data: bytes
    offset_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VolatileRecord:
    """A declared volatile value: the clock, an id, a random number."""

    run_id: str
    step_id: str | None = None
    """The step it was drawn in; ``None`` outside any step."""
    scope: str
    name: str
    occurrence: int
    value: Any
    """JSON scalar."""


Record = RunRecord | StepRecord | MessageRecord | ChunkRecord | VolatileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What is needed to run again without a provider."""

    run: RunRecord
    steps: tuple[StepRecord, ...]
    """In order of ``seq``, tools included."""
    messages: tuple[MessageRecord, ...]
    """In order of ``seq``."""
    volatile: tuple[VolatileRecord, ...]
    read: Callable[[Hash], bytes]
    """Content by hash; raises ``DatasetMissing`` or ``StoreError`` when it is gone."""
    rules: str = RULES
    """Version of the key rules the recording was made under."""


class RecordingSource(Protocol):
    """Something that holds recordings: a golden dataset, the store."""

    def recording(self, ref: str, *, arm: str = RECORDED, trial: int = 0) -> Recording | None:
        """The recording of a case or run id under one arm and trial, or ``None``."""
        ...
