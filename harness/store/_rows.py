"""Records as rows and rows as records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from harness.canonical import RULES
from harness.record import (
    ChunkRecord,
    Exchange,
    MessageRecord,
    RunRecord,
    StepRecord,
    Usage,
    VolatileRecord,
)
from harness.store._codec import pack, unpack
from harness.store._packing import (
    Packing,
    pack_hash,
    pack_json,
    pack_key,
    pack_text,
    unpack_json,
    unpack_key,
    unpack_text,
)

JSON_TYPE: Final = "application/json"

# fmt: off
RUN: Final = (
    "id", "workflow", "status", "mode", "arm", "trial", "case", "experiment", "owner", "heartbeat_at", "started_at",
    "ended_at", "input_hash", "input_order", "output_hash", "error", "tags", "meta", "parent_run_id", "fork_step",
    "change", "code_version", "fidelity", "usable", "rules",
)
STEP: Final = (
    "id", "run_id", "parent_step_id", "seq", "name", "kind", "scope", "occurrence", "step_key", "status", "state",
    "determinism", "ttl", "version", "input_hash", "output_hash", "output_order", "mutated", "reused_from", "error",
    "started_at", "duration_ms",
)
MESSAGE: Final = (
    "id", "run_id", "step_id", "seq", "scope", "method", "endpoint", "provider", "exact_key", "semantic_key",
    "occurrence", "request_hash", "request_chain", "request_type", "streamed", "status", "cache_state", "replay_of",
    "model", "model_served", "system_fingerprint", "prompt_name", "prompt_version", "temperature", "seed",
    "max_tokens", "params", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost",
    "currency", "finish_reasons", "latency_ms", "first_chunk_ms", "error", "started_at",
)
# fmt: on
MESSAGE_TOLD: Final = tuple(
    name for name in MESSAGE if name not in {"request_chain", "request_type", "temperature", "seed", "max_tokens"}
)
"""What a record is made of: the others are there to be asked for, ``params`` holds them all."""
REQUEST_CHAIN: Final = MESSAGE.index("request_chain")
EXCHANGE: Final = ("message_id", "attempt", "status", "headers", "body_hash", "chunks", "error")
CHUNK: Final = ("message_id", "number", "data", "offset_ms")
VOLATILE: Final = ("run_id", "step_id", "scope", "name", "occurrence", "value")

_INT64 = range(-(2**63), 2**63)


def _text(value: str | None) -> str | None:
    return None if value is None else pack_text(value)


def _hash(value: str | None) -> bytes | None:
    return None if value is None else pack_hash(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _INT64 else None


def run_row(run: RunRecord, to: Packing, now: datetime) -> tuple[Any, ...]:
    """A row of ``runs``."""
    return (
        to.id(run.id),
        pack_text(run.workflow),
        run.status,
        run.mode,
        pack_text(run.arm),
        run.trial,
        _text(run.case),
        _text(run.experiment),
        pack_text(run.owner),
        to.time(now),
        to.time(run.started_at),
        to.time(run.ended_at),
        _hash(run.input_hash),
        _hash(run.input_order),
        _hash(run.output_hash),
        _text(run.error),
        pack_json(list(run.tags)),
        pack_json(dict(run.metadata)),
        _text(run.parent_run_id),
        _text(run.fork_step),
        None if run.change is None else pack_json(dict(run.change)),
        _text(run.code_version),
        run.fidelity,
        run.usable,
        RULES,
    )


def step_row(step: StepRecord, to: Packing) -> tuple[Any, ...]:
    """A row of ``steps``."""
    return (
        to.id(step.id),
        to.id(step.run_id),
        to.id(step.parent_id),
        step.seq,
        pack_text(step.name),
        step.kind,
        pack_text(step.scope),
        step.occurrence,
        pack_key(step.key),
        step.status,
        step.state,
        step.determinism,
        step.ttl,
        _text(step.version),
        _hash(step.input_hash),
        _hash(step.output_hash),
        _hash(step.output_order),
        step.mutated,
        _text(step.reused_from),
        _text(step.error),
        to.time(step.started_at),
        step.duration_ms,
    )


def message_row(message: MessageRecord, to: Packing) -> list[Any]:
    """A row of ``messages``, without its request chain."""
    params, usage = message.params, message.usage
    return [
        to.id(message.id),
        to.id(message.run_id),
        to.id(message.step_id),
        message.seq,
        pack_text(message.scope),
        pack_text(message.method),
        pack_text(message.endpoint),
        pack_text(message.provider),
        pack_key(message.exact_key),
        pack_key(message.semantic_key),
        message.occurrence,
        pack_hash(message.request_hash),
        None,
        None if message.request_type == JSON_TYPE else pack_text(message.request_type),
        message.streamed,
        message.status,
        message.cache_state,
        _text(message.replay_of),
        _text(message.model),
        _text(message.model_served),
        _text(message.system_fingerprint),
        _text(message.prompt_name),
        _text(message.prompt_version),
        _number(params.get("temperature")),
        _integer(params.get("seed")),
        _integer(params.get("max_tokens", params.get("max_completion_tokens", params.get("max_output_tokens")))),
        pack_json(dict(params)),
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.reasoning_tokens,
        to.money(message.cost),
        None if message.cost is None else pack_text(message.currency),
        pack_json(list(message.finish_reasons)),
        message.latency_ms,
        message.first_chunk_ms,
        _text(message.error),
        to.time(message.started_at),
    ]


def exchange_rows(message: MessageRecord, to: Packing) -> list[tuple[Any, ...]]:
    """The rows of ``exchanges`` of one message."""
    owner = to.id(message.id)
    return [
        (
            owner,
            attempt,
            exchange.status,
            pack(pack_json([list(pair) for pair in exchange.headers]).encode("ascii")),
            _hash(exchange.body_hash),
            pack(orjson.dumps(exchange.chunks)) if exchange.chunks else None,
            _text(exchange.error),
        )
        for attempt, exchange in enumerate(message.exchanges)
    ]


def chunk_row(chunk: ChunkRecord, to: Packing) -> tuple[Any, ...]:
    """A row of ``chunks``."""
    return to.id(chunk.message_id), chunk.index, chunk.data, chunk.offset_ms


def volatile_row(value: VolatileRecord, to: Packing) -> tuple[Any, ...]:
    """A row of ``volatile``."""
    return (
        to.id(value.run_id),
        to.id(value.step_id),
        pack_text(value.scope),
        pack_text(value.name),
        value.occurrence,
        pack_json(value.value),
    )


def to_run(row: Sequence[Any], to: Packing) -> RunRecord:
    """A row of ``runs``, columns as in ``RUN``, as a record."""
    (id_, workflow, status, mode, arm, trial, case, experiment, owner, _, started_at, ended_at, input_hash,
     input_order, output_hash, error, tags, meta, parent, fork_step, change, code_version, fidelity, usable,
     _) = row  # fmt: skip
    return RunRecord(
        id=to.unpack_id(id_),
        workflow=unpack_text(workflow),
        status=status,
        mode=mode,
        arm=unpack_text(arm),
        trial=trial,
        case=_words(case),
        experiment=_words(experiment),
        owner=unpack_text(owner),
        started_at=to.unpack_time(started_at),
        ended_at=to.unpack_time(ended_at),
        input_hash=_hex(input_hash),
        input_order=_hex(input_order),
        output_hash=_hex(output_hash),
        error=_words(error),
        tags=tuple(_json(tags)),
        metadata=_json(meta),
        parent_run_id=_words(parent),
        fork_step=_words(fork_step),
        change=None if change is None else unpack_json(change),
        code_version=_words(code_version),
        fidelity=fidelity,
        usable=bool(usable),
    )


def to_step(row: Sequence[Any], to: Packing) -> StepRecord:
    """A row of ``steps``, columns as in ``STEP``, as a record."""
    (id_, run_id, parent, seq, name, kind, scope, occurrence, key, status, state, determinism, ttl, version,
     input_hash, output_hash, output_order, mutated, reused_from, error, started_at, duration_ms) = row  # fmt: skip
    return StepRecord(
        id=to.unpack_id(id_),
        run_id=to.unpack_id(run_id),
        parent_id=to.unpack_id(parent),
        seq=seq,
        name=unpack_text(name),
        kind=kind,
        scope=unpack_text(scope),
        occurrence=occurrence,
        key=unpack_key(bytes(key)),
        status=status,
        state=state,
        determinism=determinism,
        ttl=ttl,
        version=_words(version),
        input_hash=_hex(input_hash),
        output_hash=_hex(output_hash),
        output_order=_hex(output_order),
        mutated=bool(mutated),
        reused_from=_words(reused_from),
        error=_words(error),
        started_at=to.unpack_time(started_at),
        duration_ms=duration_ms,
    )


def to_message(row: Sequence[Any], exchanges: Iterable[Exchange], to: Packing) -> MessageRecord:
    """A row of ``messages``, columns as in ``MESSAGE_TOLD``, and its exchanges as a record."""
    (id_, run_id, step_id, seq, scope, method, endpoint, provider, exact_key, semantic_key, occurrence, request_hash,
     streamed, status, cache_state, replay_of, model, model_served, fingerprint, prompt_name, prompt_version, params,
     input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost, currency, finish_reasons, latency_ms,
     first_chunk_ms, error, started_at) = row  # fmt: skip
    return MessageRecord(
        id=to.unpack_id(id_),
        run_id=to.unpack_id(run_id),
        step_id=to.unpack_id(step_id),
        seq=seq,
        scope=unpack_text(scope),
        method=unpack_text(method),
        endpoint=unpack_text(endpoint),
        provider=unpack_text(provider),
        exact_key=unpack_key(bytes(exact_key)),
        semantic_key=unpack_key(bytes(semantic_key)),
        occurrence=occurrence,
        request_hash=bytes(request_hash).hex(),
        exchanges=tuple(exchanges),
        streamed=bool(streamed),
        status=status,
        cache_state=cache_state,
        replay_of=_words(replay_of),
        model=_words(model),
        model_served=_words(model_served),
        system_fingerprint=_words(fingerprint),
        prompt_name=_words(prompt_name),
        prompt_version=_words(prompt_version),
        params=_json(params),
        usage=Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens,
            reasoning_tokens=reasoning_tokens,
        ),
        cost=to.unpack_money(cost),
        currency=unpack_text(currency) if currency else "USD",
        finish_reasons=tuple(_json(finish_reasons)),
        latency_ms=latency_ms,
        first_chunk_ms=first_chunk_ms,
        error=_words(error),
        started_at=to.unpack_time(started_at),
    )


def to_exchange(row: Sequence[Any]) -> Exchange:
    """A row of ``exchanges``, columns as in ``EXCHANGE``, as a value."""
    _, _, status, headers, body_hash, chunks, error = row
    told: Sequence[Sequence[str]] = _pairs(unpack(bytes(headers)))
    ends: Sequence[Sequence[Any]] = orjson.loads(unpack(bytes(chunks))) if chunks else ()
    return Exchange(
        status=status,
        headers=tuple((name, value) for name, value in told),
        body_hash=_hex(body_hash),
        chunks=tuple((end, offset) for end, offset in ends),
        error=_words(error),
    )


def to_volatile(row: Sequence[Any], to: Packing) -> VolatileRecord:
    """A row of ``volatile``, columns as in ``VOLATILE``, as a record."""
    run_id, step_id, scope, name, occurrence, value = row
    return VolatileRecord(
        run_id=to.unpack_id(run_id),
        step_id=to.unpack_id(step_id),
        scope=unpack_text(scope),
        name=unpack_text(name),
        occurrence=occurrence,
        value=None if value is None else unpack_json(value),
    )


def _pairs(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # Lone surrogates.
        return unpack_json(data.decode("ascii"))


def _words(value: str | None) -> str | None:
    return None if value is None else unpack_text(value)


def _hex(value: Any) -> str | None:
    return None if value is None else bytes(value).hex()


def _json(text: str) -> Any:
    # Most are empty; a reader may change what it gets, so that each gets its own.
    return {} if text == "{}" else [] if text == "[]" else unpack_json(text)
