"""Which files of a workspace may have been written since a moment, by the times that inodes keep.

The time of an inode's last change (ctime) is set by the kernel alone. What moves together with a
folder that it lies in keeps its own, so folders in which anything came or went are told as well.
"""

from __future__ import annotations

import os

from ....runtime.processes import Written

MAX_ENTRIES = 100_000
"""Half a second of looking; in a larger workspace everything counts as written."""
MAX_WRITTEN = 2_000
"""More are not told one by one."""
SLACK_NS = 50_000_000
"""Times of files come from a clock that is some ticks behind ours."""
COARSE_NS = 2_000_000_000
"""Where they have no fractions, as on FAT, they may be as much behind."""


def written_since(workspace: str, since_ns: int) -> Written | None:
    """What may have been written since; `None` when there is too much to say.

    Of a repository's own folder it is told whether anything in it may have been.
    """
    files: list[str] = []
    newer: list[str] = []
    folders = [""]
    left = MAX_ENTRIES
    while folders:
        above = folders.pop()
        try:
            entries = list(os.scandir(os.path.join(workspace, above)))
        except OSError:
            continue  # it is gone, or nobody here may look
        left -= len(entries)
        for entry in entries:
            path = f"{above}/{entry.name}" if above else entry.name
            if entry.name == ".git":
                if _holds_newer(entry, since_ns):
                    files.append(path)
                continue
            is_newer = _is_newer(entry, since_ns)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
                if is_newer:
                    newer.append(path)
            elif is_newer:
                files.append(path)
        if left < 0 or len(files) + len(newer) > MAX_WRITTEN:
            return None
    return Written(files=tuple(files), folders=tuple(newer))


def _holds_newer(entry: os.DirEntry[str], since_ns: int) -> bool:
    if _is_newer(entry, since_ns):
        return True
    try:
        inside = list(os.scandir(entry.path))
    except OSError:
        return False  # a file, as of a worktree
    return any(_is_newer(each, since_ns) for each in inside)


def _is_newer(entry: os.DirEntry[str], since_ns: int) -> bool:
    try:
        changed = entry.stat(follow_symlinks=False).st_ctime_ns
    except OSError:
        return False  # it is gone
    return changed >= since_ns - (COARSE_NS if changed % 1_000_000_000 == 0 else SLACK_NS)
