"""Whether a folder lies on another machine's disk, where SQLite's locks and log can't be trusted."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import StorageError

MOUNTS = Path("/proc/self/mountinfo")
"""What is mounted for this process; elsewhere than on Linux there is none, and nothing is refused."""

NETWORK_TYPES = ("nfs", "cifs", "smb", "9p", "fuse.sshfs")
"""How the types of such file systems begin: nfs4, smb3 and smbfs are among them."""


def check_local(folder: Path, mounts: Path = MOUNTS) -> None:
    """Raises `StorageError` when a folder is seen to lie on a network's file system.

    Two machines could write at once there, each with a lock that the other one does not see.
    """
    kind = _type_of(folder, mounts)
    if kind is not None and kind.startswith(NETWORK_TYPES):
        raise StorageError(
            f"{folder} is on a network file system ({kind}), where locks between machines and the "
            "store's write-ahead log can't be relied on. Choose a data directory on a local disk: "
            "--data, or CALLBOARD_HOME."
        )


def _type_of(folder: Path, mounts: Path) -> str | None:
    """The type of its file system, by the number of its device; `None` when nobody says."""
    try:
        device = folder.stat().st_dev
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        mount, _, rest = line.partition(" - ")
        if mount.split(" ")[2:3] == [wanted]:
            return rest.split(" ")[0]
    return None
