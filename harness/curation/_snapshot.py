"""Freezing a version, after the redaction scan has been passed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from harness.curation._scan import Place, scan_dataset, totals
from harness.dataset import Frozen, GoldenDataset, freeze, readdress, unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What came of the wish to freeze a version."""

    frozen: Frozen | None
    """``None`` when findings stopped it."""
    findings: tuple[Place, ...]
    readdressed: tuple[str, ...] = ()
    """Edited recordings that got a new digest, one sentence each."""


def snapshot(
    dataset: GoldenDataset,
    *,
    approve: str | None = None,
    accept_findings: bool = False,
    note: str = "",
    today: date | None = None,
) -> Snapshot:
    """Freeze the approved cases as a new version, unless something personal or secret is found in them.

    Args:
        dataset: The dataset.
        approve: Name of the person who approves all staged cases now.
        accept_findings: Freeze in spite of findings; their counts are kept in the history.
        note: One line for the history.
        today: Date of the version; today's in UTC when absent.

    Raises:
        DatasetError: A file cannot be read, content is missing, or there is no approved case.
    """
    moved = readdress(dataset)
    findings: tuple[Place, ...] = ()
    if not unchanged(dataset, approve=approve is not None):
        findings = scan_dataset(dataset, staged=approve is not None)
    if findings and not accept_findings:
        return Snapshot(frozen=None, findings=findings, readdressed=moved)
    frozen = freeze(dataset, approve=approve, note=note, accepted=totals(findings), today=today)
    return Snapshot(frozen=frozen, findings=findings, readdressed=moved)
