"""A recorded answer for a request that differs in nothing but ids that the provider made up (rule 11)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.canonical import MINTED, content_hash
from harness.errors import DatasetMissing
from harness.gateway._outgoing import Outgoing
from harness.record import Exchange, Hash, MessageRecord, Recording, decode_body
from harness.session import Answer, Call, RunState

_FIELD = re.compile(rb'"(?:' + b"|".join(sorted(name.encode() for name in MINTED)) + rb')"\s*:\s*("(?:[^"\\]|\\.)*")')
_REFUSED = 400
_DISTINCT = 12
"""An id of so many characters is not met by chance in a text; a shorter one is replaced between quotes only."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A recorded answer, and what its ids are called in this run."""

    answer: Answer
    names: Mapping[str, str]
    """Recorded id → this run's."""


def find_renamed(call: Call, run: RunState, outgoing: Outgoing, volatile: Iterable[tuple[str, str]]) -> Renamed | None:
    """Match a fork's call once more, with minted ids taken for what they stand for.

    Only ids that came out of earlier answers, here and there, are renamed, each to one and the same other; the rest of
    the request has to be exactly the recorded one, so that results which were swapped between calls do not match. An
    answer that this run has already used is not given again.
    """
    resolver, volatile = run.plan.resolver, tuple(volatile)
    if resolver is None or run.plan.change is None:
        return None
    body = _json(outgoing.stored)
    used = {message.replay_of for message in list(run.messages)}
    ours: set[str] | None = None
    for recording in resolver.recordings:
        for message in recording.messages:
            if not _candidate(message, call) or message.id in used:
                continue
            if ours is None:
                ours = set(_minted(list(run.messages), run.blobs))
            theirs = set(_minted((one for one in recording.messages if one.seq < message.seq), recording))
            try:
                recorded = _json(recording.read(message.request_hash))
            except DatasetMissing:
                continue
            names: dict[str, str] = {}
            if not _same_but_ids(recorded, body, names, (theirs, ours)) or len(set(names.values())) < len(names):
                continue
            back = {new: old for old, new in names.items()}
            written = json.dumps(_with_ids(body, back), ensure_ascii=False).encode("utf-8", "surrogatepass")
            if replace(outgoing, stored=written).keys(volatile).exact == message.exact_key:
                return Renamed(Answer(message, recording), names)
    return None


def _candidate(message: MessageRecord, call: Call) -> bool:
    # The semantic key renames by first appearance: where it differs there is nothing to look for.
    return (
        message.semantic_key == call.semantic_key
        and message.scope == call.scope
        and message.exact_key != call.exact_key
        and message.status == "ok"
        and message.answer is not None
        and message.answer.status is not None
        and message.answer.status < _REFUSED
    )


def minted_ids(recording: Recording) -> set[str]:
    """All ids that the answers of a recording brought."""
    return set(_minted(recording.messages, recording))


def _minted(messages: Iterable[MessageRecord], source: Recording | Mapping[Hash, bytes]) -> Iterator[str]:
    for message in messages:
        answer = message.answer
        if answer is None or answer.body_hash is None:
            continue
        try:
            body = source.read(answer.body_hash) if isinstance(source, Recording) else source[answer.body_hash]
        except (DatasetMissing, KeyError):
            continue
        plain, _ = decode_body(body, _encoding(answer))
        for found in set(_FIELD.findall(plain)):
            text = _json(found)
            if isinstance(text, str) and text:
                yield text


def _same_but_ids(
    old: Any, new: Any, names: dict[str, str], minted: tuple[set[str], set[str]], field: str = ""
) -> bool:
    """Whether two values agree but for minted ids; ``names`` collects which stands for which."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            return False
        return all(_same_but_ids(old[key], new[key], names, minted, key) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(_same_but_ids(a, b, names, minted) for a, b in zip(old, new, strict=True))
    if not (isinstance(old, str) and isinstance(new, str)):
        return True  # numbers and the like are compared by the key, by its own rules
    if field in MINTED and old in minted[0] and new in minted[1]:
        return names.setdefault(old, new) == new
    return old == new or field not in MINTED


def _with_ids(value: Any, names: Mapping[str, str], field: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _with_ids(item, names, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_ids(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) and field in MINTED else value


def with_names(exchange: Exchange, body: bytes, names: Mapping[str, str]) -> tuple[Exchange, bytes]:
    """An answer in which this run's ids stand in place of the recorded ones; boundaries of chunks move with them."""
    changed = {_bytes(old): _bytes(new) for old, new in names.items() if old != new}
    plain, problem = decode_body(body, _encoding(exchange))
    if not changed or problem:
        return exchange, body
    pattern = re.compile(b"|".join(_anywhere(old) for old in sorted(changed, key=len, reverse=True)))
    moves = [(*found.span(), len(changed[found[0]]) - len(found[0])) for found in pattern.finditer(plain)]
    if not moves:
        return exchange, body
    made = pattern.sub(lambda found: changed[found[0]], plain)
    chunks: tuple[tuple[int, float], ...] = ()
    if plain is body or plain == body:
        chunks = tuple((_moved(end, moves), offset) for end, offset in exchange.chunks)
    headers = tuple(pair for pair in exchange.headers if pair[0].lower() != "content-encoding")
    return replace(exchange, headers=headers, body_hash=content_hash(made), chunks=chunks), made


def _moved(end: int, moves: Iterable[tuple[int, int, int]]) -> int:
    """Where a boundary comes to lie; one within an id goes behind it."""
    by = 0
    for first, last, longer in moves:
        if first < end:
            end, by = max(end, last), by + longer
    return end + by


def _anywhere(identifier: bytes) -> bytes:
    if len(identifier) < _DISTINCT:
        return rb'(?<=")' + re.escape(identifier) + rb'(?=\\?")'
    return rb"(?<![A-Za-z0-9_-])" + re.escape(identifier) + rb"(?![A-Za-z0-9_-])"


def _bytes(identifier: str) -> bytes:
    return json.dumps(identifier, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def _encoding(exchange: Exchange) -> str:
    return {name.lower(): value for name, value in exchange.headers}.get("content-encoding", "")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
