"""`callboard backup`, `restore`, `upgrade` and `compact`: the store as one file.

A backup reads the store itself, whether or not a daemon runs: it takes no lock. The others have the
store for themselves meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import trio

from ...runtime.backup.backup import restore_backup, write_backup
from ...runtime.backup.upkeep import Formats, compact, formats, upgrade
from ...runtime.disk.data_lock import DataInUse, check_free
from ...runtime.errors import ConflictError
from ..exit_codes import ANSWERED, USAGE
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line

MIB = 1024 * 1024

Done = TypeVar("Done")


def upgrade_store(data: Path, *, only_check: bool, json: bool) -> int:
    """Upgrade a store, or print what there is to do."""
    found = formats(data)
    backup = None if only_check else _alone(data, upgrade)
    if json:
        sys.stdout.write(
            json_line(
                {
                    "stored_format": found.stored,
                    "written_format": found.written,
                    "backup": "" if backup is None else str(backup),
                }
            )
        )
    else:
        sys.stdout.write("\n".join(_told(data, found, backup)) + "\n")
    return ANSWERED


def _told(data: Path, found: Formats, backup: Path | None) -> list[str]:
    where = f"The store in {safe_line(str(data))}"
    if not found.is_old:
        return [f"{where} has format {found.stored}, which this callboard writes: nothing to do."]
    if backup is None:
        return [
            f"{where} has format {found.stored}, and this callboard writes {found.written}. "
            "`callboard upgrade` makes a backup and brings it there."
        ]
    return [
        f"{where} was brought from format {found.stored} to {found.written}, and is sound.",
        f"What it was before is {safe_line(str(backup))}; remove it when you are sure.",
    ]


def compact_store(data: Path, *, json: bool) -> int:
    """Give space back to the disk."""
    before, after = _alone(data, compact)
    if json:
        line = {"bytes_before": before.file_bytes, "bytes_after": after.file_bytes}
        sys.stdout.write(json_line(line))
    else:
        sys.stdout.write(
            f"The store had {before.file_bytes / MIB:.1f} MiB, and has {after.file_bytes / MIB:.1f} "
            "now.\n"
        )
    return ANSWERED


def _alone(data: Path, work: Callable[[Path], Done]) -> Done:
    try:
        return trio.run(trio.to_thread.run_sync, work, data)
    except DataInUse as error:
        raise _in_use(data, error) from error


def back_up(data: Path, file: Path, *, json: bool) -> int:
    """Write a backup."""
    target = file.expanduser().absolute()
    size = trio.run(trio.to_thread.run_sync, write_backup, data, target)
    if json:
        sys.stdout.write(json_line({"path": str(target), "size_bytes": size}))
    else:
        print(f"Wrote {safe_line(str(target))} ({size:,} bytes): all sessions, and no keys.")
    return ANSWERED


def restore_from(data: Path, file: Path, *, is_sure: bool) -> int:
    """Put a backup in place."""
    backup = file.expanduser().absolute()
    try:
        if not is_sure:
            check_free(data)  # before anybody is asked
            if not _agrees(data):
                complain("Nothing was restored: say --yes to do it.")
                return USAGE
        kept = trio.run(trio.to_thread.run_sync, restore_backup, data, backup)
    except DataInUse as error:
        raise _in_use(data, error) from error
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


def _in_use(data: Path, error: DataInUse) -> ConflictError:
    return ConflictError(
        f"{data} is in use by {error.holder}: stop that (a daemon with `callboard stop`), and come "
        "back. Nothing was changed."
    )
