"""The logs of sessions some of which work in folders that several machines share: theirs lie there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from .version_log import FOLDER, VersionStore

MAX_PLACED = 100_000
"""Sessions of which it is kept where their log is to be: more than are loaded at once. A log that is there is found anyway."""


class SharedVersions(VersionStore):
    """The logs of a runtime's sessions; see `VersionStore`.

    Those in a shared folder may be of sessions of another database. So `sessions` names none of them, and they are
    removed by the names of what is purged alone.

    Args:
        data: The data folder; it has the logs of the sessions that work elsewhere.
        shared: For each shared folder, callboard's own folder in it.
    """

    def __init__(self, data: Path, shared: Mapping[str, Path]) -> None:
        super().__init__(data)
        self._shared_folders = {root: own / FOLDER for root, own in shared.items()}
        self._placed: dict[str, Path] = {}

    def place(self, session_id: str, workspace: str) -> None:
        """Have the log of a session lie where its workspace is."""
        for root, folder in self._shared_folders.items():
            if workspace.startswith(f"{root}/"):
                while len(self._placed) >= MAX_PLACED:
                    del self._placed[next(iter(self._placed))]
                self._placed[session_id] = folder

    def forget(self, session_ids: Iterable[str]) -> None:
        """Remove the logs of sessions. Raises `StorageError`."""
        names = list(session_ids)
        super().forget(names)
        for folder in self._shared_folders.values():
            self._forget_in(folder, names)

    def _folder_of(self, session_id: str) -> Path | None:
        if (placed := self._placed.get(session_id)) is not None:
            return placed
        for folder in self._shared_folders.values():
            if (folder / f"{session_id}.log").exists():
                return folder
        return super()._folder_of(session_id)
