"""Storing content: each piece once, request bodies as chains of pieces."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

from harness.record import Prefix, Split, split_body
from harness.store._codec import BASE_BYTES, BASED, CHAIN, encode, encode_against
from harness.store._driver import Driver
from harness.store._sql import insert_new

BLOB: Final = ("id", "hash", "size", "codec", "base", "chain", "data", "touched")
LINK: Final = ("id", "prev", "blob", "touched")
SPARED_SECONDS: Final = 3600
"""Garbage collection leaves alone what was touched this recently."""
_TRUST_SECONDS: Final = 900
"""How long a writer relies on what it has seen, well below the spared time."""
_SPLIT_BYTES: Final = 1024
_REMEMBERED: Final = 50_000
_GROWN: Final = 4
"""A list of fewer elements makes no conversation, unless it is a request's."""
_TURNS: Final = 64
_TURN_BYTES: Final = 1 << 20
"""How many conversations are remembered, and up to which length, so that their next turn is quick."""
_AT_ONCE: Final = 400
_RECENT: Final = 16
_REPEAT_BYTES: Final = range(256, BASE_BYTES)
"""Content of this size may repeat, or be repeated by, other content."""
_PROBE_BYTES: Final = 32
_WORTH_BYTES: Final = 64
"""A base has to save this much: it must be kept and read as long as what relies on it."""


class Race(Exception):
    """Another writer stored the same content first; the transaction has to be repeated."""


class _Seen(NamedTuple):
    id: int
    chain: int | None
    touched: int


class _Turn(NamedTuple):
    """A request body that was stored, as the beginning of the next one."""

    prefix: Prefix
    chain: int
    touched: int


class _Plan(NamedTuple):
    """How a request body is to be stored."""

    split: Split
    elements: list[bytes]
    """Digests of the new elements."""
    prev: int
    """The chain that they follow, 0 for none."""


@dataclass(slots=True)
class _Memory:
    """What is known to be in the database, by digest and by (previous link, blob)."""

    blobs: dict[bytes, _Seen] = field(default_factory=dict)
    links: dict[tuple[int, int], _Seen] = field(default_factory=dict)
    turns: deque[_Turn] = field(default_factory=lambda: deque(maxlen=_TURNS))

    def learn(self, other: _Memory) -> None:
        """Take over what a transaction has found or written."""
        if len(self.blobs) + len(self.links) > _REMEMBERED:
            self.blobs.clear()
            self.links.clear()
        self.blobs.update(other.blobs)
        self.links.update(other.links)
        self.turns.extend(other.turns)


class ContentWriter:
    """Content of one writer's transactions; remembers what the database has."""

    def __init__(self) -> None:
        self._known = _Memory()
        self._fresh = _Memory()
        self._now = 0
        self._recent: deque[tuple[int, bytes, int]] = deque(maxlen=_RECENT)
        """Number, content and time of what was stored lately in a form of its own."""

    def committed(self) -> None:
        """The transaction is durable: remember what it wrote."""
        self._known.learn(self._fresh)
        self._fresh = _Memory()

    def rolled_back(self) -> None:
        """The transaction is gone; after a race also what was believed is in doubt."""
        self._known, self._fresh = _Memory(), _Memory()
        self._recent.clear()

    def store(
        self,
        driver: Driver,
        contents: Mapping[bytes, bytes],
        *,
        requests: AbstractSet[bytes],
        responses: AbstractSet[bytes],
    ) -> dict[bytes, int | None]:
        """Store content inside the driver's transaction.

        Args:
            driver: With an open transaction.
            contents: By digest.
            requests: Digests of request bodies among them.
            responses: Digests of response bodies, which are never split.

        Returns:
            The last chain link of each request given, ``None`` for one that is stored whole.

        Raises:
            Race: Another process stored a piece at the same time; repeat the transaction.
        """
        self._now = int(time.time())
        self._look_up(driver, contents)
        new = {digest: content for digest, content in contents.items() if not self._find(digest)}
        plans = {
            digest: plan
            for digest, content in new.items()
            if len(content) > _SPLIT_BYTES
            and content[:1] in {b"{", b"["}
            and digest not in responses
            and (plan := self._plan(content)) is not None
            and (digest in requests or plan.prev or len(plan.elements) >= _GROWN)
        }
        self._store_plain(driver, {digest: new[digest] for digest in new.keys() - plans.keys()})
        pieces: dict[bytes, bytes] = {}
        for plan in plans.values():
            pieces.update(zip(plan.elements, plan.split.growing, strict=True))
            pieces.update((_digest(piece), piece) for piece in (plan.split.layout, *plan.split.parts))
        self._look_up(driver, pieces)
        self._store_plain(driver, pieces)
        self._store_split(driver, new, plans)
        return {digest: seen.chain for digest in requests if (seen := self._find(digest)) is not None}

    def _plan(self, content: bytes) -> _Plan | None:
        """Split a body, from where the conversation's last turn ended if that is known."""
        known = next((turn for turn in reversed(self._known.turns) if content.startswith(turn.prefix.data)), None)
        if known is not None and known.touched < self._now - _TRUST_SECONDS:
            known = None
        found = split_body(content, known.prefix if known else None)
        if found is None:
            return None
        return _Plan(found, _digests(found.growing), known.chain if known and found.resumed else 0)

    def _find(self, digest: bytes) -> _Seen | None:
        seen = self._fresh.blobs.get(digest)
        if seen is None:
            seen = self._known.blobs.get(digest)
            if seen is not None and seen.touched < self._now - _TRUST_SECONDS:
                return None
        return seen

    def _look_up(self, driver: Driver, digests: Iterable[bytes]) -> None:
        """Learn which of these the database has, and touch those not touched for a while."""
        wanted = [digest for digest in digests if self._find(digest) is None]
        stale: list[tuple[int, int]] = []
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            marks = ", ".join([driver.mark] * len(some))
            rows = driver.query(f"SELECT hash, id, chain, touched FROM blobs WHERE hash IN ({marks})", some)  # noqa: S608 - marks only
            for digest, number, chain, touched in rows:
                if touched < self._now - _TRUST_SECONDS:
                    stale.append((self._now, number))
                self._fresh.blobs[bytes(digest)] = _Seen(number, chain, self._now)
        self._touch(driver, "blobs", stale)

    def _touch(self, driver: Driver, table: str, stale: Sequence[tuple[int, int]]) -> None:
        if not stale:
            return
        statement = f"UPDATE {table} SET touched = {driver.mark} WHERE id = {driver.mark}"  # noqa: S608 - names are constants
        if driver.many(statement, stale) != len(stale):
            raise Race(table)

    def _store_plain(self, driver: Driver, contents: Mapping[bytes, bytes]) -> None:
        """Store what has been looked up and not found."""
        new = sorted(digest for digest in contents if self._find(digest) is None)
        rows = []
        for number, digest in zip(driver.allocate("blobs", len(new)) if new else (), new, strict=True):
            content = contents[digest]
            codec, base, data = self._encoded(number, content)
            rows.append((number, digest, len(content), codec, base, None, data, self._now))
            self._fresh.blobs[digest] = _Seen(number, None, self._now)
        self._insert(driver, "blobs", BLOB, rows)

    def _encoded(self, number: int, content: bytes) -> tuple[int, int | None, bytes]:
        """Codec, base and data; the next request repeats the last reply, and so do snapshots."""
        codec, data = encode(content)
        if len(content) not in _REPEAT_BYTES:
            return codec, None, data
        middle = len(content) // 2
        probe = content[middle : middle + _PROBE_BYTES]
        for base, earlier, touched in reversed(self._recent):
            if touched >= self._now - _TRUST_SECONDS and probe in earlier:
                shorter = encode_against(content, earlier)
                if len(shorter) + _WORTH_BYTES < len(data):
                    return BASED, base, shorter
        self._recent.append((number, content, self._now))
        return codec, None, data

    def _store_split(self, driver: Driver, contents: Mapping[bytes, bytes], plans: Mapping[bytes, _Plan]) -> None:
        new = sorted(plans)
        links: list[tuple[int, ...]] = []
        rows = []
        for number, digest in zip(driver.allocate("blobs", len(new)) if new else (), new, strict=True):
            plan = plans[digest]
            chain = self._link(driver, plan.prev, [self._blob(piece) for piece in plan.elements], links)
            layout = self._blob(_digest(plan.split.layout))
            rows.append((number, digest, len(contents[digest]), CHAIN, layout, chain, b"", self._now))
            self._fresh.blobs[digest] = _Seen(number, chain, self._now)
            if chain is not None and plan.split.prefix is not None and len(contents[digest]) < _TURN_BYTES:
                self._fresh.turns.append(_Turn(plan.split.prefix, chain, self._now))
        self._insert(driver, "chains", LINK, links)
        self._insert(driver, "blobs", BLOB, rows)

    def _blob(self, digest: bytes) -> int:
        seen = self._find(digest)
        if seen is None:
            raise Race("blobs")
        return seen.id

    def _link(self, driver: Driver, prev: int, blobs: Sequence[int], new: list[tuple[int, ...]]) -> int | None:
        """The id of a chain continued by these blobs; what the database lacks of it is appended to ``new``."""
        growing = False
        stale: list[tuple[int, int]] = []
        ids: Iterator[int] = iter(())
        for index, blob in enumerate(blobs):
            found = self._fresh.links.get((prev, blob)) or self._trusted((prev, blob))
            if found is None and not growing:
                found = self._look_up_link(driver, prev, blob, stale)
            if found is None:
                if not growing:
                    ids = iter(driver.allocate("chains", len(blobs) - index))
                    growing = True
                found = _Seen(next(ids), None, self._now)
                self._fresh.links[prev, blob] = found
                new.append((found.id, prev, blob, self._now))
            prev = found.id
        self._touch(driver, "chains", stale)
        return prev or None

    def _trusted(self, link: tuple[int, int]) -> _Seen | None:
        seen = self._known.links.get(link)
        return seen if seen is not None and seen.touched >= self._now - _TRUST_SECONDS else None

    def _look_up_link(self, driver: Driver, prev: int, blob: int, stale: list[tuple[int, int]]) -> _Seen | None:
        statement = f"SELECT id, touched FROM chains WHERE prev = {driver.mark} AND blob = {driver.mark}"  # noqa: S608 - marks only
        rows = driver.query(statement, (prev, blob))
        if not rows:
            return None
        number, touched = rows[0]
        if touched < self._now - _TRUST_SECONDS:
            stale.append((self._now, number))
        self._fresh.links[prev, blob] = seen = _Seen(number, None, self._now)
        return seen

    def _insert(self, driver: Driver, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
        if not rows:
            return
        key = ("hash",) if table == "blobs" else ("prev", "blob")
        if driver.many(insert_new(table, columns, key=key, mark=driver.mark), rows) != len(rows):
            raise Race(table)


def _digest(piece: bytes) -> bytes:
    return sha256(piece).digest()


def _digests(pieces: Iterable[bytes]) -> list[bytes]:
    return [sha256(piece).digest() for piece in pieces]
