"""The store as the other layers see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Literal, Self

from harness.record import RECORDED, Hash, Record, Recording, RunRecord
from harness.store._values import CheckReport, GcReport, RunStatus, RunSummary, StoreStats

Durability = Literal["full", "normal"]
Progress = Callable[[str, int, int], None]


class Store:
    """One database and this process's writer to it."""

    def __init__(self, url: str, *, durability: Durability = "full", read_only: bool = False) -> None:
        raise NotImplementedError

    def write(self, *records: Record, blobs: Mapping[Hash, bytes] | None = None) -> Future[None]:
        raise NotImplementedError

    def read(self, content: Hash) -> bytes:
        raise NotImplementedError

    def recording(self, ref: str, *, arm: str = RECORDED, trial: int = 0) -> Recording | None:
        raise NotImplementedError

    def runs(
        self, limit: int = 50, *, workflow: str | None = None, status: RunStatus | None = None
    ) -> list[RunSummary]:
        raise NotImplementedError

    def run(self, ref: str) -> RunRecord | None:
        raise NotImplementedError

    def save(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        raise NotImplementedError

    def load(self, table: str, **equals: Any) -> list[dict[str, Any]]:
        raise NotImplementedError

    def check(self, *, progress: Progress | None = None) -> CheckReport:
        raise NotImplementedError

    def gc(self, *, progress: Progress | None = None) -> GcReport:
        raise NotImplementedError

    def stats(self) -> StoreStats:
        raise NotImplementedError

    def flush(self, timeout: float = 30.0) -> bool:
        raise NotImplementedError

    def close(self, timeout: float = 30.0) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_store(url: str, *, durability: Durability = "full", read_only: bool = False) -> Store:
    """Open the store at a SQLAlchemy URL."""
    return Store(url, durability=durability, read_only=read_only)
