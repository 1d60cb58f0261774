"""The checks of `callboard doctor` on the disk: folders, permissions, room, locks, the clock."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from ...config import daemon_file
from ...config.daemon_file import find_daemon
from ...config.keys import store as key_file
from ...config.keys import tokens as credentials
from ...runtime.disk.data_lock import LOCK_NAME
from ...runtime.disk.own_folders import OwnFolders
from ...runtime.errors import CallboardError
from ...runtime.store.file import DATABASE_NAME
from ...tools.sandbox.stale_stubs import stale_stubs
from ..terminal.escaping import safe_line
from .finding import Finding, good, problem, warning

MAX_NAMED = 20
"""Paths that a finding names: all of one workspace, or enough to know which are meant."""


def left_finding(data: Path, *more: str) -> Finding:
    """Check for read-only stubs that killed programs left: in the workspaces of a data folder, and in further folders."""
    found = stale_stubs(data, *more)
    if not found:
        return good("workspaces", "programs that ran there left nothing behind")
    named = ", ".join(map(safe_line, found[:MAX_NAMED]))
    rest = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return warning(
        "workspaces",
        f"callboard, or the machine, ended while a program ran, and left these empty places, which can't be "
        f"written: {named}{rest}",
        "the next start of callboard, in whatever folder, removes them, or the next program that runs there; "
        "or remove them by hand: rmdir",
    )


def purged_finding(data: Path) -> Finding:
    """Check for folders of purged sessions that could not be removed."""
    left = [str(folder) for folder in OwnFolders(data).left()]
    if not left:
        return good("purged folders", "nothing is left of sessions that were purged")
    named = ", ".join(map(safe_line, left[:MAX_NAMED]))
    rest = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
    return warning(
        "purged folders",
        f"their sessions were purged, and something of them is left: {named}{rest}",
        "callboard tries again when it starts, and each hour; the daemon's log says what is in the way",
    )


LITTLE_BYTES = 1024 * 1024 * 1024
"""Free bytes below which a busy week may fill the disk."""
NO_BYTES = 64 * 1024 * 1024
"""Free bytes below which the next burst of events fills the disk."""
MAX_AHEAD_SECONDS = 300.0
"""A stored file is never newer than now by more than clocks of a network differ."""

PRIVATE = (
    DATABASE_NAME,
    f"{DATABASE_NAME}-wal",
    key_file.KEYS_NAME,
    credentials.FILE_NAME,
    daemon_file.FILE_NAME,
)
"""Files that are their owner's alone."""


def file_findings(data: Path, config: Path) -> Iterator[Finding]:
    """Yield the findings about files."""
    yield _folder(data)
    yield _permissions((data, config))
    yield _disk(data)
    yield _clock(data)
    yield _locks(data)
    yield left_finding(data, os.path.realpath(os.curdir))
    yield purged_finding(data)


def _folder(data: Path) -> Finding:
    if not data.exists():
        return good("data folder", f"{data} is not there yet; the first run makes it")
    if not data.is_dir():
        return problem(
            "data folder", f"{data} is a file", f"move it away: mv {data} {data}.old, or use --data"
        )
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        return problem(
            "data folder", f"{data} can't be written", f"give it to yourself: chmod u+rwx {data}"
        )
    return good("data folder", f"{data}")


def _permissions(folders: tuple[Path, ...]) -> Finding:
    """Check the folders, and the files in them that hold secrets or the record."""
    wrong: list[tuple[Path, str]] = []
    for folder in folders:
        if _mode(folder) & 0o022:
            wrong.append((folder, "go-w"))
        files = [*(folder / name for name in PRIVATE), *folder.glob("master-*.key")]
        wrong.extend((file, "go-rwx") for file in files if _mode(file) & 0o077)
    if not wrong:
        return good("permissions", "only the owner can read and write the private files")
    names = ", ".join(str(path) for path, _ in wrong)
    fix = " && ".join(f"chmod {change} {path}" for path, change in wrong)
    return problem("permissions", f"others can read or write {names}", fix)


def _disk(data: Path) -> Finding:
    there = next(path for path in (data, *data.parents) if path.exists())
    free = shutil.disk_usage(there).free
    words = f"{free / 1024**3:.1f} GiB are free in {there}"
    fix = "free some space, or move the data folder: --data, or CALLBOARD_HOME"
    if free < NO_BYTES:
        return problem("disk", words, fix)
    return warning("disk", words, fix) if free < LITTLE_BYTES else good("disk", words)


def _clock(data: Path) -> Finding:
    """Check the clock: one that went back makes answers expire late and sessions sort wrongly."""
    newest = 0.0
    for name in (DATABASE_NAME, f"{DATABASE_NAME}-wal", credentials.FILE_NAME):
        try:
            newest = max(newest, (data / name).stat().st_mtime)
        except OSError:
            continue
    ahead = newest - time.time()
    if ahead > MAX_AHEAD_SECONDS:
        return problem(
            "clock",
            f"it is behind what is stored, by {ahead / 3600:.1f} h",
            "set it: timedatectl set-ntp true; what was stored before then keeps its times",
        )
    return good("clock", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))


def _locks(data: Path) -> Finding:
    """Check who holds the data folder; a lock ends with its process, whatever file is left."""
    path = data / daemon_file.FILE_NAME
    try:
        daemon = find_daemon(data)
    except CallboardError as error:
        return problem("locks", str(error), f"if no daemon runs: rm {path}")
    if daemon is not None:
        return good("locks", f"the daemon (process {daemon.pid}) has the data folder")
    if path.exists():
        return warning(
            "locks",
            f"{path} is of a daemon that has died",
            f"nothing needs it: `callboard serve` replaces it, or: rm {path}",
        )
    holder = holder_of(data)
    if holder is not None:
        return warning(
            "locks",
            f"process {holder} writes to {data}, and is not a daemon",
            f"wait for it, or end it, before `callboard serve`: kill {holder}",
        )
    return good("locks", "nobody writes to the data folder")


def holder_of(data: Path) -> str | None:
    """Return the process that holds the lock of a data folder."""
    try:
        descriptor = os.open(data / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "?"
    else:
        return None
    finally:
        os.close(descriptor)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except OSError:
        return 0
