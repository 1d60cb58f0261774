"""The folders that callboard makes in its data folder for sessions that name no workspace.

They go with the sessions. What is removed is found by its name below that one folder, and no symbolic
link is followed: a name that leads elsewhere removes nothing there.

A folder is set aside under another name first, under which no session can begin in it; what is left
under such a name is looked at again by `sweep`: callboard was killed before its sessions were forgotten,
which puts it back, or a file could not be removed, which is tried again.
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
"""Ahead of the name of one that is being removed."""


class OwnFolders:
    """Those of a data folder; every method blocks.

    Args:
        data: The data folder, or `None` for a runtime in memory, which has none.

    Attributes:
        data: The same.
        path: Where they are.
        using: Held while a session begins in one that is there already, and while it is looked whether
            any session works in one that is to be removed.
    """

    def __init__(self, data: Path | None) -> None:
        self.data = data
        self.path = None if data is None else data / FOLDER
        self.using = trio.Lock()

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

    def set_aside(self, folder: str) -> None:
        """Takes one away from sessions, to be removed by `sweep`; one that is gone already is no error.

        Raises:
            StorageError: It is not one: whatever else it is, or leads to, stays.
        """
        self._rename(folder, back=False)

    def put_back(self, *folders: str) -> None:
        """Undoes `set_aside` of those that were not removed yet."""
        for folder in folders:
            self._rename(folder, back=True)

    def sweep(self, named: Collection[str] = ()) -> None:
        """Removes all that were set aside, with all that is in them, but puts back those in `named`.

        Raises:
            StorageError: Something of them is left.
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
                    problem = f"{folder} can't be removed whole ({error}): it is tried again later."
        if problem:
            raise StorageError(problem)

    def left(self) -> list[Path]:
        """Those that were set aside and are there still."""
        if self.path is None:
            return []
        try:
            names = os.listdir(self.path)
        except OSError:
            return []  # none was made yet
        aside = (name for name in names if name.startswith(_ASIDE))
        return [self.path / name for name in aside if _NAME.fullmatch(name.removeprefix(_ASIDE))]

    def place_of(self, left: Path) -> str:
        """Where one of `left` was for its sessions."""
        return str(left.with_name(left.name.removeprefix(_ASIDE)))

    def _rename(self, folder: str, *, back: bool) -> None:
        if not self.holds(folder):
            raise StorageError(f"{folder} is no folder of callboard's own: it stays.")
        name = os.path.basename(folder)
        old, new = (_ASIDE + name, name) if back else (name, _ASIDE + name)
        with self._opened(Path(folder)) as parent:
            try:
                if not stat.S_ISDIR(os.lstat(old, dir_fd=parent).st_mode):
                    raise StorageError(f"{folder} can't be removed: it is no folder any more.")
                os.rename(old, new, src_dir_fd=parent, dst_dir_fd=parent)
            except FileNotFoundError:
                return  # it is gone already
            except OSError as error:
                raise StorageError(f"{folder} can't be removed: {error.strerror}.") from error

    @contextmanager
    def _opened(self, folder: Path) -> Generator[int]:
        """The place where they are, which is no link."""
        assert self.path is not None
        try:
            parent = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise StorageError(f"{folder} can't be removed: {error.strerror}.") from error
        try:
            yield parent
        finally:
            os.close(parent)
