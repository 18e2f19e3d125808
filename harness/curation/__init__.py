"""From runs to golden datasets: staging cases, scanning them, freezing versions."""

from harness.curation._git import dataset_at
from harness.curation._rerecord import Left, Renewed, Rerecorded, Worn, choose, rerecord, worn_cases
from harness.curation._scan import Place, scan_dataset, totals
from harness.curation._snapshot import Snapshot, snapshot
from harness.curation._stage import Draft, Staged, stage

__all__ = [
    "Draft",
    "Left",
    "Place",
    "Renewed",
    "Rerecorded",
    "Snapshot",
    "Staged",
    "Worn",
    "choose",
    "dataset_at",
    "rerecord",
    "scan_dataset",
    "snapshot",
    "stage",
    "totals",
    "worn_cases",
]
