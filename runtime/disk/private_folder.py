"""Folders that are their owner's alone: made so whatever the umask is, and not used when others
could change what is in them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import StorageError

MODE = 0o700

OWN_NAMES = (
    *("callboard.", "keys.", "tokens.", "daemon.", "vectors.", "memories."),
    *("recordings", "models", "backups", "workspaces"),
)
"""How the names in a data folder begin. A folder with others in it, like a home, is not ours to
close; our files in it are, each by itself."""


def make_folders(folder: Path) -> None:
    """Makes a folder, and those above it that are missing, for their owner alone.

    One that exists is left as it is. Raises `OSError`.
    """
    for missing in reversed([each for each in folder.parents if not each.exists()]):
        missing.mkdir(mode=MODE, exist_ok=True)
    folder.mkdir(mode=MODE, exist_ok=True)


def check_folder(folder: Path) -> None:
    """Raises `StorageError` when others can put files into a folder, or take them away."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "everybody" if mode & stat.S_IWOTH else "its group"
        raise StorageError(
            f"{folder} is not used: {who} can write to it (mode {mode:04o}), and so change what "
            f"callboard keeps there. Run `chmod go-w {folder}`, or choose another folder."
        )


def close_folder(folder: Path) -> None:
    """Takes from others the look into a folder of ours that holds nothing but our files."""
    found = folder.stat()
    if not found.st_mode & 0o077 or found.st_uid != os.geteuid():
        return
    if all(name.startswith(OWN_NAMES) for name in os.listdir(folder)):
        folder.chmod(MODE)


def sync_path(path: Path) -> None:
    """Makes a file's content durable, or of a folder the names in it; blocks for the disk.

    Raises:
        OSError: It is not there, or the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
