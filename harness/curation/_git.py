"""A dataset as a git revision holds it."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.dataset import GoldenDataset
from harness.errors import DatasetMissing, UsageError


@contextlib.contextmanager
def dataset_at(path: Path, revision: str) -> Iterator[GoldenDataset]:
    """Open the dataset in ``path`` as it was at a git revision; gone after the block.

    Raises:
        UsageError: git is not installed, or there is no such revision.
        DatasetMissing: The folder does not hold a dataset at that revision.
    """
    git = shutil.which("git")
    if git is None:
        raise UsageError("comparing with a revision needs git, which is not installed")
    if not revision or revision.startswith("-"):
        raise UsageError(f"{revision!r} is not a git revision")
    commit = _run(git, path, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise UsageError(f"there is no git revision {revision!r} in {str(path)!r}")
    packed = _run(git, path, "archive", "--format=tar", commit.decode().strip(), ".")
    if packed is None:
        raise DatasetMissing(f"there was no {str(path)!r} at revision {revision!r}")
    with tempfile.TemporaryDirectory(prefix="goldfork-") as folder:
        # The folder has the dataset's own name, so that messages read the same.
        root = Path(folder) / path.resolve().name
        root.mkdir()
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(root, filter="data")
        yield GoldenDataset.load(root)


def _run(git: str, folder: Path, *arguments: str) -> bytes | None:
    """What git printed, ``None`` when it failed."""
    done = subprocess.run(  # noqa: S603 - git itself; the revision was checked not to be an option
        [git, "-C", str(folder), *arguments], capture_output=True, check=False
    )
    return done.stdout if done.returncode == 0 else None
