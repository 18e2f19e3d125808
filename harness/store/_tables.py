"""Runs, steps, messages and their content: what recording writes.

Documented in docs/schema.md. Content (bodies, snapshots) is addressed by SHA-256 and read with ``Store.read``;
rows are ordered by ``seq``, never by a clock.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from sqlalchemy import Boolean, Float, Index, Integer, LargeBinary, SmallInteger, UniqueConstraint

from harness.store._columns import BigKey, Table, column
from harness.store._types import Id, Json, Key, Money, Sha256, Time, Words

__all__ = ["Blob", "Chain", "Chunk", "Exchange", "Message", "Run", "Step", "StepEdge", "Volatile"]


class Run(Table, table=True):
    """One execution of a workflow."""

    __tablename__: ClassVar[str] = "runs"
    __table_args__ = (
        Index("ix_runs_workflow_id", "workflow", "id"),
        Index("ix_runs_status", "status"),
        Index("ix_runs_parent_run_id", "parent_run_id"),
        Index("ix_runs_experiment", "experiment"),
    )

    id: str = column(Id, "Time-ordered UUID.", primary_key=True)
    workflow: str = column(Words, "Name of the workflow.")
    status: str = column(Words, "running, ok, error or interrupted; a run nobody runs any more still says running.")
    mode: str = column(Words, "live, replay, auto or off.")
    arm: str = column(Words, "recorded, fork:<digest of the change>, or evaluator:<name>@<version>.")
    trial: int = column(Integer, "Which repetition of its case, from 0.", default=0)
    case: str | None = column(Words, "Case of a golden dataset that the run executes.", nullable=True)
    experiment: str | None = column(Words, "Experiment that the run belongs to.", nullable=True)
    owner: str = column(Words, "host:pid:start of the process that runs it.")
    heartbeat_at: datetime | None = column(
        Time, "When its process last said that it is alive (every ten seconds).", nullable=True
    )
    started_at: datetime = column(Time, "Start.")
    ended_at: datetime | None = column(Time, "End; null while it runs.", nullable=True)
    input_hash: str | None = column(Sha256, "Snapshot of the input.", nullable=True)
    input_order: str | None = column(Sha256, "The input in its own key order; null if sorted.", nullable=True)
    output_hash: str | None = column(Sha256, "Snapshot of the output.", nullable=True)
    error: str | None = column(Words, "Type and message of the exception that ended it.", nullable=True)
    tags: list[str] = column(Json, "JSON list of tags.")
    meta: dict[str, Any] = column(Json, "JSON object of the caller's metadata.")
    parent_run_id: str | None = column(Words, "Run that this one replays or forks.", nullable=True)
    fork_step: str | None = column(Words, "Address of the step where the fork sets in.", nullable=True)
    change: dict[str, Any] | None = column(Json, "JSON object: the one declared change.", nullable=True)
    code_version: str | None = column(Words, "Digest of the code that ran.", nullable=True)
    fidelity: str = column(Words, "wire (recorded here, byte for byte) or imported.")
    usable: bool = column(Boolean, "False when something could not be stored: no recording.")
    rules: str = column(Words, "Version of the key rules it was recorded under.")


class Step(Table, table=True):
    """One unit of work in a run; tool calls are steps of kind tool."""

    __tablename__: ClassVar[str] = "steps"
    __table_args__ = (Index("ix_steps_run_id_seq", "run_id", "seq"),)

    id: str = column(Id, "Time-ordered UUID.", primary_key=True)
    run_id: str = column(Id, "The run.")
    parent_step_id: str | None = column(Id, "Enclosing step; null at the root.", nullable=True)
    seq: int = column(Integer, "Order of start in the run; steps and messages share one sequence.")
    name: str = column(Words, "Name of the step.")
    kind: str = column(Words, "agent, tool or job.")
    scope: str = column(Words, "Names of the enclosing steps, /-joined.")
    occurrence: int = column(Integer, "How many steps of this name started before it in this scope.")
    step_key: str = column(Key, "Content key: name (tool: and version) and canonical inputs.")
    status: str = column(Words, "running, ok, error or interrupted.")
    state: str = column(Words, "run, reused, answered, called or dry.")
    determinism: str | None = column(Words, "deterministic, time-bound or side-effect; tools only.", nullable=True)
    ttl: float | None = column(Float, "Seconds that a time-bound result holds.", nullable=True)
    version: str | None = column(Words, "Version tag of the tool or step.", nullable=True)
    input_hash: str | None = column(Sha256, "Snapshot of the inputs; null when not serialisable.", nullable=True)
    output_hash: str | None = column(Sha256, "Snapshot of the output; null when not serialisable.", nullable=True)
    output_order: str | None = column(Sha256, "The output in its own key order; null if sorted.", nullable=True)
    mutated: bool = column(Boolean, "The body changed an argument.")
    reused_from: str | None = column(Words, "Step whose output was taken over.", nullable=True)
    error: str | None = column(Words, "Type and message of the exception.", nullable=True)
    started_at: datetime = column(Time, "Start.")
    duration_ms: float = column(Float, "Milliseconds by a monotonic clock.")


class StepEdge(Table, table=True):
    """What flows between the steps of a run: data edges by content hash, order edges by sequence."""

    __tablename__: ClassVar[str] = "step_edges"
    __table_args__: ClassVar[dict[str, Any]] = {"sqlite_with_rowid": False}

    run_id: str = column(Id, "The run.", primary_key=True)
    source_step_id: str = column(Id, "Step that comes first.", primary_key=True)
    target_step_id: str = column(Id, "Step that comes after it.", primary_key=True)
    kind: str = column(Words, "data or order.", primary_key=True)
    content_hash: str | None = column(Sha256, "The content that flows; null for order edges.", nullable=True)


class Message(Table, table=True):
    """One model interaction: a request and its response."""

    __tablename__: ClassVar[str] = "messages"
    __table_args__ = (
        Index("ix_messages_run_id_seq", "run_id", "seq"),
        Index("ix_messages_exact_key", "exact_key"),
    )

    id: str = column(Id, "Time-ordered UUID.", primary_key=True)
    run_id: str = column(Id, "The run.")
    step_id: str | None = column(Id, "The step it was made in.", nullable=True)
    seq: int = column(Integer, "Order of start in the run; steps and messages share one sequence.")
    scope: str = column(Words, "Names of the enclosing steps, /-joined.")
    method: str = column(Words, "HTTP method.")
    endpoint: str = column(Words, "Path below the API root, such as /chat/completions.")
    provider: str = column(Words, "Host and port the call went to.")
    exact_key: str = column(Key, "Key of the canonical request; decides what answers it.")
    semantic_key: str = column(Key, "Key of the request without what does not change its meaning.")
    occurrence: int = column(Integer, "How many equal requests started before it in this scope.")
    request_hash: str = column(Sha256, "The request body as sent; see blobs.")
    request_chain: int | None = column(
        BigKey, "Last link of the request's chain; null when the body is stored whole.", nullable=True
    )
    request_type: str | None = column(Words, "Content type of the request; null for JSON.", nullable=True)
    streamed: bool = column(Boolean, "Whether the response was a stream.")
    status: str = column(Words, "running, ok, error or interrupted.")
    cache_state: str = column(Words, "live, recorded or renamed.")
    replay_of: str | None = column(Words, "Recorded message that answered it.", nullable=True)
    model: str | None = column(Words, "Model asked for.", nullable=True)
    model_served: str | None = column(Words, "Model that answered, if it said so.", nullable=True)
    system_fingerprint: str | None = column(Words, "Backend fingerprint, if given.", nullable=True)
    prompt_name: str | None = column(Words, "Named prompt that the request was built from.", nullable=True)
    prompt_version: str | None = column(Words, "Version of that prompt.", nullable=True)
    temperature: float | None = column(Float, "Temperature as sent.", nullable=True)
    seed: int | None = column(BigKey, "Seed as sent, if it fits 64 bits; params has it in any case.", nullable=True)
    max_tokens: int | None = column(BigKey, "Largest number of output tokens as sent.", nullable=True)
    params: dict[str, Any] = column(Json, "JSON object of all scalar request parameters as sent.")
    input_tokens: int | None = column(BigKey, "Null is unknown, never zero.", nullable=True)
    output_tokens: int | None = column(BigKey, "Null is unknown, never zero.", nullable=True)
    cached_tokens: int | None = column(BigKey, "Input tokens that the provider had cached.", nullable=True)
    reasoning_tokens: int | None = column(BigKey, "Output tokens spent on reasoning.", nullable=True)
    cost: Decimal | None = column(Money, "Price by the settings; null when unknown.", nullable=True)
    currency: str | None = column(Words, "Of the cost; null without one.", nullable=True)
    finish_reasons: list[str] = column(Json, "JSON list, one per choice.")
    latency_ms: float | None = column(Float, "Milliseconds until the response was complete.", nullable=True)
    first_chunk_ms: float | None = column(Float, "Milliseconds until the first chunk.", nullable=True)
    error: str | None = column(Words, "Type and message of what failed.", nullable=True)
    started_at: datetime = column(Time, "Start.")


class Exchange(Table, table=True):
    """One HTTP attempt of a message: what came back, as received."""

    __tablename__: ClassVar[str] = "exchanges"
    __table_args__: ClassVar[dict[str, Any]] = {"sqlite_with_rowid": False}

    message_id: str = column(Id, "The message.", primary_key=True, refers_to="messages.id")
    attempt: int = column(Integer, "From 0; the last one is the answer.", primary_key=True)
    status: int | None = column(Integer, "HTTP status; null when the transport failed first.", nullable=True)
    headers: bytes = column(LargeBinary, "JSON list of [name, value], packed: one codec byte as in blobs, then data.")
    body_hash: str | None = column(Sha256, "The body as received; see blobs.", nullable=True)
    chunks: bytes | None = column(
        LargeBinary, "Of a stream: JSON list of [end offset, milliseconds], packed like headers.", nullable=True
    )
    error: str | None = column(Words, "Type and message of a transport error.", nullable=True)


class Chunk(Table, table=True):
    """A piece of a running stream; the final record of the message removes it."""

    __tablename__: ClassVar[str] = "chunks"

    message_id: str = column(Id, "The message, still running.", primary_key=True)
    number: int = column(Integer, "Order of arrival, from 0.", primary_key=True)
    data: bytes = column(LargeBinary, "Bytes as received.")
    offset_ms: float = column(Float, "Milliseconds since the request.")


class Chain(Table, table=True):
    """A link of a request body: its prefix and the piece that follows it.

    The body itself is a blob with codec 2: a layout (what stands around the growing list, large values by hash)
    and the last link of the list.
    """

    __tablename__: ClassVar[str] = "chains"
    __table_args__ = (UniqueConstraint("prev", "blob", name="uq_chains_prev_blob"),)

    id: int | None = column(BigKey, "Number of the link.", primary_key=True)
    prev: int = column(BigKey, "The link before it; 0 at the start.")
    blob: int = column(BigKey, "The piece.", refers_to="blobs.id")
    touched: int = column(BigKey, "Unix seconds when a writer last relied on it.")


class Blob(Table, table=True):
    """Content by hash, each once: request pieces, request bodies, responses, snapshots."""

    __tablename__: ClassVar[str] = "blobs"
    __table_args__ = (UniqueConstraint("hash", name="uq_blobs_hash"),)

    id: int | None = column(BigKey, "Number of the blob.", primary_key=True)
    hash: str = column(Sha256, "SHA-256 of the content.")
    size: int = column(BigKey, "Bytes of the content.")
    codec: int = column(SmallInteger, "0 as it is, 1 zlib, 2 a layout joined with a chain, 3 zlib against base.")
    base: int | None = column(BigKey, "Codec 2: blob of the layout. Codec 3: blob that it repeats.", nullable=True)
    chain: int | None = column(BigKey, "Codec 2: last link of its chain; null without a growing list.", nullable=True)
    data: bytes = column(LargeBinary, "The content, encoded; empty for codec 2.")
    touched: int = column(BigKey, "Unix seconds when a writer last relied on it.")


class Volatile(Table, table=True):
    """A declared volatile value of a run: the clock, an id, a random number."""

    __tablename__: ClassVar[str] = "volatile"
    __table_args__ = (
        UniqueConstraint("run_id", "scope", "name", "occurrence", name="uq_volatile_run_id_scope_name_occurrence"),
    )

    seq: int | None = column(BigKey, "Order of arrival.", primary_key=True)
    run_id: str = column(Id, "The run.")
    step_id: str | None = column(Id, "The step it was drawn in.", nullable=True)
    scope: str = column(Words, "Names of the enclosing steps, /-joined.")
    name: str = column(Words, "Kind of value: now, uuid, random.")
    occurrence: int = column(Integer, "How many of this name came before it in this scope.")
    value: Any = column(Json, "JSON scalar; null is JSON null.", nullable=True)
