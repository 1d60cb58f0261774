"""Files of /proc that belong to the machine and not to a process, and that a sandbox must not write.

Even a sandbox's own /proc shows the kernel's settings, and root's user number suffices to write them,
without any capability: `kernel.core_pattern` names a program that then runs outside. So in a sandbox's
/proc only what belongs to its processes stays writable.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

PROC = "/proc"

MAX_DEPTH = 4
"""How deep folders are searched for something writable: sysctls lie as deep."""
MAX_LOOKED_AT = 2000
"""Entries that are looked at below one folder; one with more is made read-only as a whole."""


def writable_kernel_files(uid: int, proc: str = PROC) -> tuple[str, ...]:
    """Return the entries of /proc that this user may write, or that hold such files; sorted."""
    found = []
    with os.scandir(proc) as entries:
        for entry in entries:
            if entry.name.isdigit() or entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                if any(_may_write(uid, status) for status in _below(entry.path)):
                    found.append(entry.path)
            elif _may_write(uid, entry.stat(follow_symlinks=False)):
                found.append(entry.path)
    return tuple(sorted(found))


def _may_write(uid: int, status: os.stat_result | None) -> bool:
    if status is None:
        return True  # nobody looked that far
    if stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode):
        return False
    # Writable by its group counts too, whoever is in that.
    return bool(status.st_mode & (0o222 if status.st_uid == uid else 0o022))


def _below(folder: str) -> Iterator[os.stat_result | None]:
    """Yield what lies below, as far as this process may look, and `None` where it gives up."""
    waiting, looked_at = [(folder, 0)], 0
    while waiting:
        place, depth = waiting.pop()
        try:
            with os.scandir(place) as entries:
                listed = list(entries)
        except OSError:
            continue
        for entry in listed:
            looked_at += 1
            if looked_at > MAX_LOOKED_AT:
                yield None
                return
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                waiting.append((entry.path, depth + 1))
            yield status
