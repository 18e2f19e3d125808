"""From runs to golden datasets: staging cases, scanning them, freezing versions."""

from harness.curation._git import dataset_at
from harness.curation._scan import Place, scan_dataset, totals
from harness.curation._snapshot import Snapshot, snapshot
from harness.curation._stage import Draft, Staged, stage

__all__ = [
    "Draft",
    "Place",
    "Snapshot",
    "Staged",
    "dataset_at",
    "scan_dataset",
    "snapshot",
    "stage",
    "totals",
]
