"""What `callboard backup` and `restore` do.

A backup reads the store itself, whether or not a daemon runs: it takes no lock, and the daemon would
do the same.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import trio

from ...runtime.backup.backup import restore_backup, write_backup
from ...runtime.disk.data_lock import DataInUse, check_free
from ...runtime.errors import ConflictError
from ..exit_codes import ANSWERED, USAGE
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line


class BackupLine(msgspec.Struct, frozen=True, kw_only=True):
    """What `callboard backup --json` prints."""

    path: str
    size_bytes: int


def back_up(data: Path, file: Path, *, json: bool) -> int:
    """Writes a backup.

    Raises:
        NotFoundError: There is no store yet.
        ConflictError: There is such a file already.
    """
    target = file.expanduser().absolute()
    size = trio.run(trio.to_thread.run_sync, write_backup, data, target)
    if json:
        sys.stdout.write(json_line(BackupLine(path=str(target), size_bytes=size)))
    else:
        print(f"Wrote {safe_line(str(target))} ({size:,} bytes): all sessions, and no keys.")
    return ANSWERED


def restore_from(data: Path, file: Path, *, is_sure: bool) -> int:
    """Puts a backup in place.

    Raises:
        NotFoundError: There is no such backup.
        ConflictError: Another process has the store.
        StorageError: It is damaged, or no backup.
    """
    backup = file.expanduser().absolute()
    try:
        if not is_sure:
            check_free(data)  # before anybody is asked
            if not _agrees(data):
                complain("Nothing was restored: say --yes to do it.")
                return USAGE
        kept = trio.run(trio.to_thread.run_sync, restore_backup, data, backup)
    except DataInUse as error:
        raise ConflictError(
            f"{data} is in use by {error.holder}: stop that (a daemon with `callboard stop`), and "
            "come back. Nothing was changed."
        ) from error
    print(f"Restored {safe_line(str(backup))} into {safe_line(str(data))}.")
    if kept is not None:
        print(f"What was there before is {safe_line(str(kept))}; remove it when you are sure.")
    return ANSWERED


def _agrees(data: Path) -> bool:
    if not os.path.lexists(data / "callboard.db"):
        return True
    if not os.isatty(0):
        return False
    sys.stdout.write(f"Replace the sessions in {safe_line(str(data))}? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().casefold() in {"y", "yes"}
