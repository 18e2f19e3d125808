"""Looking for personal data and secrets in everything that a dataset would hand on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.dataset import Case, GoldenDataset
from harness.record import Hash, MessageRecord, Recording, decode_body, is_event_stream, view_response
from harness.redact import scan_value

Piece = tuple[str, Any]
"""JSON path and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Something that looks like personal data or a secret, and where it stands; never the thing itself."""

    file: str
    """File of the dataset."""
    path: str
    """JSON path in it, or in the content that the file holds."""
    kind: str
    """Name of the detector."""
    count: int


def scan_dataset(dataset: GoldenDataset, *, staged: bool) -> tuple[Place, ...]:
    """Scan dataset.toml, the cases and their recordings; content that several of them share counts once.

    Args:
        dataset: The dataset.
        staged: Whether staged cases are scanned too.

    Raises:
        DatasetMissing: A recording or its content is gone.
        DatasetEdited: A recording does not have its digest.
    """
    known: set[str] = set()
    found = list(_places("dataset.toml", _pieces(dataset.table, "$"), known))
    for case in (*dataset.cases, *(dataset.staged if staged else ())):
        found += _places(f"cases/{case.id}.json", _case_pieces(case), known)
        for ref in case.recordings:
            recording = dataset.read_recording(ref.digest)
            found += _places(f"recordings/{ref.digest}.jsonl", _recording_pieces(recording), known)
    return tuple(found)


def totals(places: tuple[Place, ...]) -> dict[str, int]:
    """Count by kind, sorted."""
    counts: Counter[str] = Counter()
    for place in places:
        counts[place.kind] += place.count
    return dict(sorted(counts.items()))


def _places(file: str, pieces: Iterator[Piece], known: set[str]) -> Iterator[Place]:
    """Findings of values not seen before; a conversation repeats its beginning in every request."""
    for path, value in pieces:
        mark = _mark(value)
        if mark in known:
            continue
        known |= {mark} if mark else set()
        found = Counter((f"{path}{below[1:]}", finding.kind) for below, finding in scan_value(value))
        for (place, kind), count in found.items():
            yield Place(file=file, path=place, kind=kind, count=count)


def _mark(value: Any) -> str:
    """The value as text, to know it again; empty when it is nested too deeply for that."""
    try:
        return json.dumps(value, default=str)
    except RecursionError:
        return ""


def _pieces(value: Any, path: str) -> Iterator[Piece]:
    """The entries of an object and of the lists in it, each with the name that it has there."""
    if not isinstance(value, dict):
        yield path, value
        return
    for key, inner in value.items():
        if isinstance(inner, list):
            yield from ((f"{path}.{key}[{n}]", item) for n, item in enumerate(inner))
        else:
            yield path, {key: inner}


def _case_pieces(case: Case) -> Iterator[Piece]:
    names = ("input", "expected_output", "metadata", "tags", "group", "labels", "provenance")
    for name in names:
        yield from _pieces(getattr(case, name), f"$.{name}")


def _recording_pieces(recording: Recording) -> Iterator[Piece]:
    run = recording.run
    yield "$.run", {"error": run.error, "tags": run.tags, "metadata": dict(run.metadata), "change": run.change}
    hashes: dict[Hash, str] = {}
    for digest, path in ((run.input_hash, "$.run.input"), (run.output_hash, "$.run.output")):
        if digest is not None:
            hashes.setdefault(digest, path)
    for step in recording.steps:
        yield f"$.steps[{step.seq}]", {"error": step.error, "name": step.name, "scope": step.scope}
        for digest, side in ((step.input_hash, "input"), (step.output_hash, "output")):
            if digest is not None:
                hashes.setdefault(digest, f"$.steps[{step.seq}].{side}")
    for digest, path in hashes.items():
        yield from _content_pieces(recording.read(digest), path)
    for number, message in enumerate(recording.messages):
        yield from _message_pieces(recording, message, f"$.messages[{number}]")
    for value in recording.volatile:
        yield f"$.volatile[{value.name}]", {"value": value.value, "scope": value.scope}


def _message_pieces(recording: Recording, message: MessageRecord, path: str) -> Iterator[Piece]:
    yield path, {"error": message.error, "params": dict(message.params), "scope": message.scope}
    yield from _content_pieces(recording.read(message.request_hash), f"{path}.request")
    for exchange in message.exchanges:
        headers = {name.lower(): value for name, value in exchange.headers}
        yield f"{path}.response", {"error": exchange.error, "headers": headers}
        if exchange.body_hash is None:
            continue
        body = recording.read(exchange.body_hash)
        plain, _ = decode_body(body, headers.get("content-encoding", ""))
        yield from _content_pieces(plain, f"{path}.response")
        if message.streamed or is_event_stream(headers.get("content-type", "")):
            # A stream spells an address in pieces; only the joined text shows it.
            for choice in view_response(message.endpoint, exchange, body).choices:
                texts = [choice.text, choice.refusal, choice.reasoning, *(c.arguments for c in choice.tool_calls)]
                yield f"{path}.response.choices[{choice.index}]", texts


def _content_pieces(data: bytes, path: str) -> Iterator[Piece]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        yield path, data.decode("utf-8", "replace")
        return
    yield from _pieces(value, path)
