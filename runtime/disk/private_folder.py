"""Private folders: made for their owner alone, whatever the umask, and refused if others can write."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from ..errors import StorageError, ValidationError
from ..text import shell_word

MODE = 0o700

OWN_NAMES = (
    *("callboard.", "keys.", "tokens.", "daemon.", "vectors.", "memories."),
    *("recordings", "models", "backups", "workspaces"),
)
"""The names in a data folder begin with these. A folder that holds others too, like a home, keeps its
permissions; our files in it are private each by itself."""


def at_home(path: Path) -> Path:
    """Return a path with the home folder in the place of its `~` or `~USER`; raise `ValidationError` for the home of nobody."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        user = path.parts[0][1:]
        whose = f"there is no user {user!r}" if user else "nobody knows the home folder"
        raise ValidationError(
            f"{path}: {whose}. Name the folder in full; for one that has this very name, put ./ before it."
        ) from error


def make_folders(folder: Path) -> None:
    """Make a folder and its missing parents for their owner alone; leave existing ones as they are.

    Raises `OSError`.
    """
    for missing in reversed([each for each in folder.parents if not each.exists()]):
        missing.mkdir(mode=MODE, exist_ok=True)
    folder.mkdir(mode=MODE, exist_ok=True)


def check_folder(folder: Path) -> None:
    """Raise `StorageError` if others can add or remove files in a folder."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "everybody" if mode & stat.S_IWOTH else "its group"
        raise StorageError(
            f"{folder} is not used: {who} can write to it (mode {mode:04o}), and so change what "
            f"callboard keeps there. Run `chmod go-w {shell_word(str(folder))}`, or choose another folder."
        )


def check_file(file: Path) -> None:
    """Raise `StorageError` if others can change a file, or put another one in its place; `OSError` as `stat`.

    A group in which only the owner is counts as nobody else, and so does a disk that is mounted read-only.
    """
    real = file.resolve()
    for place in dict.fromkeys((real, real.parent, file.parent)):
        found = place.stat()
        is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if is_sticky or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            continue
        by_all = found.st_mode & stat.S_IWOTH
        if not (by_all or _has_others(found)) or os.statvfs(place).f_flag & os.ST_RDONLY:
            continue
        who = "everybody" if by_all else "its group"
        raise StorageError(
            f"{file} is not used: {who} can write to {place}, and so change what it says. "
            f"Run `chmod go-w {shell_word(str(place))}`, or choose another file."
        )


def _has_others(found: os.stat_result) -> bool:
    """Whether the group of a file has other members than its owner, as far as this machine knows."""
    import grp  # here: mostly no group may write
    import pwd

    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return True
    is_own = owner.pw_gid == found.st_gid and group.gr_name == owner.pw_name
    return not is_own or not {owner.pw_name}.issuperset(group.gr_mem)


def close_folder(folder: Path) -> None:
    """Take from others the right to read a folder, if it is ours and holds only our files."""
    found = folder.stat()
    if not found.st_mode & 0o077 or found.st_uid != os.geteuid():
        return
    if all(name.startswith(OWN_NAMES) for name in os.listdir(folder)):
        folder.chmod(MODE)


def sync_path(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable; blocks for the disk.

    Raises:
        OSError: The path does not exist, or the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ── temporary files ──────────────────────────────────────────────────────────────────────────────
# Whoever writes a file whole gives it its name in one rename, and holds the temporary one locked until
# then. The kernel releases a dead writer's lock: so the next start can remove at once what a killed
# process has left, and never takes what another one writes.

OLD_SECONDS = 24 * 3600
"""Where a file system has no locks, age decides: no write lasts a day."""


def hold(fd: int) -> None:
    """Lock a temporary file until its descriptor is closed, where the file system has locks."""
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_left(name: str, dir_fd: int | None = None, *, is_folder: bool = False) -> bool:
    """Whether nobody holds this temporary file, or folder, any more."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=dir_fd)
    except OSError:
        return False
    status: os.stat_result | None = None
    try:
        status = os.fstat(fd)
        if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(status.st_mode):
            return False
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return status is not None and status.st_mtime < time.time() - OLD_SECONDS
    else:
        return True
    finally:
        os.close(fd)
