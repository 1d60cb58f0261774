"""Workspace folders that callboard makes in its data folder for sessions that name none.

They are removed with their sessions. A folder to remove is found by its name below one parent, and no
symbolic link is followed, so nothing elsewhere can be removed.

A folder is first renamed, so that no session can begin in it. `sweep` handles every renamed folder that
it finds: if callboard was killed before the sessions were purged it puts the folder back, and otherwise
removes it, also where an earlier removal failed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path

import trio

from ..errors import StorageError
from ..identity import new_id
from .tree_removal import remove_tree

FOLDER = "workspaces"
"""In the data folder."""

_KIND = "workspace"
_NAME = re.compile(rf"{_KIND}_[0-9a-z]+")
_ASIDE = "purged_"
"""The prefix of folders that are being removed."""


class OwnFolders:
    """The workspace folders of a data folder; every method blocks.

    Args:
        data: The data folder, or `None` for a runtime in memory, which has none.

    Attributes:
        path: The parent of the folders.
        using: Hold this while a session begins in an existing folder, and while checking whether any
            session works in a folder that is to be removed.
    """

    def __init__(self, data: Path | None) -> None:
        self.data = data
        self.path = None if data is None else data / FOLDER
        self.using = trio.Lock()

    def make(self) -> Path:
        """Make a new folder; raise `StorageError` if that fails."""
        assert self.path is not None
        folder = self.path / new_id(_KIND)
        try:
            folder.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise StorageError(f"no workspace can be made in {self.path}: {error}") from error
        return folder

    def holds(self, folder: str) -> bool:
        """Whether a path is that of a folder made here."""
        parent, name = os.path.split(folder)
        if self.path is None or not _NAME.fullmatch(name):
            return False
        return os.path.realpath(parent) == os.path.realpath(self.path)

    def take_back(self, folder: Path) -> None:
        """Remove an empty folder that no session uses; one that is not empty stays."""
        if self.holds(str(folder)):
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or gone

    def set_aside(self, folder: str) -> None:
        """Rename a folder so that no session can use it and `sweep` removes it.

        A folder that is gone already is not an error.

        Raises:
            StorageError: The path is not a folder made here; nothing was changed.
        """
        self._rename(folder, back=False)

    def put_back(self, *folders: str) -> None:
        """Undo `set_aside`."""
        for folder in folders:
            self._rename(folder, back=True)

    def sweep(self, named: Collection[str] = ()) -> None:
        """Remove all folders that were set aside, but put back those in `named`.

        Raises:
            StorageError: A folder could not be removed completely.
        """
        problem = ""
        for folder in self.left():
            place = self.place_of(folder)
            if place in named:
                try:
                    self.put_back(place)
                except StorageError as error:
                    problem = str(error)
                continue
            with self._opened(folder) as parent:
                try:
                    remove_tree(parent, folder.name)
                except OSError as error:
                    problem = (
                        f"{folder} can't be removed completely ({error}); this is retried later."
                    )
        if problem:
            raise StorageError(problem)

    def left(self) -> list[Path]:
        """Return the folders that were set aside and still exist."""
        if self.path is None:
            return []
        try:
            names = os.listdir(self.path)
        except OSError:
            return []  # no folder was made yet
        aside = (name for name in names if name.startswith(_ASIDE))
        return [self.path / name for name in aside if _NAME.fullmatch(name.removeprefix(_ASIDE))]

    def place_of(self, left: Path) -> str:
        """Return the path that a folder of `left` had for its sessions."""
        return str(left.with_name(left.name.removeprefix(_ASIDE)))

    def _rename(self, folder: str, *, back: bool) -> None:
        if not self.holds(folder):
            raise StorageError(f"{folder} is not a folder that callboard made; it was not removed.")
        name = os.path.basename(folder)
        old, new = (_ASIDE + name, name) if back else (name, _ASIDE + name)
        with self._opened(Path(folder)) as parent:
            try:
                if not stat.S_ISDIR(os.lstat(old, dir_fd=parent).st_mode):
                    raise StorageError(f"{folder} can't be removed: it is no longer a folder.")
                os.rename(old, new, src_dir_fd=parent, dst_dir_fd=parent)
            except FileNotFoundError:
                return  # gone already
            except OSError as error:
                raise StorageError(f"{folder} can't be removed: {error.strerror}.") from error

    @contextmanager
    def _opened(self, folder: Path) -> Generator[int]:
        """Open the parent of the folders, which must not be a link."""
        assert self.path is not None
        try:
            parent = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise StorageError(f"{folder} can't be removed: {error.strerror}.") from error
        try:
            yield parent
        finally:
            os.close(parent)
