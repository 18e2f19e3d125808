"""Output identity: two values are the same when they differ in nothing but what a reply says about itself.

A reply's own ids, its time of creation and the fingerprint of the system that made it are new at every call. Where a
step's output holds them, the same answer given once more would count as another one.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from harness.canonical import MINTED, canonical_json, from_canonical
from harness.errors import CanonicalError, DatasetMissing, StoreError
from harness.record import Hash, MessageRecord, Recording, decode_body

_TIMES = frozenset({"created", "created_at", "completed_at"})
_FINGERPRINT = "system_fingerprint"
_NAMES = "|".join(sorted((*MINTED, *_TIMES, _FINGERPRINT)))
_SAID = re.compile(rb'"(' + _NAMES.encode() + rb')"\s*:\s*("(?:[^"\\]|\\.)*"|\d+(?:\.\d+)?)')
_DISTINCT = 12
"""An id of so many characters is not met by chance in a text; a shorter one counts as the value of an id's field."""
_IDENTIFIER = re.compile(rf"[A-Za-z0-9_-]{{{_DISTINCT},}}")


class Identity:
    """Which provider-made values of a run stand for which of its parent's.

    A reply stands for its counterpart: the reply that it was taken from, else the one to the same request, else the one
    at the same place of the same step. Only ids of counterparts stand for each other, so that an output which names
    another reply than the parent's is another output.
    """

    def __init__(self, run: Recording, parent: Recording) -> None:
        self._run, self._parent = run, parent

    def same(self, before: Hash | None, after: Hash | None) -> bool:
        """Whether a snapshot of the parent and one of the run are equal up to what replies say about themselves."""
        if before is None or after is None or not self._told:
            return False
        ours, theirs = self._told
        try:
            old, new = from_canonical(self._parent.read(before)), from_canonical(self._run.read(after))
            return canonical_json(theirs.told(old)) == canonical_json(ours.told(new))
        except (DatasetMissing, StoreError, CanonicalError):
            return False

    @cached_property
    def _told(self) -> tuple[_Said, _Said] | None:
        """What the replies of both say about themselves; ``None`` where no reply of the run is a new one."""
        known = {message.answer.body_hash for message in self._parent.messages if message.answer is not None}
        if all(message.answer is None or message.answer.body_hash in known for message in self._run.messages):
            return None
        nonce = secrets.token_hex(8)
        ours, theirs = _Said(self._run, nonce), _Said(self._parent, nonce)
        for number, (mine, other) in enumerate(_counterparts(self._run.messages, self._parent.messages)):
            # Both lists are in the order in which the replies hold them: the n-th stands for the n-th.
            for place, (new, old) in enumerate(zip(ours.ids_of(mine), theirs.ids_of(other), strict=False)):
                token = f"⟦{nonce}:{number}:{place}⟧"
                ours.names[new], theirs.names[old] = token, token
        return ours, theirs


class _Said:
    """What the replies of one run say about themselves."""

    def __init__(self, run: Recording, nonce: str) -> None:
        self.names: dict[str, str] = {}
        """Id → the token of what it stands for; without a counterpart it stands for itself."""
        self._time, self._fingerprint = f"⟦{nonce}:time⟧", f"⟦{nonce}:fingerprint⟧"
        self._ids: dict[str, list[str]] = {}
        self._times: set[float] = set()
        self._fingerprints: set[str] = set()
        for message in run.messages:
            self._ids[message.id] = list(self._take(run, message))
        minted = Counter(one for ids in self._ids.values() for one in ids)
        # A provider that counts its ids from 0 in every reply tells nothing by them.
        self._shared = {one for one, times in minted.items() if times > 1}

    def ids_of(self, message: MessageRecord) -> Iterator[str]:
        """The ids that a reply brought, each once, in its order; one that another reply brought too stands for none."""
        return (one for one in self._ids[message.id] if one not in self._shared)

    def _take(self, run: Recording, message: MessageRecord) -> Iterator[str]:
        seen: set[str] = set()
        for field, value in _said(run, message):
            if field in _TIMES and isinstance(value, int | float):
                self._times.add(float(value))
            elif field == _FINGERPRINT and isinstance(value, str):
                self._fingerprints.add(value)
            elif field in MINTED and isinstance(value, str) and value and value not in seen:
                seen.add(value)
                yield value

    def told(self, value: Any, field: str = "") -> Any:
        """A snapshot's value with tokens in place of what replies say about themselves."""
        if isinstance(value, dict):
            if field in _TIMES and len(value) == 2 and _number(value.get("v")) in self._times:
                # A whole number as a float has a tag around it in a snapshot.
                return self._time
            return {self._text(key, key): self.told(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.told(item, field) for item in value]
        if isinstance(value, str):
            return self._text(value, field)
        return self._time if field in _TIMES and _number(value) in self._times else value

    def _text(self, text: str, field: str) -> str:
        if field == _FINGERPRINT and text in self._fingerprints:
            return self._fingerprint
        if field in MINTED and text in self.names:
            return self.names[text]
        if len(text) < _DISTINCT:
            return text
        return _IDENTIFIER.sub(lambda found: self.names.get(found[0], found[0]), text)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _said(run: Recording, message: MessageRecord) -> Iterator[tuple[str, Any]]:
    """Fields and values of a reply, plain or streamed, in its order; text that it quotes is none of them."""
    answer = message.answer
    if answer is None or answer.body_hash is None:
        return
    try:
        body = run.read(answer.body_hash)
    except (DatasetMissing, StoreError):
        return
    encoding = {name.lower(): value for name, value in answer.headers}.get("content-encoding", "")
    plain, _ = decode_body(body, encoding)
    for found in _SAID.finditer(plain):
        try:
            yield found[1].decode(), json.loads(found[2])
        except ValueError:
            continue


def _counterparts(
    ours: Sequence[MessageRecord], theirs: Sequence[MessageRecord]
) -> Iterator[tuple[MessageRecord, MessageRecord]]:
    """Messages of the run, each with the one of the parent that it stands for."""
    by_id = {message.id: message for message in theirs}
    left = []
    for message in ours:
        origin = by_id.pop(message.replay_of or "", None)
        if origin is None:
            left.append(message)
        else:
            yield message, origin
    asked: defaultdict[tuple[str, str], list[MessageRecord]] = defaultdict(list)
    for message in by_id.values():
        asked[message.scope, message.semantic_key].append(message)
    rest: defaultdict[str, list[MessageRecord]] = defaultdict(list)
    for message in left:
        same = asked[message.scope, message.semantic_key]
        if same:
            yield message, same.pop(0)
        else:
            rest[message.scope].append(message)
    yield from _by_place(rest, (message for same in asked.values() for message in same))


def _by_place(
    rest: Mapping[str, list[MessageRecord]], unpaired: Iterable[MessageRecord]
) -> Iterator[tuple[MessageRecord, MessageRecord]]:
    places: defaultdict[str, list[MessageRecord]] = defaultdict(list)
    for message in sorted(unpaired, key=lambda one: one.seq):
        places[message.scope].append(message)
    for scope, mine in rest.items():
        # With a call more or less it cannot be told which one of them is new.
        if len(places[scope]) == len(mine):
            yield from zip(mine, places[scope], strict=True)
