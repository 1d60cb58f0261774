"""Other file systems that are mounted in a workspace: programs see an empty folder in their place.

File tools refuse to leave the workspace's file system. A bind of the workspace brings along all that is mounted
below it, and what the machine mounts there later comes too, since bubblewrap's mounts receive the machine's. So
what is there before a start is covered; what has come until the program begins keeps it from beginning; and what
comes while it runs ends it (`running.program` looks).
"""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ....runtime.definitions import ErrorType, ToolFailure
from ...workspace.paths import is_below, shown
from ...workspace.resolver import mount_points
from .protected import EMPTY, Mount
from .roots import is_within

CLOSED = "closed"
"""In the place of a file: one that can't be opened."""
MAX_COVERED = 64
"""Containers mount a few caches and volumes in a workspace."""


def mounts_below(folder: str, pid: int | str = "self") -> list[str]:
    """Return what is mounted below a folder (a real path), as a process sees it; outermost first."""
    points = mount_points(Path(f"/proc/{pid}/mountinfo"))
    return sorted({point for point, _ in points if is_below(point, folder)})


def outermost(points: Sequence[str]) -> list[str]:
    """Return the mounts, as `mounts_below` has them, that do not lie in another of them."""
    kept: list[str] = []
    for point in points:
        if not any(is_below(point, each) for each in kept):
            kept.append(point)
    return kept


def covers(workspace: str, *, is_mounted: bool = True) -> list[Mount]:
    """Return what covers the other file systems in a workspace.

    Raises `ToolFailure` when they are too many, or nothing can be covered (`is_mounted` is false).
    """
    points = outermost(mounts_below(workspace))
    if points and (not is_mounted or len(points) > MAX_COVERED):
        is_much = f"more than {MAX_COVERED} file systems" if is_mounted else "another file system"
        raise ToolFailure(
            ErrorType.SANDBOX_UNAVAILABLE,
            f"Nothing was run: {is_much} can't be hidden from programs, and there is one mounted at "
            f"{shown(points[0])}. Unmount it, or work in another folder.",
            reason="another file system is mounted in the workspace",
        )
    return [(EMPTY if _is_folder(point) else CLOSED, point) for point in points]


def _is_folder(point: str) -> bool:
    """Return whether a folder is mounted, without a look at it: a server that is gone would keep us waiting."""
    above, name = os.path.split(point)
    with suppress(OSError), os.scandir(above) as entries:
        return any(each.name == name and each.is_dir(follow_symlinks=False) for each in entries)
    return True


class MountWatch:
    """What is mounted below one sandbox's workspace, from now on.

    `own` are the sandbox's own mounts; in those of `hidden` nobody sees anything. Raises `OSError` when its process
    is gone.
    """

    def __init__(self, pid: int, workspace: str, own: Sequence[str], hidden: Sequence[str]) -> None:
        self._pid = pid
        self._workspace = workspace
        self._own, self._hidden = frozenset(own), tuple(hidden)
        # Its state is that of its opening: what comes later makes it ready.
        self._fd = os.open(f"/proc/{pid}/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLPRI)

    def close(self) -> None:
        """Close its descriptor; call it once."""
        os.close(self._fd)

    def foreign(self) -> str | None:
        """Return something that is mounted there and is not the sandbox's own."""
        points = mounts_below(self._workspace, self._pid)
        others = (point for point in points if point not in self._own)
        return next((each for each in others if not is_within(each, self._hidden)), None)

    def news(self) -> str | None:
        """Return the same, when mounts have come or gone since the last look; cheap when none have."""
        if not self._poll.poll(0):
            return None
        with suppress(OSError):  # it has ended
            return self.foreign()
        return None
