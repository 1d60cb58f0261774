"""The workspace that a sandbox got is the one that was meant, or nothing begins in it.

A folder is mounted by its name, and whoever may write above it can put another one in its place, or a
link to one: a program of a session whose workspace is around this one. So what stands in the sandbox
is compared once it is built, before its program begins.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

BUILD_SECONDS = 10.0
"""In which a sandbox is built, on a machine that is busy."""
LOOK_SECONDS = 0.0005
"""Between two looks; it is mostly built by the first one."""

Identity = tuple[int, int]
"""The device and the number of a folder."""


def identity_of(folder: str) -> Identity | None:
    """What a folder is known by; `None` when it is not there."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_place(pid: int, workspace: str, wanted: Identity) -> None:
    """Waits until the sandbox is built, and compares; may take some milliseconds.

    Args:
        pid: The first process of it, which waits at the gate.
        workspace: Where the folder is mounted in it.
        wanted: The folder that was meant.

    Raises:
        OSError: It is another folder, or it was not built in time.
        ProcessLookupError: The sandbox has ended.
    """
    outside = os.stat("/")
    deadline = time.monotonic() + BUILD_SECONDS
    while time.monotonic() < deadline:
        root = os.stat(f"/proc/{pid}/root/")
        if (root.st_dev, root.st_ino) != (outside.st_dev, outside.st_ino):
            with suppress(FileNotFoundError, NotADirectoryError):  # half built
                found = os.stat(f"/proc/{pid}/root{workspace}")
                if (found.st_dev, found.st_ino) != wanted:
                    raise OSError("its workspace was replaced by another folder")
                return
        time.sleep(LOOK_SECONDS)
    raise OSError("it was not built in time")
