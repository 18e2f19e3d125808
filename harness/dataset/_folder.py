"""A folder that is never left: every path is resolved, compared, and free of symbolic links."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from harness.errors import DatasetError, DatasetMissing


class Folder:
    """Reads and writes files below one root; relative names use ``/``.

    Raises:
        DatasetMissing: The root is not a folder.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise DatasetMissing(f"there is no dataset folder {str(root)!r}")
        self.root = root.resolve()

    def read(self, name: str) -> bytes:
        """The bytes of a file.

        Raises:
            DatasetMissing: There is no such file.
            DatasetError: The name leads out of the folder, or the file cannot be read.
        """
        path = self.path(name)
        if path.exists() and not path.is_file():
            raise DatasetError(f"{name!r} of {str(self.root)!r} is not a regular file; put the file itself there")
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise DatasetMissing(f"file {name!r} of {str(self.root)!r} is missing") from None
        except OSError as error:
            raise DatasetError(f"file {name!r} of {str(self.root)!r} cannot be read: {error.strerror}") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole: a reader sees the old bytes or the new ones; equal bytes are left alone."""
        path = self.path(name)
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path(name)  # a folder that was a link is noticed before anything is written
        draft = path.with_name(f".{path.name[:60]}.{secrets.token_hex(4)}.tmp")
        try:
            draft.write_bytes(data)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        """Whether the file is there."""
        return self.path(name).is_file()

    def rename(self, old: str, new: str) -> None:
        """Give a file its new name; an existing file of that name is replaced."""
        self.path(old).replace(self.path(new))

    def remove(self, name: str) -> None:
        """Delete a file that may be gone already."""
        self.path(name).unlink(missing_ok=True)

    def names(self, folder: str) -> Iterator[str]:
        """Names of the entries of a subfolder, sorted; nothing when it does not exist."""
        path = self.path(folder)
        if path.is_dir():
            yield from sorted(entry.name for entry in path.iterdir())

    def path(self, name: str) -> Path:
        """The absolute path of a relative name.

        Raises:
            DatasetError: The name is absolute, holds ``..`` or a backslash, or passes a symbolic link.
        """
        pure = PurePosixPath(name)
        if not pure.parts or pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name:
            raise DatasetError(f"{name!r} is not a file name inside {str(self.root)!r}")
        path = self.root.joinpath(*pure.parts)
        if path.resolve() != path:
            raise DatasetError(
                f"{name!r} of {str(self.root)!r} is or passes a symbolic link; put the file itself there"
            )
        return path
