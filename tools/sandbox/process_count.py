"""The kernel's own bound on how many processes a sandbox holds, for root.

`RLIMIT_NPROC` binds every user but root, and a program that doubles itself outgrows whoever only
looks. A control group binds root too; each sandbox joins one of its own before it is anything else.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

ROOTS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
"""Where the controller is, in the first version of control groups and in the second."""

TASKS_PER_PROCESS = 2
"""Threads are counted too; who only has too many processes is told so by the watchdog before."""

STALE_SECONDS = 60.0
"""An empty group that is so old was left by a runtime that was killed."""

_PREFIX = "callboard-"
_JOIN = 'echo 0 > "$0" && exec /usr/bin/env -i "$@"'
"""The shell puts words of its own into the environment, which a sandbox's must not hold."""

UNBOUNDED = (
    "as root, nothing bounds how many processes a program starts here: there is no control group "
    "for pids that can be written. Run callboard as an ordinary user."
)


class ProcessCount:
    """A control group for one sandbox; made by `open_process_count`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def joining(self, argv: list[str]) -> list[str]:
        """The command, which joins the group first, and does not run where it can't."""
        return ["/bin/sh", "-c", _JOIN, str(self._folder / "cgroup.procs"), *argv]

    def close(self) -> None:
        """Gives the group up, once all in it are gone. Idempotent."""
        with suppress(OSError):
            self._folder.rmdir()


def is_needed() -> bool:
    """Whether the limit of each user does not hold."""
    return os.geteuid() == 0


def open_process_count(most: int) -> ProcessCount:
    """A group that holds so many processes.

    Raises:
        OSError: There is none to be had.
    """
    root = _root()
    if root is None:
        raise OSError(UNBOUNDED)
    _sweep(root)
    folder = root / f"{_PREFIX}{secrets.token_hex(8)}"
    folder.mkdir()
    try:
        (folder / "pids.max").write_text(str(TASKS_PER_PROCESS * most), encoding="ascii")
    except OSError:
        folder.rmdir()
        raise
    return ProcessCount(folder)


def _root() -> Path | None:
    """Where groups can be made whose processes are counted."""
    for root in ROOTS:
        with suppress(OSError):
            if root == ROOTS[0]:
                is_counting = (root / "cgroup.procs").exists()
            else:
                controllers = (root / "cgroup.subtree_control").read_text(encoding="ascii")
                is_counting = "pids" in controllers.split()
            if is_counting and os.access(root, os.W_OK):
                return root
    return None


def _sweep(root: Path) -> None:
    """Removes what killed runtimes left; a group with processes in it can't be removed."""
    for folder in root.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > STALE_SECONDS:
                folder.rmdir()
