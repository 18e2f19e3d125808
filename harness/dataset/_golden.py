"""GoldenDataset: the files of a dataset, held to their version."""

from __future__ import annotations

from harness.dataset._files import DatasetFiles
from harness.dataset._freeze import freeze
from harness.dataset._verify import check
from harness.errors import DatasetEdited


class GoldenDataset(DatasetFiles):
    """A named, versioned, reviewed set of cases in a folder that git keeps.

    Reading never leaves the folder. Cases are cached until one is written through this object; an object may be
    read from several threads.
    """

    def verify(self) -> tuple[str, ...]:
        """Everything that differs from the frozen version or cannot be read; empty when all is well."""
        return check(self).problems

    def require_verified(self) -> None:
        """Refuse to go on with a dataset that is not the version it says it is.

        Raises:
            DatasetEdited: With the first problem and the command that shows or settles them.
        """
        found = self.verify()
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise DatasetEdited(
                f"dataset {self.name!r}: {found[0]}{more}; see `goldfork dataset verify {self.where}`, "
                f"freeze intended edits with `goldfork dataset snapshot {self.where}`"
            )

    def snapshot(self, *, approve: str | None = None, note: str = "") -> int:
        """Freeze the approved cases as a new version, unless nothing changed.

        Args:
            approve: Name of the person who approves all staged cases now; ``None`` leaves them staged.
            note: One line for the history.

        Returns:
            The version that holds, new or unchanged.
        """
        return freeze(self, approve=approve, note=note).version
