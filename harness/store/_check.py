"""Verifying a store: every hash recomputed, every request re-joined, every reference followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any

from harness.errors import StoreError
from harness.record import join_body
from harness.store._codec import CHAIN, decode
from harness.store._database import Database
from harness.store._values import CheckReport

Progress = Callable[[str, int, int], None]

_MOST_FAULTS = 1000
_AT_ONCE = 256
_PIECES = 8192
"""Pieces kept unpacked while chains are joined; neighbouring bodies share most of theirs."""

_REFERENCES = (
    ("message", "request", "SELECT t.id, t.request_hash FROM messages t {} t.request_hash"),
    ("exchange of message", "body", "SELECT t.message_id, t.body_hash FROM exchanges t {} t.body_hash"),
    ("run", "input", "SELECT t.id, t.input_hash FROM runs t {} t.input_hash"),
    ("run", "ordered input", "SELECT t.id, t.input_order FROM runs t {} t.input_order"),
    ("run", "output", "SELECT t.id, t.output_hash FROM runs t {} t.output_hash"),
    ("step", "input", "SELECT t.id, t.input_hash FROM steps t {} t.input_hash"),
    ("step", "ordered output", "SELECT t.id, t.output_order FROM steps t {} t.output_order"),
    ("step", "output", "SELECT t.id, t.output_hash FROM steps t {} t.output_hash"),
    ("tool_cache entry", "output", "SELECT t.key, t.output_hash FROM tool_cache t {} t.output_hash"),
)
"""(what, which content, query): rows whose content is not stored."""
_MISSING = "LEFT JOIN blobs b ON b.hash = {column} WHERE {column} IS NOT NULL AND b.id IS NULL"

_OWNERS = (
    ("step", "run", "SELECT t.id, t.run_id FROM steps t LEFT JOIN runs o ON o.id = t.run_id WHERE o.id IS NULL"),
    ("message", "run", "SELECT t.id, t.run_id FROM messages t LEFT JOIN runs o ON o.id = t.run_id WHERE o.id IS NULL"),
    ("message", "step", "SELECT t.id, t.step_id FROM messages t LEFT JOIN steps o ON o.id = t.step_id "
                        "WHERE t.step_id IS NOT NULL AND o.id IS NULL"),
    ("exchange", "message", "SELECT t.attempt, t.message_id FROM exchanges t "
                            "LEFT JOIN messages o ON o.id = t.message_id WHERE o.id IS NULL"),
    ("chunk", "message", "SELECT t.number, t.message_id FROM chunks t "
                         "LEFT JOIN messages o ON o.id = t.message_id WHERE o.id IS NULL"),
    ("volatile value", "run", "SELECT t.name, t.run_id FROM volatile t "
                              "LEFT JOIN runs o ON o.id = t.run_id WHERE o.id IS NULL"),
    ("chain link", "link", "SELECT t.id, t.prev FROM chains t LEFT JOIN chains o ON o.id = t.prev "
                           "WHERE t.prev <> 0 AND o.id IS NULL"),
    ("chain link", "blob", "SELECT t.id, t.blob FROM chains t LEFT JOIN blobs o ON o.id = t.blob "
                           "WHERE o.id IS NULL"),
)  # fmt: skip
"""(what, whose, query): rows whose owner is not stored."""


class _Check:
    """One pass over a database."""

    def __init__(self, database: Database, progress: Progress) -> None:
        self._database = database
        self._progress = progress
        self._piece = lru_cache(_PIECES)(self._read_piece)
        self.faults: list[str] = []
        self.blobs = 0
        self.messages = 0

    def run(self) -> None:
        """All of it; what cannot be read is a fault, not an end."""
        for part in (self._integrity, self._references, self._contents, self._count):
            try:
                part()
            except StoreError as error:
                self._fault(str(error))

    def _count(self) -> None:
        [(self.messages,)] = self._database.rows("SELECT count(*) FROM messages")

    def _fault(self, sentence: str) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(sentence)

    def _integrity(self) -> None:
        if self._database.path is None:
            return
        self._progress("database", 0, 1)
        for (line,) in self._database.rows("PRAGMA integrity_check"):
            if line != "ok":
                self._fault(f"the database is damaged: {line}")
        self._progress("database", 1, 1)

    def _references(self) -> None:
        steps = len(_OWNERS) + len(_REFERENCES)
        for done, (what, owner, query) in enumerate(_OWNERS):
            self._progress("references", done, steps)
            for name, missing in self._database.rows(query):
                self._fault(f"{what} {_shown(name)} belongs to {owner} {_shown(missing)}, which is not stored")
        for done, (what, part, query) in enumerate(_REFERENCES, len(_OWNERS)):
            self._progress("references", done, steps)
            column = query.rpartition(" ")[2]
            text = query.rpartition("{}")[0] + _MISSING.format(column=column)
            for name, missing in self._database.rows(text):
                self._fault(f"{what} {_shown(name)} refers to {part} {_shown(missing)}, which is not stored")
        self._progress("references", steps, steps)

    def _contents(self) -> None:
        [(total,)] = self._database.rows("SELECT count(*) FROM blobs")
        for _, digest, size, codec, base, chain, data in self._rows():
            self.blobs += 1
            if self.blobs % _AT_ONCE == 0:
                self._progress("content", self.blobs, total)
            name = bytes(digest).hex()
            try:
                content = self._decoded(codec, data, size, base, chain)
            except (ValueError, KeyError) as error:
                self._fault(f"content {name!r} cannot be read: {error}")
                continue
            if sha256(content).digest() != bytes(digest) or len(content) != size:
                self._fault(f"content {name!r} has changed: its hash is now {sha256(content).hexdigest()!r}")
        self._progress("content", self.blobs, total)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        last = 0
        while True:
            rows = self._database.rows(
                "SELECT id, hash, size, codec, base, chain, data FROM blobs WHERE id > ? ORDER BY id LIMIT ?",
                (last, _AT_ONCE),
            )
            if not rows:
                return
            yield from rows
            last = rows[-1][0]

    def _read_piece(self, number: int) -> bytes:
        rows = self._database.rows("SELECT codec, data, size, base, chain FROM blobs WHERE id = ?", (number,))
        if not rows:
            raise KeyError(f"blob {number} is not stored")
        return self._decoded(*rows[0])

    def _decoded(self, codec: int, data: bytes, size: int, base: int | None, chain: int | None) -> bytes:
        if codec == CHAIN and base is not None:
            return self._joined(base, chain)
        return decode(codec, data, size, None if base is None else self._piece(base))

    def _part(self, digest: str) -> bytes:
        rows = self._database.rows("SELECT id FROM blobs WHERE hash = ?", (bytes.fromhex(digest),))
        if not rows:
            raise KeyError(f"part {digest} is not stored")
        return self._piece(rows[0][0])

    def _joined(self, layout: int, chain: int | None) -> bytes:
        links = self._database.rows(_LINKS, (chain,)) if chain is not None else []
        return join_body(self._piece(layout), [self._piece(blob) for (blob,) in links], self._part)


_LINKS = """
WITH RECURSIVE link (blob, prev, depth) AS (
    SELECT blob, prev, 0 FROM chains WHERE id = ?
    UNION ALL
    SELECT chains.blob, chains.prev, link.depth + 1 FROM chains JOIN link ON chains.id = link.prev
)
SELECT blob FROM link ORDER BY depth DESC
"""


def check(database: Database, progress: Progress) -> CheckReport:
    """Verify everything; see ``Store.check``."""
    found = _Check(database, progress)
    found.run()
    return CheckReport(ok=not found.faults, blobs=found.blobs, messages=found.messages, faults=tuple(found.faults))


def _shown(value: Any) -> str:
    return repr(bytes(value).hex()) if isinstance(value, bytes | memoryview) else repr(str(value))
