"""What of /proc is the machine's and not a process's, and could be written in a sandbox.

A /proc of a sandbox's own shows the kernel's settings all the same, and whoever has root's number may
write them, without any capability: `kernel.core_pattern` names a program that then runs outside. Of
a sandbox's /proc only what belongs to its processes stays writable.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

PROC = "/proc"

MAX_DEPTH = 4
"""Below a folder of it, until something is found that can be written: sysctls lie as deep."""
MAX_LOOKED_AT = 2000
"""Of the entries below one folder: one that has as many is covered unseen."""


def writable_kernel_files(uid: int, proc: str = PROC) -> tuple[str, ...]:
    """The entries of /proc that this user may write, or that hold what may be; sorted.

    Args:
        uid: Who runs programs.
        proc: Where it is mounted.
    """
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
    # Its group too: whoever may write that way is not worked out here.
    return bool(status.st_mode & (0o222 if status.st_uid == uid else 0o022))


def _below(folder: str) -> Iterator[os.stat_result | None]:
    """What lies below, as far as this process may look; `None` at the end of what is looked at."""
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
