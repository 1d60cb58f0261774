"""The folders that callboard makes in its data folder for sessions that name no workspace.

They go with the sessions. What is removed is found by its name below that one folder, and no symbolic
link is followed: a name that leads elsewhere removes nothing there.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .errors import StorageError
from .identity import new_id

FOLDER = "workspaces"
"""In the data folder."""

_KIND = "workspace"
_NAME = re.compile(rf"{_KIND}_[0-9a-z]+")


class OwnFolders:
    """Those of a data folder; every method blocks.

    Args:
        data: The data folder, or `None` for a runtime in memory, which has none.

    Attributes:
        data: The same.
        path: Where they are.
    """

    def __init__(self, data: Path | None) -> None:
        self.data = data
        self.path = None if data is None else data / FOLDER

    def make(self) -> Path:
        """A new one; raises `StorageError`."""
        assert self.path is not None
        folder = self.path / new_id(_KIND)
        try:
            folder.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise StorageError(f"no workspace can be made in {self.path}: {error}") from error
        return folder

    def holds(self, folder: str) -> bool:
        """Whether it is one that was made here, by its path alone."""
        parent, name = os.path.split(folder)
        if self.path is None or not _NAME.fullmatch(name):
            return False
        return os.path.realpath(parent) == os.path.realpath(self.path)

    def take_back(self, folder: Path) -> None:
        """Removes one that nobody came to work in; one with something in it stays."""
        if self.holds(str(folder)):
            try:
                folder.rmdir()
            except OSError:
                return  # it is not empty any more, or gone

    def remove(self, folder: str) -> None:
        """Removes one with all that is in it; whatever else it is, or leads to, stays.

        Raises:
            StorageError: It is not one, or something of it is left.
        """
        if self.path is None or not self.holds(folder):
            raise StorageError(f"{folder} is no folder of callboard's own: it stays.")
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise StorageError(f"{folder} can't be removed: {error.strerror}.") from error
        try:
            shutil.rmtree(os.path.basename(folder), dir_fd=descriptor)
        except FileNotFoundError:
            return  # it is gone already
        except OSError as error:
            raise StorageError(
                f"{folder} can't be removed whole ({error.strerror or error}): remove it by hand."
            ) from error
        finally:
            os.close(descriptor)
