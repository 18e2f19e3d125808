"""The source of truth: runs, messages and their content in the team's own SQL tables."""

from harness.store._outbox import Outbox, OutboxEntry, OutboxState
from harness.store._outbox_sources import score_id
from harness.store._store import Store, open_store
from harness.store._values import CheckReport, GcReport, RunStatus, RunSummary, StoreStats, TableSize

__all__ = [
    "CheckReport",
    "GcReport",
    "Outbox",
    "OutboxEntry",
    "OutboxState",
    "RunStatus",
    "RunSummary",
    "Store",
    "StoreStats",
    "TableSize",
    "open_store",
    "score_id",
]
